// V-Half: half of 1F1B's memory. On the way down a pass takes two units a rank and on the way up
// one, so that a turn has room for passes that are late: no rank waits in it while W + 2 B >= 2 F
// and W + 2 F >= 2 B.
//
// Source: Qi et al., arXiv 2405.15362, section 3; offsets as zbv_greedy.py has them
// (vee_pattern.h).
//
// Worked example: p = 4: rank 0 runs F0, F1, B1, B0 in units 0, 10, 14, 25, rank 3 in 6, 7, 20, 22.
#include <algorithm>

#include "eratos/schedule/registry.h"
#include "eratos/schedule/vee_pattern.h"

namespace eratos::schedule {
namespace {

// p / 2 + 1 micro-batches of a rank's two chunks, (p + 1) / 2 for odd p.
int most_chunks(int p) { return 2 * (p / 2 + 1); }

constexpr vee::Block kBlock{vee::v_half_start, most_chunks};

std::optional<Diagnostic> refuse(const Shape& s) { return vee::refuse("v-half", s); }
void generate(const Shape& s, Order& order) { vee::repeat(kBlock, s, order); }
int period(const Shape&) { return 1; }

// Every turn of the steady part ends with what it began with.
int micro_batches_for_peak(const Shape& s) {
  return std::min(s.micro_batches, vee::least_steady(kBlock, s.pp));
}

// Units of its bubble with F = B = W, at most; from m = p + 1 on exactly. Not proven: checked for
// every m up to 2 p + 6 and p up to 64; from there on each micro-batch adds a turn (vee_pattern.h).
int bubble(const Shape& s) {
  if (s.micro_batches <= s.pp) return 4 * s.pp - 5;
  return std::max(s.pp - 1, 3 * s.pp - (s.pp % 2 == 0 ? 7 : 4));
}

// A unit as long as the longest of F, B and W.
Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  return (vee::kPasses * Picoseconds{s.micro_batches} + bubble(s)) * std::max(f, b);
}

}  // namespace

constinit const Schedule schedules::v_half{
    .name = "v-half",
    .what = "a V of two chunks a rank with half of 1F1B's memory",
    .placement = Placement::vee,
    .chunks = 2,
    .splits_backward = true,
    .refusal = refuse,
    .generate = generate,
    .period = period,
    .micro_batches_for_peak = micro_batches_for_peak,
    .upper_equal = upper_equal,
};

}  // namespace eratos::schedule
