// All forwards, then all backwards.
// Source: Huang et al., "GPipe", arXiv:1811.06965, figure 2c. Backwards run in the order of the
// forwards; the paper draws them last in, first out, which changes neither time nor peak when
// micro-batches are alike.
#include <string>

#include "eratos/schedule/registry.h"

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

Picoseconds upper_equal(const Shape& s, Picoseconds f, Picoseconds b) {
  return (s.micro_batches + s.pp - 1) * (f + b);
}

}  // namespace

constinit const Schedule schedules::gpipe{
    .name = "gpipe",
    .what = "all forwards, then all backwards",
    .placement = Placement::looped,
    .refusal = refuse,
    .generate = generate,
    .in_flight = in_flight,
    .micro_batches_for_peak = nullptr,
    .lower = nullptr,
    .upper_equal = upper_equal,
};

}  // namespace eratos::schedule
