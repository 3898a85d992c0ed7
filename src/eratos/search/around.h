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
#include "eratos/search/objective.h"
#include "eratos/search/space.h"

namespace eratos::search {

struct StepAway {
  AxisId axis = AxisId::tp;
  std::size_t from = 0;  // places in the axis's list
  std::size_t to = 0;
  const Rule* refused_by = nullptr;  // the rest says nothing then
  bool fits = false;
  Bytes missing;  // to fit
  Bytes device_peak;
  int limit = -1;     // place in the aim of the first limit against it
  double figure = 0;  // seconds a token
  double aimed = 0;   // what the search minimises
  Seconds step;
};
std::vector<StepAway> steps_around(const Space& space, const Candidate& candidate,
                                   const projection::Options& options, const Aim& aim,
                                   Evaluator& evaluator);

// The legal step within the limits that the search would like best, if it is better than `aimed`;
// nullptr when none is.
const StepAway* best_step(const std::vector<StepAway>& steps, double aimed);

// The largest share of a step that is not work at the part's peak rate.
struct Loss {
  std::string_view what;  // "bubble", "exposed tp traffic", "kernel efficiency", ...
  double share = 0;       // of the step
};
Loss largest_loss(const projection::Projection& p);
// All of them, the largest first, and what is left: work at the peak rate.
std::vector<Loss> losses_of(const projection::Projection& p);

// Is a figure within the band of error of the best's step? Errors of configurations of one job have
// much in common, so a rival's own band is not added.
// Worked example: a step of 10 s with a band of 9.5 to 10.5 s has one of 10.4 s as a rival.
bool is_rival(const projection::Projection& best, double best_figure, double figure);

// Is the best a sharp peak or a broad basin? Of the single steps that are legal and fit: how many
// are rivals.
struct Basin {
  int steps = 0;
  int within = 0;
};
Basin basin_of(const std::vector<StepAway>& steps, const projection::Projection& best,
               double figure);

// Where the peak's band of error reaches beyond the capacity: the step that costs least of those
// whose band does not; nullptr where none helps.
const StepAway* safer_step(const std::vector<StepAway>& steps, const projection::Projection& best);
bool may_run_out(const projection::Projection& p);

}  // namespace eratos::search
