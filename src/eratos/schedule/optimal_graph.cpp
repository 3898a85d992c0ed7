#include "eratos/schedule/optimal_graph.h"

#include <algorithm>
#include <cstddef>
#include <queue>
#include <utility>

namespace eratos::schedule {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

int sequence_of(const ActionGraph& g, int rank, int chunk, Kind kind) {
  for (int q = g.first[at(rank)]; q < g.first[at(rank) + 1]; ++q) {
    const Sequence& s = g.sequences[at(q)];
    if (s.chunk == chunk && s.kind == kind) return q;
  }
  return -1;
}

// Sequences, what they wait for and what they hold.
void add_sequences(const OptimalProblem& problem, ActionGraph& g) {
  const Shape& s = problem.shape;
  const Costs& costs = problem.costs;
  const Kind gradient = problem.splits_backward ? Kind::input_gradient : Kind::backward;
  for (int rank = 0; rank < s.pp; ++rank) {
    g.first.push_back(static_cast<int>(g.sequences.size()));
    for (int chunk = 0; chunk < s.chunks; ++chunk) {
      const ChunkCost& c = costs.chunks[at(slot_of(s, rank, chunk))];
      Sequence f{.rank = rank, .chunk = chunk, .kind = Kind::forward, .duration = c.forward};
      f.at_start = c.held;
      g.sequences.push_back(f);
      Sequence b{.rank = rank, .chunk = chunk, .kind = gradient};
      b.duration = problem.splits_backward ? c.input_gradient : c.backward;
      b.at_end = problem.splits_backward ? c.kept - c.held : -c.held;
      g.sequences.push_back(b);
      if (!problem.splits_backward) continue;
      Sequence w{.rank = rank, .chunk = chunk, .kind = Kind::weight_gradient};
      w.duration = c.weight_gradient;
      w.at_end = -c.kept;
      g.sequences.push_back(w);
    }
  }
  g.first.push_back(static_cast<int>(g.sequences.size()));

  const int stages = stage_count(s, problem.placement);
  for (int stage = 0; stage < stages; ++stage) {
    const int slot = slot_at(s, problem.placement, stage);
    const int rank = slot / s.chunks;
    const int f = sequence_of(g, rank, slot % s.chunks, Kind::forward);
    const int b = sequence_of(g, rank, slot % s.chunks, gradient);
    if (problem.splits_backward) {
      g.sequences[at(sequence_of(g, rank, slot % s.chunks, Kind::weight_gradient))].input = b;
    }
    if (stage + 1 == stages) {
      g.sequences[at(b)].input = f;
      g.sequences[at(f)].consumer = b;
      continue;
    }
    const int after = slot_at(s, problem.placement, stage + 1);
    const int next_f = sequence_of(g, after / s.chunks, after % s.chunks, Kind::forward);
    const int next_b = sequence_of(g, after / s.chunks, after % s.chunks, gradient);
    g.sequences[at(next_f)].input = f;
    g.sequences[at(f)].consumer = next_f;
    g.sequences[at(b)].input = next_b;
    g.sequences[at(next_b)].consumer = b;
    if (after / s.chunks == rank) continue;
    g.sequences[at(next_f)].receive = send_forward(costs, slot);
    g.sequences[at(b)].receive = send_backward(costs, after);
    if (!g.blocking) continue;
    g.sequences[at(f)].send = send_forward(costs, slot);
    g.sequences[at(next_b)].send = send_backward(costs, after);
  }
}

// When F of n starts, `held` and whatever is not over of the n before it must fit.
void add_memory(const OptimalProblem& problem, ActionGraph& g) {
  const int m = g.micro_batches;
  const auto add = [&](int earlier, int later, std::int64_t limit, std::int64_t held,
                       std::int64_t least) {
    if (least <= 0) return;
    const std::int64_t apart = (limit - held) / least + 1;
    for (std::int64_t i = 0; i + apart < m; ++i) {
      g.memory.push_back(
          {earlier * m + static_cast<int>(i), later * m + static_cast<int>(i + apart)});
    }
  };
  for (int rank = 0; rank < g.ranks; ++rank) {
    if (!g.is_tight(rank)) continue;
    const std::int64_t limit = g.limits[at(rank)];
    for (int q = g.first[at(rank)]; q < g.first[at(rank) + 1]; ++q) {
      const Sequence& s = g.sequences[at(q)];
      if (s.kind != Kind::forward) continue;
      const ChunkCost& c = problem.costs.chunks[at(slot_of(problem.shape, rank, s.chunk))];
      add(q + 1, q, limit, c.held, c.held);
      if (problem.splits_backward) add(q + 2, q, limit, c.held, std::min(c.held, c.kept));
    }
  }
}

// Longest ways to and from every action, in an order of all of them in which waits point forward:
// micro-batch by micro-batch, its chain of data.
void add_heads_and_tails(ActionGraph& g) {
  const int m = g.micro_batches;
  std::vector<int> chain;  // of one micro-batch
  int q = 0;
  for (int r = 0; r < static_cast<int>(g.sequences.size()); ++r) {
    if (g.sequences[at(r)].input < 0) q = r;  // the first stage's forward: the only one
  }
  for (; q >= 0; q = g.sequences[at(q)].consumer) chain.push_back(q);
  for (int r = 0; r < static_cast<int>(g.sequences.size()); ++r) {
    if (g.sequences[at(r)].kind == Kind::weight_gradient) chain.push_back(r);
  }
  std::vector<std::vector<int>> waits(at(g.count()));  // memory's, by later action
  std::vector<std::vector<int>> holds(at(g.count()));
  for (const Precedence& p : g.memory) {
    waits[at(p.later)].push_back(p.earlier);
    holds[at(p.earlier)].push_back(p.later);
  }
  g.head.assign(at(g.count()), 0);
  g.tail.assign(at(g.count()), 0);
  for (int i = 0; i < m; ++i) {
    for (const int c : chain) {
      const Sequence& s = g.sequences[at(c)];
      const int x = c * m + i;
      Picoseconds& head = g.head[at(x)];
      const auto after = [&](int y, Picoseconds gap) {
        head = std::max(head, g.head[at(y)] + g.of(y).duration + gap);
      };
      if (s.input >= 0) after(s.input * m + i, g.arrival(s));
      if (i > 0) after(x - 1, g.between(s, s));
      for (const int y : waits[at(x)]) after(y, g.between(g.of(y), s));
    }
  }
  for (int i = m - 1; i >= 0; --i) {
    for (auto c = chain.rbegin(); c != chain.rend(); ++c) {
      const Sequence& s = g.sequences[at(*c)];
      const int x = *c * m + i;
      Picoseconds& tail = g.tail[at(x)];
      const auto before = [&](int y, Picoseconds gap) {
        tail = std::max(tail, gap + g.of(y).duration + g.tail[at(y)]);
      };
      if (s.consumer >= 0) before(s.consumer * m + i, g.arrival(g.sequences[at(s.consumer)]));
      if (s.kind == Kind::input_gradient)
        before((*c + 1) * m + i, g.arrival(g.sequences[at(*c + 1)]));
      if (i + 1 < m) before(x + 1, g.between(s, s));
      for (const int y : holds[at(x)]) before(y, g.between(s, g.of(y)));
    }
  }
}

// Jackson's preemptive schedule of one rank: of the actions that are there, the one with the
// longest tail runs.
Picoseconds machine_lower(const ActionGraph& g, int rank) {
  const int m = g.micro_batches;
  std::vector<int> by_head;
  for (int x = g.first[at(rank)] * m; x < g.first[at(rank) + 1] * m; ++x) by_head.push_back(x);
  std::sort(by_head.begin(), by_head.end(), [&](int a, int b) {
    return std::pair(g.head[at(a)], a) < std::pair(g.head[at(b)], b);
  });
  std::priority_queue<std::pair<Picoseconds, Picoseconds>> there;  // tail, time left
  Picoseconds now = 0;
  Picoseconds best = 0;
  std::size_t next = 0;
  while (next < by_head.size() || !there.empty()) {
    if (there.empty()) now = std::max(now, g.head[at(by_head[next])]);
    for (; next < by_head.size() && g.head[at(by_head[next])] <= now; ++next) {
      there.emplace(g.tail[at(by_head[next])], g.of(by_head[next]).duration);
    }
    auto [tail, left] = there.top();
    there.pop();
    Picoseconds run = left;
    if (next < by_head.size()) run = std::min(run, g.head[at(by_head[next])] - now);
    now += run;
    if (run < left) {
      there.emplace(tail, left - run);
    } else {
      best = std::max(best, now + tail);
    }
  }
  return best;
}

}  // namespace

