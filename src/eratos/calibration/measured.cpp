#include "eratos/calibration/measured.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "eratos/base/check.h"

namespace eratos::calibration {

const MeasuredPiece* find(const Measured& m, const std::string& id) {
  for (const MeasuredPiece& p : m.pieces) {
    if (id_of(p.piece) == id) return &p;
  }
  return nullptr;
}

double quantile(std::span<const double> sorted, double q) {
  ERATOS_CHECK(!sorted.empty());
  const double at = q * static_cast<double>(sorted.size() - 1);
  const double below = std::floor(at);
  const auto i = static_cast<std::size_t>(below);
  const std::size_t next = std::min(i + 1, sorted.size() - 1);
  return sorted[i] + (at - below) * (sorted[next] - sorted[i]);
}

void summarise(std::span<const double> samples, MeasuredPiece& out) {
  ERATOS_CHECK(!samples.empty());
  out.samples.assign(samples.begin(), samples.end());
  std::vector<double> sorted = out.samples;
  std::sort(sorted.begin(), sorted.end());
  out.median = Seconds{quantile(sorted, 0.5)};
  out.minimum = Seconds{sorted.front()};
  const double range = quantile(sorted, 0.75) - quantile(sorted, 0.25);
  out.spread = out.median.value > 0 ? range / out.median.value : 0;
}

}  // namespace eratos::calibration
