// What is the fastest order there is, when no rank may hold more than so many bytes?
//
// Every order of the actions of a shape is allowed: no pattern is asked for. The answer is the best
// order found with a proven lower bound, so that the gap between the two is real; when they meet,
// the order is optimal. Micro-batches are alike, so each chunk takes them in order, without loss:
// sort each chunk's forwards, backwards and weight gradients by time and number them anew; every
// input is then there at least as early, and the bytes do not change.
//
// Three parts: the best registered schedule that fits the limits starts, a search of our own with
// no dependency (moves, then branch and bound) improves it, and a Solver, when one is given,
// improves or proves further. Whoever found an order, it is checked by is_complete, simulate and
// find_peaks before it is returned.
//
// Worked example: p = 2, m = 2, F = 10, BW = 20, free sends, at most one micro-batch on each rank:
// rank 0 runs F0 BW0 F1 BW1, rank 1 the same, makespan 2 (10 + 10 + 20 + 20) = 120; with two on
// rank 0 it is 1F1B's 90, which is also the bound: rank 1 waits 10, works 60, and 20 remain.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

struct OptimalProblem {
  Shape shape;                              // output layer on the last stage
  Placement placement = Placement::looped;  // not bidirectional
  bool splits_backward = false;  // B and W as actions of their own, for every micro-batch
  Costs costs;  // overlapped or blocking sends; limits: most bytes a rank, or empty
};

// Best order known so far, and what is known about every order of the problem.
struct Solution {
  Order order;
  Picoseconds makespan = 0;  // simulate()'s
  Picoseconds lower = 0;     // no order that fits the limits is faster
  double gap = 0;            // (makespan - lower) / makespan
  // No order is faster by more than kOptimalTolerance of it.
  bool proven = false;
  std::string start;  // the registered schedule that the search began with, or "one by one"
  Picoseconds start_makespan = 0;
  // Who searched, in order: "moves", "branch and bound", then the solver's name; "bounds" when the
  // start needed no search.
  std::string solver;
  std::int64_t nodes = 0;  // orders and partial orders that were looked at
  Seconds seconds;         // of search; filled by whoever has a clock
};

// Solvers compute in doubles; what our own search proves is exact.
inline constexpr double kOptimalTolerance = 1e-6;

// True: give up now. Called often; the core has no clock of its own.
using Stop = std::function<bool()>;

// How long our own search may go on. Without a `stop` that says true the answer is deterministic.
struct Effort {
  std::int64_t moves = 50'000;  // whole orders tried, each a move away from the one before
  std::int64_t branch_nodes =
      5'000'000;  // partial orders that branch and bound looks at after that
  Stop stop = {};
  // Told whenever the best order or the bound has become better, the start included.
  std::function<void(const Solution& best)> better = {};
};

// What a solver comes back with. Neither part is trusted blindly: an order that is incomplete, does
// not fit or is slower than `best` is dropped; `lower` must hold for every order.
struct Proposal {
  Order order;            // empty actions: none found
  Picoseconds lower = 0;  // 0: nothing proven
  std::int64_t nodes = 0;
  bool tried = true;  // false: there was no time to begin
};

// Something outside the core that solves the problem as a mathematical program.
class Solver {
 public:
  virtual ~Solver() = default;
  virtual std::string_view name() const = 0;
  // `best` is complete and fits: a warm start, and nothing slower needs to be looked for.
  // It minds the time by itself.
  virtual Result<Proposal> solve(const OptimalProblem& problem, const Solution& best) = 0;
};

// Yes-or-no choices of the problem as a mathematical program: pairs of actions of one rank whose
// order neither the micro-batches' numbers nor the data they pass decide.
// v = 1: p m (m - 1) / 2; 8 x 16: 960.
std::int64_t order_choices(const OptimalProblem& problem);

// Above this many a shape is refused: beyond it neither search nor solver moves away from where it
// began within minutes.
inline constexpr std::int64_t kMostOrderChoices = 20'000;
// And above this many actions: the table of what comes before what has the square of it.
inline constexpr std::int64_t kMostOptimalActions = 4096;

// Least time that any order takes that fits the limits: bounds.h's, the turns that the limits
// enforce (a rank that holds k micro-batches at most starts one more only when one is done), and
// each rank as a machine alone with release times and tails (Jackson's preemptive schedule).
// Source: J. Carlier, "The one-machine sequencing problem", EJOR 11 (1982), for the last.
Picoseconds optimal_lower(const OptimalProblem& problem);

// `solver` may be null.
// Errors: a shape that no order has, a cut output layer, a bidirectional placement, more than
// kMostOrderChoices or kMostOptimalActions, limits below what one micro-batch holds (with rank and
// bytes), and whatever the solver says.
Result<Solution> find_optimal(const OptimalProblem& problem, Solver* solver, const Effort& effort);

}  // namespace eratos::schedule
