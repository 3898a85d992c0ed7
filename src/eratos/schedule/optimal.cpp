#include "eratos/schedule/optimal.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "eratos/base/check.h"
#include "eratos/base/rng.h"
#include "eratos/schedule/bounds.h"
#include "eratos/schedule/optimal_graph.h"
#include "eratos/schedule/peak.h"
#include "eratos/schedule/registry.h"

namespace eratos::schedule {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::optional<Diagnostic> refuse(const Shape&) { return std::nullopt; }

// What bounds.h and refusal() ask of a schedule, for orders of any pattern.
Schedule any_schedule(const OptimalProblem& problem) {
  Schedule s;
  s.name = "optimal";
  s.placement = problem.placement;
  s.chunks = problem.shape.chunks;
  s.splits_backward = problem.splits_backward;
  s.refusal = refuse;
  return s;
}

std::optional<Diagnostic> refusal_of(const OptimalProblem& problem) {
  const Shape& s = problem.shape;
  if (auto why = refusal(any_schedule(problem), s)) return why;
  if (problem.placement == Placement::bidirectional) {
    return Diagnostic{
        .message = "optimal searches one copy of the model, not two in both directions",
        .cure = "choose a looped or vee placement",
        .field = "schedule.placement"};
  }
  if (problem.placement == Placement::vee && s.chunks != 2) {
    return Diagnostic{
        .message = "a vee has two chunks a rank, but vpp is " + std::to_string(s.chunks),
        .cure = "set vpp to 2",
        .field = "parallel.vpp"};
  }
  if (const std::int64_t n = order_choices(problem); n > kMostOrderChoices) {
    return Diagnostic{.message = "optimal needs " + std::to_string(n) + " binaries for pp " +
                                 std::to_string(s.pp) + " x vpp " + std::to_string(s.chunks) +
                                 " x " + std::to_string(s.micro_batches) +
                                 " micro-batches; it takes at most " +
                                 std::to_string(kMostOrderChoices),
                      .cure =
                          "ask for fewer micro-batches, stages or chunks, or choose another "
                          "schedule",
                      .field = "schedule.algorithm"};
  }
  const std::int64_t each = problem.splits_backward ? 3 : 2;
  if (const std::int64_t n = each * slot_count(s) * s.micro_batches; n > kMostOptimalActions) {
    return Diagnostic{.message = "optimal takes at most " + std::to_string(kMostOptimalActions) +
                                 " actions, but this shape has " + std::to_string(n),
                      .cure =
                          "ask for fewer micro-batches, stages or chunks, or choose another "
                          "schedule",
                      .field = "schedule.algorithm"};
  }
  return std::nullopt;
}

// One micro-batch after another, down and up: no order holds less. On its way down a micro-batch
// comes to hold every chunk of each rank at once, whatever the order, and here nothing else is
// there.
void one_by_one(const OptimalProblem& problem, Order& order) {
  const Shape& s = problem.shape;
  begin_order(s, problem.placement, order);
  for (int rank = 0; rank < s.pp; ++rank) {
    for (int i = 0; i < s.micro_batches; ++i) {
      for (int c = 0; c < s.chunks; ++c) {
        order.actions.push_back({i, static_cast<std::int16_t>(c), Kind::forward});
      }
      for (int c = s.chunks - 1; c >= 0; --c) {
        const auto chunk = static_cast<std::int16_t>(c);
        if (problem.splits_backward) {
          order.actions.push_back({i, chunk, Kind::input_gradient});
          order.actions.push_back({i, chunk, Kind::weight_gradient});
        } else {
          order.actions.push_back({i, chunk, Kind::backward});
        }
      }
    }
    end_rank(order);
  }
}

// The first rank above its limit, or -1.
int over_limit(const OptimalProblem& problem, const Peaks& peaks) {
  const auto& limits = problem.costs.limits;
  for (std::size_t r = 0; r < limits.size(); ++r) {
    if (peaks.ranks[r].held > limits[r]) return static_cast<int>(r);
  }
  return -1;
}

// Holds the best so far and lets nothing in that is not checked.
class Keeper {
 public:
  Keeper(const OptimalProblem& problem, const ActionGraph& graph, const Effort& effort,
         Solution& best)
      : problem_(problem), graph_(graph), effort_(effort), best_(best) {}

