#include "eratos/schedule/order.h"

#include <cstddef>

namespace eratos::schedule {

void begin_order(const Shape& shape, Placement placement, Order& order) {
  const int stages = slot_count(shape);
  order.shape = shape;
  order.actions.clear();
  order.actions.reserve(static_cast<std::size_t>(stages) * kKinds *
                        static_cast<std::size_t>(shape.micro_batches));
  order.first.clear();
  order.first.push_back(0);
  order.before.assign(static_cast<std::size_t>(stages), -1);
  order.after.assign(static_cast<std::size_t>(stages), -1);
  for (int stage = 1; stage < stages; ++stage) {
    const int here = slot_at(shape, placement, stage);
    const int there = slot_at(shape, placement, stage - 1);
    order.before[static_cast<std::size_t>(here)] = there;
    order.after[static_cast<std::size_t>(there)] = here;
  }
}

void end_rank(Order& order) {
  order.first.push_back(static_cast<std::int64_t>(order.actions.size()));
}

bool is_complete(const Order& order) {
  const Shape& s = order.shape;
  if (order.first.size() != static_cast<std::size_t>(s.pp) + 1) return false;
  const auto m = static_cast<std::size_t>(s.micro_batches);
  std::vector<bool> seen;
  for (int rank = 0; rank < s.pp; ++rank) {
    const std::size_t kind_stride = static_cast<std::size_t>(s.chunks) * m;
    seen.assign(kKinds * kind_stride, false);
    for (const Action& a : order.of(rank)) {
      if (a.chunk < 0 || a.chunk >= s.chunks) return false;
      if (a.micro_batch < 0 || a.micro_batch >= s.micro_batches) return false;
      const std::size_t forward =
          static_cast<std::size_t>(a.chunk) * m + static_cast<std::size_t>(a.micro_batch);
      const std::size_t key = static_cast<std::size_t>(a.kind) * kind_stride + forward;
      if (seen[key]) return false;
      if (a.kind == Kind::backward && !seen[forward]) return false;
      seen[key] = true;
    }
    for (const bool there : seen) {
      if (!there) return false;
    }
  }
  return true;
}

}  // namespace eratos::schedule
