// DualPipe: two copies of the model, one from each end of the pipeline, each with half of the
// micro-batches, so that a rank always has a forward of one direction to run beside a backward of
// the other. Order: dualpipe_steps.h, with h = p / 2 and n = m / 2. Source: DeepSeek-V3, arXiv
// 2412.19437, section 3.2.1; github.com/deepseek-ai/DualPipe, dualpipe/dualpipe.py and the table of
// its README.
//
// Worked example: p = 2, m = 4; F0.1 is micro-batch 0 on chunk 1, & side by side with the next
//   rank 0: F0.0 F0.1 F1.0 BW0.1 F1.1 & BW0.0 BW1.1 B1.0 W1.0
//   rank 1: F0.1 F0.0 F1.1 BW0.0 F1.0 & BW0.1 BW1.0 B1.1 W1.1
#include <algorithm>
#include <string>

#include "eratos/schedule/dualpipe_steps.h"
#include "eratos/schedule/registry.h"

namespace eratos::schedule {
namespace {

std::optional<Diagnostic> refuse(const Shape& s) {
  if (s.pp % 2 != 0) {
    return Diagnostic{.message =
                          "dualpipe joins two pipelines in the middle of an even number of "
                          "ranks, but pp is " +
                          std::to_string(s.pp),
                      .cure = "make pp even, or choose dualpipev",
                      .field = "parallel.pp"};
  }
  if (s.chunks != 2) {
    return Diagnostic{.message =
                          "dualpipe keeps two chunks a rank, one of each copy of the model, "
                          "but is asked for " +
                          std::to_string(s.chunks),
                      .cure = "leave vpp out",
                      .field = "parallel.vpp"};
  }
  if (s.micro_batches % 2 != 0 || s.micro_batches < 2 * s.pp) {
    return Diagnostic{
        .message = "dualpipe needs an even number of micro-batches, at least 2 pp = " +
                   std::to_string(2 * s.pp) + ", but there are " + std::to_string(s.micro_batches),
        .cure = "raise the global batch, or choose 1f1b",
        .field = "batch.global"};
  }
  return std::nullopt;
}

void generate(const Shape& s, Order& order) { dual::generate(s, Placement::bidirectional, order); }
Picoseconds lower(const Shape& s, const Costs& costs) {
  return dual::lower(s, Placement::bidirectional, costs);
}

int period(const Shape&) { return 2; }

// After step 2 a rank holds p; the forward of a pair is one more. Every turn of step 4 is alike,
// and the fewest micro-batches have one.
std::int64_t in_flight(const Shape& s, int) { return s.pp + 1; }
int micro_batches_for_peak(const Shape& s) { return 2 * s.pp; }

// Both directions work all the time but for what one whole pass down and up half of the ranks has
// over the pairs that fill it: p / 2 - 1 times no more than a pair and the longer of its two.
Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  return s.micro_batches * (f + b) + (s.pp / 2 - 1) * (f + b + std::max(f, b));
}

}  // namespace

constinit const Schedule schedules::dualpipe =
    with_facts(parallel::schedule_facts::dualpipe,
               {
                   .what = "two copies of the model from both ends, forwards beside backwards",
                   .bubble = "(p/2-1) (F beside BW + BW - 3 W)",
                   .bubble_source = "github.com/deepseek-ai/DualPipe, table of its README",
                   .refusal = refuse,
                   .generate = generate,
                   .period = period,
                   .in_flight = in_flight,
                   .micro_batches_for_peak = micro_batches_for_peak,
                   .lower = lower,
                   .upper_equal = upper_equal,
               });

}  // namespace eratos::schedule
