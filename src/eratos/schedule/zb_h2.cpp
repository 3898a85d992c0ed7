// ZB-H2: forwards fill the wait for the first gradient too, 2 (p - r) - 1 of them on rank r, and
// weight gradients, 2 r micro-batches late, fill the drain: every rank holds 2 p - 1 micro-batches.
// With F = B = W the ranks work without a gap, each F later than the one before: no bubble when the
// next step begins without waiting for the others (Timing::pitch).
// Source: "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.2 and figure 3 (bottom).
#include <algorithm>

#include "eratos/schedule/zero_bubble.h"

namespace eratos::schedule {

SplitTurns zb_h2_turns(const Shape& s, int rank) { return {2 * (s.pp - rank) - 1, 2 * rank}; }

namespace {

std::optional<Diagnostic> refuse(const Shape& s) { return refuse_chunks("zb-h2", s); }
void generate(const Shape& s, Order& order) { generate_split(s, zb_h2_turns, order); }

// Every turn is a B, a W and an F, numbers apart: one more micro-batch is one more turn.
int period(const Shape&) { return 1; }

std::int64_t in_flight(const Shape& s, int rank) {
  return std::min(s.micro_batches, zb_h2_turns(s, rank).ahead);
}

// As zb-h1's, with 2 (p - r) - 1 and 2 r.
int micro_batches_for_peak(const Shape& s) { return std::min(s.micro_batches, 2 * s.pp - 1); }

Picoseconds lower(const Shape& s, const Costs& costs) { return lower_split(s, zb_h2_turns, costs); }

// A timetable that fits, whatever B and W are that take b together: B i of rank r starts at
// c + (p - 1 - r) b + i (f + b), then the turn's W and F run; c is such that every rank's first
// forwards, which end at (2 p - 1 - r) f, are over by then. After the last B of rank r min(m, 2 r +
// 1) W are left, its own turn's among them.
Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  const Picoseconds m = s.micro_batches;
  const Picoseconds p = s.pp;
  const Picoseconds c = p * f + (p - 1) * std::max<Picoseconds>(0, f - b);
  // Most of (p - 1 - r) + min(m, 2 r + 1) over the ranks.
  const Picoseconds tail = p + std::min(p - 1, (m - 1) / 2);
  return c + (m - 1) * (f + b) + tail * b;
}

}  // namespace

constinit const Schedule schedules::zb_h2 = with_facts(
    parallel::schedule_facts::zb_h2,
    {
        .what = "zb-h1 with nearly twice the memory: no bubble if F = B = W and steps overlap",
        .bubble = "(p-1) (F + B - 2 W)",
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
