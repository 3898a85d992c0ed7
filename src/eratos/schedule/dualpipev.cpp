// DualPipeV: DualPipe cut in half. One copy of the model on a V, rank r with virtual stages r and
// 2 p - 1 - r: what was the other direction is the way back up. Order: dualpipe_steps.h, with h = p
// and n = m.
// Source: github.com/deepseek-ai/DualPipe, dualpipe/dualpipev.py; "cut in half": Sea AI Lab,
// "DualPipe could be better without the Dual", 2025.
//
// Worked example: p = 2, m = 4; F0.1 is micro-batch 0 on chunk 1, & side by side with the next
//   rank 1: F0.0 F0.1 F1.0 F1.1 F2.0 BW0.1 F2.1 & BW0.0 F3.0 & BW1.1 F3.1 & BW1.0
//           BW2.1 BW2.0 B3.1 B3.0 W3.1 W3.0
#include <algorithm>
#include <string>

#include "eratos/schedule/dualpipe_steps.h"
#include "eratos/schedule/registry.h"

namespace eratos::schedule {
namespace {

std::optional<Diagnostic> refuse(const Shape& s) {
  if (s.pp < 2) {
    return Diagnostic{.message = "dualpipev needs a pipeline, but pp is 1",
                      .cure = "choose none",
                      .field = "parallel.pp"};
  }
  if (s.chunks != 2) {
    return Diagnostic{.message =
                          "dualpipev sends a micro-batch down the ranks and back up, two "
                          "chunks a rank, but vpp is " +
                          std::to_string(s.chunks),
                      .cure = "set vpp to 2",
                      .field = "parallel.vpp"};
  }
  if (s.micro_batches < 2 * s.pp) {
    return Diagnostic{.message = "dualpipev needs at least 2 pp = " + std::to_string(2 * s.pp) +
                                 " micro-batches, but there are " + std::to_string(s.micro_batches),
                      .cure = "raise the global batch, or choose zbv",
                      .field = "batch.global"};
  }
  return std::nullopt;
}

void generate(const Shape& s, Order& order) { dual::generate(s, Placement::vee, order); }
Picoseconds lower(const Shape& s, const Costs& costs) {
  return dual::lower(s, Placement::vee, costs);
}

int period(const Shape&) { return 1; }

// As dualpipe.cpp, of chunks that are half of the rank's layers.
std::int64_t in_flight(const Shape& s, int) { return 2 * s.pp + 1; }
int micro_batches_for_peak(const Shape& s) { return 2 * s.pp; }

// As dualpipe.cpp, whose halves have half as many ranks.
Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  return 2 * s.micro_batches * (f + b) + (s.pp - 1) * (f + b + std::max(f, b));
}

}  // namespace

constinit const Schedule schedules::dualpipev = with_facts(
    parallel::schedule_facts::dualpipev,
    {
        .what = "a V of two chunks a rank, forwards beside backwards",
        .bubble = "(p-1) (F beside BW + BW - 3 W)",
        .bubble_source = "github.com/deepseek-ai/DualPipe, table of its README, p/2 of its ranks",
        .refusal = refuse,
        .generate = generate,
        .period = period,
        .in_flight = in_flight,
        .micro_batches_for_peak = micro_batches_for_peak,
        .lower = lower,
        .upper_equal = upper_equal,
    });

}  // namespace eratos::schedule