bool ActionGraph::is_tight(int rank) const {
  const std::int64_t limit = limits[at(rank)];
  if (limit == kNoLimit) return false;
  double all = 0;  // may exceed 64 bits
  for (int q = first[at(rank)]; q < first[at(rank) + 1]; ++q) {
    const Sequence& s = sequences[at(q)];
    all += static_cast<double>(s.at_start + std::max<std::int64_t>(0, s.at_end)) * micro_batches;
  }
  return all > static_cast<double>(limit);
}

ActionGraph action_graph(const OptimalProblem& problem) {
  ActionGraph g;
  g.ranks = problem.shape.pp;
  g.micro_batches = problem.shape.micro_batches;
  g.blocking = problem.costs.sends == Sends::blocking;
  g.limits.assign(problem.costs.limits.begin(), problem.costs.limits.end());
  if (g.limits.empty()) g.limits.assign(at(g.ranks), kNoLimit);
  add_sequences(problem, g);
  add_memory(problem, g);
  add_heads_and_tails(g);
  return g;
}

int data_order(const ActionGraph& graph, int a, int b) {
  const auto reaches = [&](int from, int to) {
    // Back along the inputs: every action has one at most.
    for (int q = to; q >= 0; q = graph.sequences[at(q)].input) {
      if (q == from) return true;
    }
    return false;
  };
  if (reaches(a, b)) return -1;
  return reaches(b, a) ? 1 : 0;
}

