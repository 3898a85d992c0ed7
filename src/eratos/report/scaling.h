// The best configuration of one job on clusters of several sizes and kinds: how far does it scale,
// where does the curve bend, and which is the cheapest way to be done in time?
//
// Efficiency is tokens a second and accelerator against the smallest size of the same cluster that
// has an answer. Where failures are told of, the knee counts the useful share of the time alone.
#pragma once

#include <string>
#include <vector>

#include "eratos/report/search.h"

namespace eratos::report {

struct Scaling {
  std::vector<const SearchAnswer*> each;  // one search a size; their tops hold at most one
  bool batch_grows = false;  // with the accelerators; else it is the job's on every size
};

std::string scaling_text(const Scaling& scaling, const Style& style);
std::string scaling_json(const Scaling& scaling);

}  // namespace eratos::report