  // True when the order is complete, fits and is faster than the best (or the first).
  bool offer(const Order& order) {
    const auto is_ours = [&](const Action& a) {
      return a.kind == Kind::forward || a.kind == Kind::backward ||
             (problem_.splits_backward &&
              (a.kind == Kind::input_gradient || a.kind == Kind::weight_gradient));
    };
    if (!std::all_of(order.actions.begin(), order.actions.end(), is_ours)) return false;
    if (order.shape.pp != problem_.shape.pp || order.shape.chunks != problem_.shape.chunks ||
        order.shape.micro_batches != problem_.shape.micro_batches ||
        order.placement != problem_.placement || !is_complete(order)) {
      return false;
    }
    const auto ranks = read_order(graph_, order);
    write_order(problem_, graph_, ranks, scratch_);
    if (!is_complete(scratch_)) return false;
    if (!simulate(scratch_, problem_.costs, workspace_, timing_)) return false;
    if (over_limit(problem_, timing_.peaks) >= 0) return false;
    if (!best_.order.actions.empty() && timing_.makespan >= best_.makespan) return false;
    best_.order = scratch_;
    best_.makespan = timing_.makespan;
    tell();
    return true;
  }

  void raise_lower(Picoseconds lower) {
    const Picoseconds before = best_.lower;
    best_.lower = std::min(best_.makespan, std::max(best_.lower, lower));
    if (best_.lower > before) tell();
  }
  bool is_proven() const { return best_.lower >= best_.makespan; }

  void settle() {
    const auto makespan = static_cast<double>(best_.makespan);
    best_.gap = makespan > 0 ? static_cast<double>(best_.makespan - best_.lower) / makespan : 0;
    best_.proven = best_.gap <= kOptimalTolerance;
  }

 private:
  void tell() const {
    if (effort_.better) effort_.better(best_);
  }

  const OptimalProblem& problem_;
  const ActionGraph& graph_;
  const Effort& effort_;
  Solution& best_;
  Order scratch_;
  Workspace workspace_;
  Timing timing_;
};

// The best of the registered schedules with this placement; one that keeps BW whole may start a
// problem that splits it, W right after B.
void start_from_registered(const OptimalProblem& problem, Keeper& keeper, Solution& best) {
  for (const Schedule* schedule : kSchedules) {
    if (schedule->placement != problem.placement || schedule->side_by_side) continue;
    if (schedule->splits_backward && !problem.splits_backward) continue;
    Order order;
    if (!make_order(*schedule, problem.shape, problem.costs, order)) continue;
    if (keeper.offer(order)) best.start = schedule->name;
  }
}

// Moves of one action to another place on its rank, kept when the makespan does not become longer
// than it was some moves ago.
// Source: Burke and Bykov, "The late acceptance hill-climbing heuristic", EJOR 258 (2017); its list
// of earlier makespans has 50 entries here.
class Moves {
 public:
  Moves(const OptimalProblem& problem, const ActionGraph& graph, const Order& start,
        Picoseconds makespan)
      : problem_(problem),
        graph_(graph),
        ranks_(read_order(graph, start)),
        makespan_(makespan),
        earlier_(50, makespan) {}

  // True when the move made an order faster than `best`, which is then in order().
  bool step(Picoseconds best) {
    auto& rank = ranks_[at(static_cast<std::int64_t>(rng_.below(ranks_.size())))];
    const std::size_t from = rng_.below(rank.size());
    // Up to the next action of the same sequence on either side.
    const int sequence = rank[from] / graph_.micro_batches;
    const auto same = [&](std::size_t i) { return rank[i] / graph_.micro_batches == sequence; };
    std::size_t low = from;
    while (low > 0 && !same(low - 1)) --low;
    std::size_t high = from;
    while (high + 1 < rank.size() && !same(high + 1)) ++high;
    if (low == high) return false;
    std::size_t to = low + rng_.below(high - low);
    if (to >= from) ++to;
    shift(rank, from, to);
    const Picoseconds before = makespan_;
    Picoseconds& reference = earlier_[at(count_++ % static_cast<std::int64_t>(earlier_.size()))];
    if (!evaluate() || (makespan_ > before && makespan_ > reference)) {
      shift(rank, to, from);
      makespan_ = before;
    }
    reference = std::min(reference, makespan_);
    return makespan_ < best;
  }
  const Order& order() {
    write_order(problem_, graph_, ranks_, order_);
    return order_;
  }

 private:
  static void shift(std::vector<int>& rank, std::size_t from, std::size_t to) {
    const auto begin = rank.begin();
    const auto f = static_cast<std::ptrdiff_t>(from);
    const auto t = static_cast<std::ptrdiff_t>(to);
    if (f < t) {
      std::rotate(begin + f, begin + f + 1, begin + t + 1);
    } else {
      std::rotate(begin + t, begin + f, begin + f + 1);
    }
  }

  bool evaluate() {
    write_order(problem_, graph_, ranks_, order_);
    if (!simulate(order_, problem_.costs, workspace_, timing_)) return false;
    if (over_limit(problem_, timing_.peaks) >= 0) return false;
    makespan_ = timing_.makespan;
    // A forward after its own backward would have been stuck; W before its B is stuck too.
    return true;
  }

