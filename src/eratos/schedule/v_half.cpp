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
#include "eratos/schedule/vocabulary.h"

namespace eratos::schedule {
namespace {

constexpr vee::Block kBlock{vee::v_half_start, vee::v_half_most_chunks};

std::optional<Diagnostic> refuse(const Shape& s) {
  if (s.output == OutputLayer::interlaced) {
    return Diagnostic{.message = "v-half has no interlaced order of a cut output layer",
                      .cure = "choose two-barriers or one-barrier, or the schedule 1f1b",
                      .field = "schedule.output_layer"};
  }
  return vee::refuse("v-half", s);
}

void generate_whole(const Shape& s, Order& order) { vee::repeat(kBlock, s, order); }
// With a cut output layer: arXiv 2411.05288, section 6.4 and appendix D; vocabulary.h.
void generate(const Shape& s, Order& order) {
  if (s.output != OutputLayer::last_stage) {
    cut_output(generate_whole, s, order);
  } else {
    generate_whole(s, order);
  }
}
void generate_cut(const Shape& s, const Costs& costs, Order& order) {
  cut_output(generate_whole, s, costs, order);
}

// Where S and T stand follows from times, which may never repeat: then no turn but the whole.
int period(const Shape& s) { return s.output == OutputLayer::last_stage ? 1 : s.micro_batches; }

// Every turn of the steady part ends with what it began with.
int micro_batches_for_peak(const Shape& s) {
  if (s.output != OutputLayer::last_stage) return s.micro_batches;
  return std::min(s.micro_batches, vee::least_steady(kBlock, s.pp));
}

// Units of its bubble with F = B = W, at most; from m = p + 1 on exactly. Not proven: checked for
// every m up to 2 p + 6 and p up to 64; from there on each micro-batch adds a turn (vee_pattern.h).
int bubble(const Shape& s) {
  if (s.micro_batches <= s.pp) return 4 * s.pp - 5;
  return std::max(s.pp - 1, 3 * s.pp - (s.pp % 2 == 0 ? 7 : 4));
}

Picoseconds upper(const Shape& s, const Costs& costs) {
  return vee::upper(vee::kPasses * s.micro_batches + bubble(s), s, costs);
}

vee::Steady steady(const Shape& s, int rank) { return vee::steady_of(kBlock, s, rank); }
Picoseconds lower(const Shape& s, const Costs& costs) {
  if (s.output != OutputLayer::last_stage) return 0;
  return vee::lower(kBlock.start, steady, s, costs);
}

}  // namespace

constinit const Schedule schedules::v_half =
    with_facts(parallel::schedule_facts::v_half,
               {
                   .what = "a V of two chunks a rank with half of 1F1B's memory",
                   .refusal = refuse,
                   .generate = generate,
                   .generate_cut = generate_cut,
                   .period = period,
                   .micro_batches_for_peak = micro_batches_for_peak,
                   .lower = lower,
                   .upper = upper,
               });

}  // namespace eratos::schedule
