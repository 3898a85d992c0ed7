// No pipeline: one rank runs forward and backward of each micro-batch in turn.
#include <string>

#include "eratos/schedule/registry.h"

namespace eratos::schedule {
namespace {

std::optional<Diagnostic> refuse(const Shape& s) {
  if (s.pp == 1 && s.chunks == 1) return std::nullopt;
  return Diagnostic{.message = "schedule none runs no pipeline, but pp is " + std::to_string(s.pp) +
                               " and vpp " + std::to_string(s.chunks),
                    .cure = "choose 1f1b, or interleaved-1f1b when vpp is above 1",
                    .field = "schedule.algorithm"};
}

void generate(const Shape& s, Order& order) {
  begin_order(s, Placement::looped, order);
  for (int i = 0; i < s.micro_batches; ++i) {
    order.actions.push_back({i, 0, Kind::forward});
    order.actions.push_back({i, 0, Kind::backward});
  }
  end_rank(order);
}

std::int64_t in_flight(const Shape&, int) { return 1; }
int micro_batches_for_peak(const Shape&) { return 1; }

int period(const Shape&) { return 1; }

Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  return s.micro_batches * (f + b);
}

}  // namespace

constinit const Schedule schedules::none = with_facts(
    parallel::schedule_facts::none,
    {
        .what = "one rank, no pipeline: forward and backward of each micro-batch in turn",
        .refusal = refuse,
        .generate = generate,
        .period = period,
        .in_flight = in_flight,
        .micro_batches_for_peak = micro_batches_for_peak,
        .lower = nullptr,
        .upper_equal = upper_equal,
    });

}  // namespace eratos::schedule
