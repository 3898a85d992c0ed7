// V-Min: the V with the least memory, about a third of 1F1B's. Passes of a micro-batch follow one
// another down and up without a pause, so a turn has chains of six forwards and of six gradients:
// unless B + W >= 2 F and F + W >= 2 B, ranks wait in every turn.
//
// Source: Qi et al., arXiv 2405.15362, section 3; offsets as zbv_greedy.py has them
// (vee_pattern.h).
//
// Worked example: p = 4: rank 0 runs F0, F1, B1, B0 in units 0, 7, 8, 15, rank 3 in 3, 4, 11, 12.
#include <algorithm>

#include "eratos/schedule/registry.h"
#include "eratos/schedule/vee_pattern.h"

namespace eratos::schedule {
namespace {

constexpr vee::Block kBlock{vee::v_min_start, vee::v_min_most_chunks};

std::optional<Diagnostic> refuse(const Shape& s) { return vee::refuse("v-min", s); }
void generate(const Shape& s, Order& order) { vee::repeat(kBlock, s, order); }
int period(const Shape&) { return 1; }

// Every turn of the steady part ends with what it began with.
int micro_batches_for_peak(const Shape& s) {
  return std::min(s.micro_batches, vee::least_steady(kBlock, s.pp));
}

// Units of its bubble with F = B = W, at most; from m = p on exactly. Not proven: checked for every
// m up to 2 p + 6 and p up to 64; from there on each micro-batch adds a turn (vee_pattern.h).
int bubble(const Shape& s) {
  return 4 * s.pp - 5 - (s.pp % 3 == 0 && s.micro_batches >= s.pp ? 2 : 0);
}

Picoseconds upper(const Shape& s, const Costs& costs) {
  return vee::upper(vee::kPasses * s.micro_batches + bubble(s), s, costs);
}

vee::Steady steady(const Shape& s, int rank) { return vee::steady_of(kBlock, s, rank); }
Picoseconds lower(const Shape& s, const Costs& costs) {
  return vee::lower(kBlock.start, steady, s, costs);
}

}  // namespace

constinit const Schedule schedules::v_min =
    with_facts(parallel::schedule_facts::v_min,
               {
                   .what = "a V of two chunks a rank with a third of 1F1B's memory",
                   .refusal = refuse,
                   .generate = generate,
                   .period = period,
                   .micro_batches_for_peak = micro_batches_for_peak,
                   .lower = lower,
                   .upper = upper,
               });

}  // namespace eratos::schedule
