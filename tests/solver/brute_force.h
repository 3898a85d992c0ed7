// Every order of a tiny problem, simulated: what an optimum is judged by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "eratos/schedule/optimal.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule::testing {

// What one rank does for one micro-batch, in the order that its data force. With one chunk, and
// with two whose backward is whole, that order is the only one.
inline std::vector<Action> chain(const OptimalProblem& problem, int micro_batch) {
  std::vector<Action> actions;
  for (int c = 0; c < problem.shape.chunks; ++c) {
    actions.push_back({micro_batch, static_cast<std::int16_t>(c), Kind::forward});
  }
  for (int c = problem.shape.chunks - 1; c >= 0; --c) {
    const auto chunk = static_cast<std::int16_t>(c);
    if (problem.splits_backward) {
      actions.push_back({micro_batch, chunk, Kind::input_gradient});
      actions.push_back({micro_batch, chunk, Kind::weight_gradient});
    } else {
      actions.push_back({micro_batch, chunk, Kind::backward});
    }
  }
  return actions;
}

// All ways to merge the chains of all micro-batches, which are not taken in order.
inline std::vector<std::vector<Action>> rank_orders(const OptimalProblem& problem) {
  const auto m = static_cast<std::size_t>(problem.shape.micro_batches);
  std::vector<std::vector<Action>> chains;
  for (std::size_t i = 0; i < m; ++i) chains.push_back(chain(problem, static_cast<int>(i)));
  std::vector<std::vector<Action>> all;
  std::vector<Action> now;
  std::vector<std::size_t> next(m, 0);
  const auto go = [&](const auto& self) -> void {
    if (now.size() == m * chains[0].size()) {
      all.push_back(now);
      return;
    }
    for (std::size_t i = 0; i < m; ++i) {
      if (next[i] == chains[i].size()) continue;
      now.push_back(chains[i][next[i]++]);
      self(self);
      --next[i];
      now.pop_back();
    }
  };
  go(go);
  return all;
}

// Least makespan of all orders that fit the limits; the largest integer when none does.
inline Picoseconds brute_force(const OptimalProblem& problem) {
  const std::vector<std::vector<Action>> orders = rank_orders(problem);
  Picoseconds best = std::numeric_limits<Picoseconds>::max();
  Order order;
  Workspace workspace;
  Timing timing;
  std::vector<std::size_t> choice(static_cast<std::size_t>(problem.shape.pp), 0);
  for (;;) {
    begin_order(problem.shape, problem.placement, order);
    for (const std::size_t c : choice) {
      order.actions.insert(order.actions.end(), orders[c].begin(), orders[c].end());
      end_rank(order);
    }
    if (simulate(order, problem.costs, workspace, timing) && timing.makespan < best) {
      bool fits = true;
      for (std::size_t r = 0; r < problem.costs.limits.size(); ++r) {
        fits = fits && timing.peaks.ranks[r].held <= problem.costs.limits[r];
      }
      if (fits) best = timing.makespan;
    }
    std::size_t r = 0;
    while (r < choice.size() && ++choice[r] == orders.size()) choice[r++] = 0;
    if (r == choice.size()) return best;
  }
}

}  // namespace eratos::schedule::testing
