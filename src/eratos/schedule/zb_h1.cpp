// ZB-H1: 1F1B with the gradient of the weights apart and delayed, on rank r by r micro-batches, so
// that every rank holds p micro-batches, as 1F1B's first one does. Source: "Zero Bubble Pipeline
// Parallelism", arXiv 2401.10241, section 2.1 and figure 3 (top).
#include <algorithm>

#include "eratos/schedule/zero_bubble.h"

namespace eratos::schedule {

SplitTurns zb_h1_turns(const Shape& s, int rank) { return {s.pp - rank, rank}; }

namespace {

std::optional<Diagnostic> refuse(const Shape& s) { return refuse_chunks("zb-h1", s); }
void generate(const Shape& s, Order& order) { generate_split(s, zb_h1_turns, order); }

// Every turn is a B, a W and an F, numbers apart: one more micro-batch is one more turn.
int period(const Shape&) { return 1; }

std::int64_t in_flight(const Shape& s, int rank) { return std::min(s.micro_batches, s.pp - rank); }

// Rank r has most at once either p - r between F and B and r between B and W, or, when B ends, one
// fewer and one more; p micro-batches reach both, and no other state has more of either.
int micro_batches_for_peak(const Shape& s) { return std::min(s.micro_batches, s.pp); }

Picoseconds lower(const Shape& s, const Costs& costs) { return lower_split(s, zb_h1_turns, costs); }

// A timetable that fits, whatever B and W are that take b together: F i of rank r at (r + i) f
// before the first B; B i at p f + (p - 1 - r) b + i (f + b), then the turn's W and F, which end
// before the next B starts. After the last B of rank r at most r + 1 W are left.
Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  return (s.micro_batches + s.pp - 1) * (f + b);
}

}  // namespace

constinit const Schedule schedules::zb_h1 = with_facts(
    parallel::schedule_facts::zb_h1,
    {
        .what = "1f1b with weight gradients apart and delayed: shorter drain, memory of 1f1b",
        .bubble = "(p-1) (F + B - W)",
        .bubble_source = "arXiv 2401.10241, section 2.2",
        .refusal = refuse,
        .generate = generate,
        .period = period,
        .in_flight = in_flight,
        .micro_batches_for_peak = micro_batches_for_peak,
        .lower = lower,
        .upper_equal = upper_equal,
    });

}  // namespace eratos::schedule
