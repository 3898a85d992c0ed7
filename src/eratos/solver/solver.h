// The optimal order under a memory cap, with the clock and the solver that the core does not have.
//
// The solver is CBC (COIN-OR branch and cut, EPL-2.0) when it was there as eratos was built;
// without it the core's own search answers, and Solution::solver says so.
//
// Worked example:
//   const schedule::OptimalProblem problem{.shape = {.pp = 2, .micro_batches = 2}, .costs = costs};
//   const auto s = solver::optimal_order(problem, {.time_limit = Seconds{10}});
//   s->makespan, s->gap, s->proven, s->solver ("moves, branch and bound"), s->order
#pragma once

#include <functional>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/schedule/optimal.h"

namespace eratos::solver {

// What a search that goes on has found so far.
struct Found {
  Picoseconds makespan = 0;  // of the best order, 0: none yet
  Picoseconds lower = 0;     // no order is faster
  Seconds seconds;           // since it began
};

struct Options {
  // Wall clock, all parts together; a shape that is proven sooner returns sooner. Half at most is
  // our own search, the rest CBC's, which runs in a process of its own and is killed when the time
  // is up.
  Seconds time_limit{30};
  // Asked many times a second while our own search runs and ten times while CBC does; false ends
  // the search as the time limit does, with the best order so far.
  std::function<bool(const Found&)> go_on = {};
};

// "cbc 2.10.8", or "" when eratos was built without a solver.
std::string_view solver_name();

// One line for the user when there is no solver, "" when there is one: what is missing and what
// that means.
std::string_view solver_note();

// The fastest order of the problem that fits costs.limits, or the best found when the time is up,
// with the gap to what is proven. Not deterministic when the time limit ends the search, or while
// CBC works: makespan and bound of a *proven* answer are the same every time (to
// kOptimalTolerance), the order need not be. CBC keeps state of the process; calls from several
// threads take turns. Errors: those of find_optimal (schedule/optimal.h), and a time limit that is
// not positive.
Result<schedule::Solution> optimal_order(const schedule::OptimalProblem& problem,
                                         const Options& options);

}  // namespace eratos::solver
