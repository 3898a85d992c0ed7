// All forwards, then all backwards.
// Source: Huang et al., "GPipe", arXiv:1811.06965, figure 2c. Backwards run in the order of the
// forwards; the paper draws them last in, first out, which changes neither time nor peak when
// micro-batches are alike.
#include <algorithm>
#include <string>

#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {
namespace {

std::optional<Diagnostic> refuse(const Shape& s) {
  if (s.chunks == 1) return std::nullopt;
  return Diagnostic{
      .message = "gpipe keeps one chunk a rank, but vpp is " + std::to_string(s.chunks),
      .cure = "set vpp to 1, or choose interleaved-1f1b",
      .field = "parallel.vpp"};
}

void generate(const Shape& s, Order& order) {
  begin_order(s, Placement::looped, order);
  for (int rank = 0; rank < s.pp; ++rank) {
    for (int i = 0; i < s.micro_batches; ++i) order.actions.push_back({i, 0, Kind::forward});
    for (int i = 0; i < s.micro_batches; ++i) order.actions.push_back({i, 0, Kind::backward});
    end_rank(order);
  }
}

std::int64_t in_flight(const Shape& s, int) { return s.micro_batches; }

// All forwards run as in a flow shop with alike jobs: one goes all the way down, and the slowest
// stage has m - 1 more. The last stage's backwards follow its last forward, and run the same way
// up. Exact for overlapped sends; blocking ones lie between two passes of a stage.
Picoseconds lower(const Shape& s, const Costs& costs) {
  Picoseconds once = 0;
  Picoseconds slowest_forward = 0;
  Picoseconds slowest_backward = 0;
  for (int rank = 0; rank < s.pp; ++rank) {
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(rank)];
    const bool first = rank == 0;
    const bool last = rank + 1 == s.pp;
    const Picoseconds from_above = first ? 0 : send_forward(costs, rank - 1);
    const Picoseconds to_above = first ? 0 : send_backward(costs, rank);
    Picoseconds gap_forward = 0;
    Picoseconds gap_backward = 0;
    if (costs.sends == Sends::blocking) {
      gap_forward = std::max(from_above, last ? 0 : send_forward(costs, rank));
      gap_backward = std::max(to_above, last ? 0 : send_backward(costs, rank + 1));
    }
    once += c.forward + c.backward + from_above + to_above;
    slowest_forward = std::max(slowest_forward, c.forward + gap_forward);
    slowest_backward = std::max(slowest_backward, c.backward + gap_backward);
  }
  return once + (s.micro_batches - 1) * (slowest_forward + slowest_backward);
}

Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  return (s.micro_batches + s.pp - 1) * (f + b);
}

}  // namespace

constinit const Schedule schedules::gpipe = with_facts(
    parallel::schedule_facts::gpipe, {
                                         .what = "all forwards, then all backwards",
                                         .bubble = "(p-1) (F + BW)",
                                         .bubble_source = "arXiv 2104.04473, section 2.2.1",
                                         .refusal = refuse,
                                         .generate = generate,
                                         .in_flight = in_flight,
                                         .micro_batches_for_peak = nullptr,
                                         .lower = lower,
                                         .upper_equal = upper_equal,
                                     });

}  // namespace eratos::schedule
