// The longest path through an order, the slow obvious way: all waits as a list of edges, relaxed
// until nothing moves; and the bytes a rank holds, counted anew at every action. Shares no code
// with simulate() or find_peaks(), nor the idea of working rank by rank.
#pragma once

#include <algorithm>
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
  std::vector<RankTime> ranks;
  Picoseconds makespan = 0;
};

// A place in the model, found without Order::before and after.
struct Place {
  int copy;
  int stage;
  friend auto operator<=>(const Place&, const Place&) = default;
};
inline Place place_of(const Order& order, int rank, int chunk) {
  const int p = order.shape.pp;
  if (order.placement == Placement::looped) return {0, chunk * p + rank};
  if (order.placement == Placement::vee) return {0, chunk == 0 ? rank : 2 * p - 1 - rank};
  return {chunk, chunk == 0 ? rank : p - 1 - rank};
}

// Nothing when the waits form a cycle.
inline std::optional<SlowAnswer> slow_simulate(const Order& order, const Costs& costs) {
  const Shape& s = order.shape;
  const int p = s.pp;
  const int v = s.chunks;
  const int last_stage = (order.placement == Placement::bidirectional ? p : p * v) - 1;
  const bool blocking = costs.sends == Sends::blocking;
  const bool cut = s.output != OutputLayer::last_stage;
  const bool two = cut && s.output != OutputLayer::one_barrier;
  const bool beside = s.output != OutputLayer::interlaced;  // collectives run beside compute

  // A node is an action, two actions side by side, or a barrier of a micro-batch (rank -1).
  struct Node {
    int rank = -1;
    Picoseconds duration = 0;
    Picoseconds send = 0;     // blocking: what its sends take out of the gap after it
    Picoseconds receive = 0;  // blocking: what its receives take out of the gap before it
    Picoseconds start = 0;
  };
  std::vector<Node> nodes;
  std::vector<std::size_t> node_of;  // by index into order.actions
  struct Where {
    std::size_t node;
    int rank;
    int slot;
  };
  // F and W of a place, and S and T of a rank (as copy -1); a backward of either kind under BW.
  std::map<std::tuple<int, int, Kind, int>, Where> index;
  const auto plain = [](Kind k) { return k == Kind::input_gradient ? Kind::backward : k; };

  const auto duration = [&](const Action& a, int rank) -> Picoseconds {
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(rank * v + a.chunk)];
    switch (a.kind) {
      case Kind::forward:
        return c.forward;
      case Kind::backward:
        return c.backward;
      case Kind::input_gradient:
        return c.input_gradient;
      case Kind::weight_gradient:
        return c.weight_gradient;
      case Kind::output:
        return costs.outputs[static_cast<std::size_t>(rank)].output;
      case Kind::output_gradient:
        return costs.outputs[static_cast<std::size_t>(rank)].output_gradient;
    }
    return 0;
  };
  for (int rank = 0; rank < p; ++rank) {
    const auto actions = order.of(rank);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& a = actions[i];
      const int slot = rank * v + a.chunk;
      const bool second = i > 0 && actions[i - 1].with_next;
      if (!second) {
        nodes.push_back({rank, duration(a, rank)});
      } else {
        const Action& f = actions[i - 1];
        const ChunkCost& forward = costs.chunks[static_cast<std::size_t>(rank * v + f.chunk)];
        const ChunkCost& backward = costs.chunks[static_cast<std::size_t>(slot)];
        const Picoseconds alone = duration(a, rank);
        const Picoseconds communication = forward.forward_hideable + backward.backward_hideable;
        const Picoseconds compute = forward.forward + alone - communication;
        nodes.back().duration =
            std::max(std::max(compute, communication), std::max(forward.forward, alone));
      }
      node_of.push_back(nodes.size() - 1);
      const bool share = a.kind == Kind::output || a.kind == Kind::output_gradient;
      const Place place = place_of(order, rank, a.chunk);
      index[{share ? -1 : place.copy, share ? rank : place.stage, plain(a.kind), a.micro_batch}] = {
          nodes.size() - 1, rank, slot};
    }
  }
  std::map<std::pair<int, int>, std::size_t> barriers;  // which, micro-batch
  const int m = s.micro_batches / (order.placement == Placement::bidirectional ? 2 : 1);
  for (int which = 0; cut && which < (two ? 2 : 1); ++which) {
    for (int mb = 0; mb < m; ++mb) {
      barriers[{which, mb}] = nodes.size();
      nodes.push_back({});
    }
  }

  struct Edge {
    std::size_t from, to;
    Picoseconds wait;  // start of `to` is at least end of `from` plus this
  };
  std::vector<Edge> edges;
  std::vector<Edge> inputs;  // of them, those between an action and what it takes
  const auto input = [&](std::size_t from, std::size_t to, Picoseconds wait, bool hidden = false) {
    inputs.push_back({from, to, wait});
    if (blocking && !hidden) nodes[to].receive = std::max(nodes[to].receive, wait);
  };
  const auto transfer = [&](const Where& from, const Where& to, bool forward) -> Picoseconds {
    if (costs.links.empty() || from.rank == to.rank) return 0;
    const LinkCost& l = costs.links[static_cast<std::size_t>(from.slot)];
    const Picoseconds time = forward ? l.forward : l.backward;
    if (blocking) nodes[from.node].send = std::max(nodes[from.node].send, time);
    return time;
  };
  for (const auto& [key, here] : index) {
    const auto [copy, stage, kind, mb] = key;
    switch (kind) {
      case Kind::forward:
        if (stage > 0) {
          const Where from = index.at({copy, stage - 1, kind, mb});
          input(from.node, here.node, transfer(from, here, true));
        }
        break;
      case Kind::backward:
        if (stage < last_stage) {
          const Where from = index.at({copy, stage + 1, kind, mb});
          input(from.node, here.node, transfer(from, here, false));
        } else if (cut) {
          input(barriers.at({two ? 1 : 0, mb}), here.node,
                two ? costs.output_links.second_barrier : costs.output_links.barrier, true);
        }
        input(index.at({copy, stage, Kind::forward, mb}).node, here.node, 0);
        break;
      case Kind::weight_gradient:
        input(index.at({copy, stage, Kind::backward, mb}).node, here.node, 0);
        break;
      case Kind::output: {
        const Where from = index.at({0, last_stage, Kind::forward, mb});
        input(from.node, here.node, from.rank == stage ? 0 : costs.output_links.broadcast, beside);
        edges.push_back({here.node, barriers.at({0, mb}), 0});
        break;
      }
      case Kind::output_gradient:
        input(barriers.at({0, mb}), here.node, costs.output_links.barrier, beside);
        if (two) edges.push_back({here.node, barriers.at({1, mb}), 0});
        break;
      case Kind::input_gradient:
        break;
    }
  }
  edges.insert(edges.end(), inputs.begin(), inputs.end());
  // Interlaced: the node a rank's node stands for, the barrier after its last T.
  std::map<std::size_t, std::size_t> stands;
  for (std::size_t i = 1; i < node_of.size(); ++i) {
    const std::size_t before = node_of[i - 1];
    const std::size_t here = node_of[i];
    if (before == here || nodes[before].rank != nodes[here].rank) continue;
    edges.push_back({before, here, std::max(nodes[before].send, nodes[here].receive)});
    const Action& a = order.actions[i - 1];
    if (s.output != OutputLayer::interlaced || a.kind != Kind::output_gradient) continue;
    stands[here] = barriers.at({1, a.micro_batch});
    edges.push_back({stands[here], here, costs.output_links.second_barrier + nodes[here].receive});
  }

  for (Node& n : nodes) n.start = n.receive;
  for (std::size_t round = 0;; ++round) {
    if (round > nodes.size() + 1) return std::nullopt;
    bool moved = false;
    for (const Edge& e : edges) {
      const Picoseconds least = nodes[e.from].start + nodes[e.from].duration + e.wait;
      if (nodes[e.to].start < least) {
        nodes[e.to].start = least;
        moved = true;
      }
    }
    if (!moved) break;
  }

  SlowAnswer answer;
  for (const std::size_t n : node_of) {
    answer.start.push_back(nodes[n].start);
    answer.end.push_back(nodes[n].start + nodes[n].duration);
    answer.makespan = std::max(answer.makespan, answer.end.back());
  }
  // Of each gap: the collective it stands for, then the sends, then waiting for others (idle), then
  // the receives.
  std::map<std::size_t, Picoseconds> made;
  for (const Edge& e : inputs) {
    Picoseconds& latest = made[e.to];
    latest = std::max(latest, nodes[e.from].start + nodes[e.from].duration);
  }
  answer.ranks.resize(static_cast<std::size_t>(p));
  std::vector<std::size_t> latest(static_cast<std::size_t>(p), nodes.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& here = nodes[n];
    if (here.rank < 0) continue;
    RankTime& time = answer.ranks[static_cast<std::size_t>(here.rank)];
    std::size_t& previous = latest[static_cast<std::size_t>(here.rank)];
    Picoseconds free = 0;
    Picoseconds owed = 0;
    if (previous == nodes.size()) {
      time.first_start = here.start;
    } else {
      free = nodes[previous].start + nodes[previous].duration;
      owed = nodes[previous].send;
    }
    if (stands.contains(n)) {
      const Picoseconds open = nodes[stands[n]].start;
      const Picoseconds over = open + costs.output_links.second_barrier;
      time.idle += std::max<Picoseconds>(0, std::min(open, over) - free);
      time.transfer += std::max<Picoseconds>(0, over - std::max(open, free));
      free = std::max(free, over);
    }
    const Picoseconds idle = std::max<Picoseconds>(0, made[n] - (free + owed));
    time.idle += idle;
    time.transfer += here.start - free - idle;
    time.busy += here.duration;
    time.last_end = here.start + here.duration;
    previous = n;
  }
  for (std::size_t rank = 0; rank < answer.ranks.size(); ++rank) {
    if (latest[rank] == nodes.size()) continue;
    RankTime& time = answer.ranks[rank];
    time.transfer += nodes[latest[rank]].send;
    time.idle += answer.makespan - time.last_end - nodes[latest[rank]].send;
  }
  return answer;
}

