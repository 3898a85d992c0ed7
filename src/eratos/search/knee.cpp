#include "eratos/search/knee.h"

namespace eratos::search {

std::optional<std::size_t> knee_of(std::span<const SizePoint> points) {
  if (points.size() < 3) return std::nullopt;
  const auto worth = [&](std::size_t i) {
    return points[i].tokens_per_s * (points[i].tokens_per_s / points[i].gpus);
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < points.size(); ++i) {
    if (worth(i) > worth(best)) best = i;
  }
  if (best + 1 == points.size()) return std::nullopt;
  return best;
}

}  // namespace eratos::search
