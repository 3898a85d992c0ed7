// 1F1B: rank r runs p - 1 - r forwards, then one forward and one backward in turn, then drains.
// With m < p - 1 - r the warm-up is all m forwards.
// Source: Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN Training", arXiv:2006.09503;
// Megatron-LM, megatron/core/pipeline_parallel/schedules.py,
// forward_backward_pipelining_without_interleaving. With a cut output layer: vocabulary.h.
#include <algorithm>
#include <string>

#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"
#include "eratos/schedule/vocabulary.h"

namespace eratos::schedule {
namespace {

std::optional<Diagnostic> refuse(const Shape& s) {
  if (s.chunks == 1) return std::nullopt;
  return Diagnostic{
      .message = "1f1b keeps one chunk a rank, but vpp is " + std::to_string(s.chunks),
      .cure = "set vpp to 1, or choose interleaved-1f1b",
      .field = "parallel.vpp"};
}

void generate(const Shape& s, Order& order) {
  if (s.output != OutputLayer::last_stage) {
    cut_one_f_one_b(s, {}, order);
    return;
  }
  begin_order(s, Placement::looped, order);
  const int m = s.micro_batches;
  for (int rank = 0; rank < s.pp; ++rank) {
    const int warm_up = std::min(m, s.pp - 1 - rank);
    for (int i = 0; i < warm_up; ++i) order.actions.push_back({i, 0, Kind::forward});
    for (int i = warm_up; i < m; ++i) {
      order.actions.push_back({i, 0, Kind::forward});
      order.actions.push_back({i - warm_up, 0, Kind::backward});
    }
    for (int i = m - warm_up; i < m; ++i) order.actions.push_back({i, 0, Kind::backward});
    end_rank(order);
  }
}

void generate_cut(const Shape& s, const Costs& costs, Order& order) {
  cut_one_f_one_b(s, pace_of(costs), order);
}

std::int64_t in_flight(const Shape& s, int rank) {
  if (s.output != OutputLayer::last_stage) return cut_one_f_one_b_in_flight(s, rank);
  return std::min(s.micro_batches, s.pp - rank);
}

// Of a block that is repeated: enough for one turn of the longest-lived rank 0 with every pass in
// it.
int micro_batches_for_peak(const Shape& s) {
  int turns = s.pp;
  if (s.output == OutputLayer::interlaced) {
    turns += 1 + (s.pp - 1) / 2;
  } else if (s.output != OutputLayer::last_stage) {
    turns += 2;  // B's of Vocab-1, or the T of Vocab-2 when forwards are long
  }
  return std::min(s.micro_batches, turns);
}

int period(const Shape&) { return 1; }

// A loop over ranks first..last: forward i runs down from `first` to `last`, where the order lets
// backward i - (p - 1 - last) follow; that runs back up to `first`, where the order lets forward
// i + (last - first + 1) follow. So each turn of the loop, whose length includes its transfers,
// carries only last - first + 1 micro-batches. Before the first turn `first` waits for its fill
// and has run p - 1 - last forwards; after the last turn it has backwards left, then the drain.
Picoseconds loop(const Shape& s, const Costs& costs, int first, int last, Picoseconds fill,
                 Picoseconds turn, Picoseconds drain) {
  const int before = s.pp - 1 - last;
  if (before >= s.micro_batches) return 0;
  const int carried = last - first + 1;
  const int turns = (s.micro_batches - 1 - before) / carried + 1;
  const int backwards_done = (turns - 1) * carried + 1;
  const ChunkCost& own = costs.chunks[static_cast<std::size_t>(first)];
  return fill + before * own.forward + turns * turn +
         (s.micro_batches - backwards_done) * own.backward + drain;
}

Picoseconds lower(const Shape& s, const Costs& costs) {
  // Backwards follow later forwards when the output layer is cut.
  if (s.output != OutputLayer::last_stage) return 0;
  Picoseconds best = 0;
  Picoseconds fill = 0;
  Picoseconds drain = 0;
  for (int first = 0; first < s.pp; ++first) {
    if (first > 0) {
      const ChunkCost& above = costs.chunks[static_cast<std::size_t>(first) - 1];
      fill += above.forward + send_forward(costs, first - 1);
      drain += above.backward + send_backward(costs, first);
    }
    Picoseconds turn = 0;
    for (int last = first; last < s.pp; ++last) {
      const ChunkCost& c = costs.chunks[static_cast<std::size_t>(last)];
      if (last > first) turn += send_forward(costs, last - 1) + send_backward(costs, last);
      turn += c.forward + c.backward;
      best = std::max(best, loop(s, costs, first, last, fill, turn, drain));
    }
  }
  return best;
}

Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  return (s.micro_batches + s.pp - 1) * (f + b);
}

Picoseconds upper_cut(const Shape& s, const Costs& costs, Picoseconds f, Picoseconds b,
                      Picoseconds output) {
  return cut_one_f_one_b_upper(s, pace_of(costs), f, b, output);
}

}  // namespace

constinit const Schedule schedules::one_f_one_b =
    with_facts(parallel::schedule_facts::one_f_one_b,
               {
                   .what = "one forward, one backward in turn after a warm-up",
                   .bubble = "(p-1) (F + BW)",
                   .bubble_source = "arXiv 2104.04473, section 2.2.1",
                   .refusal = refuse,
                   .generate = generate,
                   .generate_cut = generate_cut,
                   .period = period,
                   .in_flight = in_flight,
                   .micro_batches_for_peak = micro_batches_for_peak,
                   .lower = lower,
                   .upper_equal = upper_equal,
                   .upper_cut = upper_cut,
               });

}  // namespace eratos::schedule