struct SlowPeak {
  std::int64_t held = 0;
  std::int64_t peak_at = 0;
  std::vector<std::int32_t> in_flight;  // [v]
  std::vector<std::int32_t> waiting;    // [v]
  std::int32_t outputs = 0;
};

// Each action is two moments, while it runs and once it is over; at each, everything that the rank
// ever holds is asked whether it is there.
inline SlowPeak slow_peak(const Order& order, int rank, const Costs& costs) {
  const auto v = static_cast<std::size_t>(order.shape.chunks);
  const auto actions = order.of(rank);
  struct Held {
    std::size_t from = 0;  // moments, both ends included
    std::size_t to = 0;
    std::int64_t bytes = 0;
    std::int32_t SlowPeak::*output = nullptr;
    std::vector<std::int32_t> SlowPeak::*count = nullptr;
    std::size_t chunk = 0;
  };
  std::vector<Held> all;
  const auto when = [&](const Action& a, std::initializer_list<Kind> kinds) {
    for (std::size_t i = 0; i < actions.size(); ++i) {
      if (actions[i].chunk != a.chunk || actions[i].micro_batch != a.micro_batch) continue;
      if (std::find(kinds.begin(), kinds.end(), actions[i].kind) != kinds.end()) return i;
    }
    return actions.size();
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& a = actions[i];
    const auto chunk = static_cast<std::size_t>(a.chunk);
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(rank) * v + chunk];
    if (a.kind == Kind::forward) {
      all.push_back({2 * i, 2 * when(a, {Kind::backward, Kind::input_gradient}), c.held, nullptr,
                     &SlowPeak::in_flight, chunk});
    } else if (a.kind == Kind::input_gradient) {
      all.push_back({2 * i + 1, 2 * when(a, {Kind::weight_gradient}), c.kept, nullptr,
                     &SlowPeak::waiting, chunk});
    } else if (a.kind == Kind::output) {
      all.push_back({2 * i, 2 * when(a, {Kind::output_gradient}),
                     costs.outputs[static_cast<std::size_t>(rank)].held, &SlowPeak::outputs,
                     nullptr, 0});
    }
  }
  SlowPeak best;
  best.held = -1;
  for (std::size_t moment = 0; moment < 2 * actions.size(); ++moment) {
    SlowPeak now{0, static_cast<std::int64_t>(moment / 2), std::vector<std::int32_t>(v),
                 std::vector<std::int32_t>(v), 0};
    for (const Held& h : all) {
      if (moment < h.from || moment > h.to) continue;
      now.held += h.bytes;
      if (h.output != nullptr) {
        ++(now.*h.output);
      } else {
        ++(now.*h.count)[h.chunk];
      }
    }
    if (now.held > best.held) best = now;
  }
  return best;
}

}  // namespace eratos::schedule::testing
