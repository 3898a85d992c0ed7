// What stands around a candidate, and what keeps it from being faster?
//
// One step on every axis: the values before and behind on an axis of numbers, every other value on
// one of words. A step that does not fit is projected all the same: it says what more memory would
// buy.
//
// Worked example: tp 4 of 1, 2, 4, 8 has the steps tp 2 and tp 8.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/projection/projection.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"

namespace eratos::search {

struct StepAway {
  AxisId axis = AxisId::tp;
  std::size_t from = 0;  // places in the axis's list
  std::size_t to = 0;
  const Rule* refused_by = nullptr;  // the rest says nothing then
  bool fits = false;
  Bytes missing;  // to fit
  double figure = 0;
  Seconds step;
};
std::vector<StepAway> steps_around(const Space& space, const Candidate& candidate,
                                   const projection::Options& options, Evaluator& evaluator);

// The legal step with the lowest figure, if it is below `figure`; nullptr when none is.
const StepAway* best_step(const std::vector<StepAway>& steps, double figure);

// The largest share of a step that is not work at the part's peak rate.
struct Loss {
  std::string_view what;  // "bubble", "exposed tp traffic", "kernel efficiency", ...
  double share = 0;       // of the step
};
Loss largest_loss(const projection::Projection& p);

}  // namespace eratos::search