  const OptimalProblem& problem_;
  const ActionGraph& graph_;
  std::vector<std::vector<int>> ranks_;
  Picoseconds makespan_;
  std::vector<Picoseconds> earlier_;
  std::int64_t count_ = 0;
  Rng rng_{1};
  Order order_;
  Workspace workspace_;
  Timing timing_;
};

void add_name(std::string& names, std::string_view name) {
  if (!names.empty()) names += ", ";
  names += name;
}

// Moves first: a good order found soon lets branch and bound drop more.
void search(const OptimalProblem& problem, const ActionGraph& graph, const Effort& effort,
            Keeper& keeper, Solution& best) {
  if (effort.moves > 0) {
    add_name(best.solver, "moves");
    Moves moves(problem, graph, best.order, best.makespan);
    for (std::int64_t i = 0; i < effort.moves && !keeper.is_proven(); ++i) {
      if (i % 64 == 0 && effort.stop && effort.stop()) return;
      ++best.nodes;
      if (moves.step(best.makespan)) keeper.offer(moves.order());
    }
  }
  if (keeper.is_proven() || effort.branch_nodes <= 0) return;
  add_name(best.solver, "branch and bound");
  const BranchResult found =
      branch(graph, best.makespan, best.lower, effort.branch_nodes, effort.stop);
  best.nodes += found.nodes;
  if (!found.ranks.empty()) {
    Order order;
    write_order(problem, graph, found.ranks, order);
    ERATOS_CHECK(keeper.offer(order));
  }
  keeper.raise_lower(found.lower);
}

}  // namespace

std::int64_t order_choices(const OptimalProblem& problem) {
  // On each rank, pairs of its sequences: with one before the other in every micro-batch's data,
  // only the pairs in which it has the higher micro-batch are open; of the rest, all.
  const double m = problem.shape.micro_batches;
  const double v = problem.shape.chunks;
  const double related = m * (m - 1) / 2;
  // F and the gradients of all chunks are one chain.
  double open = (2 * v) * (2 * v - 1) / 2 * related;
  if (problem.splits_backward) {
    // W of a chunk follows the F of all chunks, and B of its own and deeper ones; the rest of B and
    // the other W have nothing to do with it.
    const double before = v * v + v * (v + 1) / 2;
    open += before * related + (v * v - v * (v + 1) / 2 + v * (v - 1) / 2) * m * m;
  }
  open *= problem.shape.pp;
  constexpr double kCeiling = 9e18;
  return static_cast<std::int64_t>(std::min(open, kCeiling));
}

Picoseconds optimal_lower(const OptimalProblem& problem) {
  return std::max(bounds(any_schedule(problem), problem.shape, problem.costs).lower,
                  graph_lower(action_graph(problem)));
}

Result<Solution> find_optimal(const OptimalProblem& problem, Solver* solver, const Effort& effort) {
  if (auto why = refusal_of(problem)) return fault(std::move(*why));
  const Shape& s = problem.shape;
  ERATOS_CHECK(problem.costs.chunks.size() == at(slot_count(s)));
  ERATOS_CHECK(problem.costs.limits.empty() || problem.costs.limits.size() == at(s.pp));

  Solution best;
  Order serial;
  one_by_one(problem, serial);
  Peaks peaks;
  find_peaks(serial, problem.costs.chunks, {}, peaks);
  if (const int rank = over_limit(problem, peaks); rank >= 0) {
    const auto r = at(rank);
    return fault({.message = "rank " + std::to_string(rank) + " may hold " +
                             std::to_string(problem.costs.limits[r]) +
                             " bytes, but one micro-batch alone holds " +
                             std::to_string(peaks.ranks[r].held) + " there",
                  .cure = "raise the limit, or make micro-batches smaller",
                  .field = "schedule.memory_limit"});
  }

  const ActionGraph graph = action_graph(problem);
  Keeper keeper(problem, graph, effort, best);
  ERATOS_CHECK(keeper.offer(serial));
  best.start = "one by one";
  start_from_registered(problem, keeper, best);
  best.start_makespan = best.makespan;
  keeper.raise_lower(
      std::max(bounds(any_schedule(problem), s, problem.costs).lower, graph_lower(graph)));

  if (keeper.is_proven()) {
    add_name(best.solver, "bounds");
  } else {
    search(problem, graph, effort, keeper, best);
  }
  if (!keeper.is_proven() && solver != nullptr) {
    keeper.settle();
    const Result<Proposal> proposal = solver->solve(problem, best);
    if (!proposal) return tl::unexpected<Diagnostics>(proposal.error());
    if (proposal->tried) add_name(best.solver, solver->name());
    best.nodes += proposal->nodes;
    if (!proposal->order.actions.empty()) keeper.offer(proposal->order);
    keeper.raise_lower(proposal->lower);
  }
  keeper.settle();
  return best;
}

}  // namespace eratos::schedule
