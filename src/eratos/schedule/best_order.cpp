#include "eratos/schedule/best_order.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "eratos/base/check.h"

namespace eratos::schedule {

Limits::Limits(const Costs& costs, std::int64_t each) : given_(costs.limits) {
  if (!given_.empty()) return;
  for (const ChunkCost& c : costs.chunks) alike_ = std::max({alike_, each * c.held, each * c.kept});
}

bool BestOrder::offer() {
  const Result<void> done = simulate(candidate_, costs_, workspace_, timing_);
  ERATOS_CHECK(done.has_value());
  std::int64_t held = 0;
  for (int rank = 0; rank < candidate_.shape.pp; ++rank) {
    const std::int64_t here = timing_.peaks.ranks[static_cast<std::size_t>(rank)].held;
    if (here > limits_[rank]) return false;
    held = std::max(held, here);
  }
  if (timing_.makespan > most_) return true;
  if (std::tuple(timing_.pitch, timing_.makespan, held) < std::tuple(pitch_, makespan_, held_)) {
    pitch_ = timing_.pitch;
    makespan_ = timing_.makespan;
    held_ = held;
    std::swap(candidate_, best_);
  }
  return true;
}

}  // namespace eratos::schedule
