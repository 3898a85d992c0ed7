// A search method, run: batches answered on several threads, told on standard error where it takes
// longer than a second, ended cleanly by Ctrl-C.
#pragma once

#include <cstdint>

#include "eratos/calibration/calibration.h"
#include "eratos/projection/projection.h"
#include "eratos/search/method.h"
#include "eratos/search/objective.h"
#include "eratos/search/space.h"

namespace eratos::apps {

class SearchStore;

struct SearchRun {
  const search::Space& space;
  const calibration::Calibration& calibration;
  projection::Options options;
  const search::Aim& aim;
  int threads = 0;               // 0: as many as the machine has
  SearchStore* store = nullptr;  // answers what it knows, and keeps the rest
  std::uint64_t seed = 0;        // of annealing
  std::uint64_t budget = 8192;   // its projections
};

// Ctrl-C during one run ends the runs behind it at once as well.
// True when the method came to its end, false when Ctrl-C ended it between two batches.
bool run_method(search::Method& method, const SearchRun& run);

}  // namespace eratos::apps