Picoseconds graph_lower(const ActionGraph& graph) {
  Picoseconds best = 0;
  for (int x = 0; x < graph.count(); ++x) {
    best = std::max(best, graph.head[at(x)] + graph.of(x).duration + graph.tail[at(x)]);
  }
  for (int rank = 0; rank < graph.ranks; ++rank) best = std::max(best, machine_lower(graph, rank));
  return best;
}

void write_order(const OptimalProblem& problem, const ActionGraph& graph,
                 const std::vector<std::vector<int>>& ranks, Order& order) {
  begin_order(problem.shape, problem.placement, order);
  for (const std::vector<int>& rank : ranks) {
    for (const int x : rank) order.actions.push_back(graph.action(x));
    end_rank(order);
  }
}

std::vector<std::vector<int>> read_order(const ActionGraph& graph, const Order& order) {
  std::vector<std::vector<int>> ranks(at(graph.ranks));
  std::vector<int> next(graph.sequences.size(), 0);
  for (int rank = 0; rank < graph.ranks; ++rank) {
    const auto add = [&](int chunk, Kind kind) {
      const int q = sequence_of(graph, rank, chunk, kind);
      ranks[at(rank)].push_back(q * graph.micro_batches + next[at(q)]++);
    };
    const bool splits = sequence_of(graph, rank, 0, Kind::weight_gradient) >= 0;
    for (const Action& a : order.of(rank)) {
      if (splits && a.kind == Kind::backward) {
        add(a.chunk, Kind::input_gradient);
        add(a.chunk, Kind::weight_gradient);
      } else {
        add(a.chunk, a.kind);
      }
    }
  }
  return ranks;
}

}  // namespace eratos::schedule
