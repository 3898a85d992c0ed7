// The answer of `search --method layers`: which layers are recomputed and how they stand on stages,
// beside the best choice that treats all stages alike.
#pragma once

#include <string>
#include <vector>

#include "eratos/report/answer.h"
#include "eratos/report/check.h"
#include "eratos/report/table.h"
#include "eratos/search/layer_plans.h"
#include "eratos/search/legality.h"
#include "eratos/search/method.h"

namespace eratos::report {

struct PlannedAnswer {
  Answer answer;
  const search::PlannedCandidate* planned = nullptr;
};

struct LayersAnswer {
  const search::Space* space = nullptr;  // nothing of layers left to choose
  const search::LayerPlans* plans = nullptr;
  bool interrupted = false;
  std::string version;
  std::vector<PlannedAnswer> top;  // best first
  // Every uniform and block recomputation, and every set of modules, on even and balanced stages.
  const search::Space* alike_space = nullptr;
  const search::Outcome* alike = nullptr;
  const Answer* own = nullptr;  // the job as it came; null where it is not legal
  std::vector<Nearby> nearby;   // where nothing fits
  // Where nothing is legal: each alone stands in the way.
  std::vector<const search::Rule*> deciding;
  Bytes capacity;               // less the margin
  std::string target;           // whose file says the plans; "" where the framework has no writer
};

std::string layers_text(const LayersAnswer& a, const Style& style);
std::string layers_json(const LayersAnswer& a);

}  // namespace eratos::report
