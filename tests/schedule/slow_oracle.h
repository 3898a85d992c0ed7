// The longest path through an order, the slow obvious way: all waits as a list of edges, relaxed
// until nothing moves. Shares no code with simulate(), nor its idea of working rank by rank.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule::testing {

struct SlowAnswer {
  std::vector<Picoseconds> start;  // by index into Order::actions
  std::vector<Picoseconds> end;
  Picoseconds makespan = 0;
};

// Nothing when the waits form a cycle.
inline std::optional<SlowAnswer> slow_simulate(const Order& order, const Costs& costs) {
  const int p = order.shape.pp;
  const int v = order.shape.chunks;
  const int stages = p * v;
  const auto n = order.actions.size();

  struct Node {
    int stage;
    int rank;
    Kind kind;
    int micro_batch;
    Picoseconds duration;
  };
  std::vector<Node> nodes;
  std::map<std::tuple<int, Kind, int>, std::size_t> index;
  for (int rank = 0; rank < p; ++rank) {
    for (const Action& a : order.of(rank)) {
      const ChunkCost& c = costs.chunks[static_cast<std::size_t>(rank * v + a.chunk)];
      const int stage = a.chunk * p + rank;
      index[{stage, a.kind, a.micro_batch}] = nodes.size();
      nodes.push_back(
          {stage, rank, a.kind, a.micro_batch, a.kind == Kind::forward ? c.forward : c.backward});
    }
  }
  const auto link = [&](int stage, Kind kind) -> Picoseconds {
    if (costs.links.empty() || p == 1) return 0;
    const auto slot = static_cast<std::size_t>((stage % p) * v + stage / p);
    if (kind == Kind::forward) return stage + 1 < stages ? costs.links[slot].forward : 0;
    return stage > 0 ? costs.links[slot].backward : 0;
  };

  struct Edge {
    std::size_t from, to;
    Picoseconds wait;  // start of `to` is at least end of `from` plus this
  };
  std::vector<Edge> edges;
  std::vector<Picoseconds> arrival(n, 0);  // what a blocking receive takes before the action
  for (std::size_t i = 0; i < n; ++i) {
    const Node& x = nodes[i];
    if (x.kind == Kind::backward) {
      edges.push_back({index.at({x.stage, Kind::forward, x.micro_batch}), i, 0});
    }
    const int from = x.kind == Kind::forward ? x.stage - 1 : x.stage + 1;
    if (from < 0 || from >= stages) continue;
    arrival[i] = link(from, x.kind);
    edges.push_back({index.at({from, x.kind, x.micro_batch}), i, arrival[i]});
  }
  for (std::size_t i = 1; i < n; ++i) {
    if (nodes[i].rank != nodes[i - 1].rank) continue;
    Picoseconds wait = 0;
    if (costs.sends == Sends::blocking) {
      wait = std::max(link(nodes[i - 1].stage, nodes[i - 1].kind), arrival[i]);
    }
    edges.push_back({i - 1, i, wait});
  }

  SlowAnswer answer;
  answer.start.assign(n, 0);
  if (costs.sends == Sends::blocking) answer.start = arrival;
  for (std::size_t round = 0;; ++round) {
    if (round > n + 1) return std::nullopt;
    bool moved = false;
    for (const Edge& e : edges) {
      const Picoseconds least = answer.start[e.from] + nodes[e.from].duration + e.wait;
      if (answer.start[e.to] < least) {
        answer.start[e.to] = least;
        moved = true;
      }
    }
    if (!moved) break;
  }
  for (std::size_t i = 0; i < n; ++i) {
    answer.end.push_back(answer.start[i] + nodes[i].duration);
    answer.makespan = std::max(answer.makespan, answer.end.back());
  }
  return answer;
}

}  // namespace eratos::schedule::testing
