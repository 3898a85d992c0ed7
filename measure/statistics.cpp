#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace eratos::device {

namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

Summary summarise(std::vector<double> samples) {
  Summary out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  out.median = quantile(samples, 0.5);
  out.minimum = samples.front();
  if (!(out.median > 0)) return out;
  out.spread = (quantile(samples, 0.75) - quantile(samples, 0.25)) / out.median;
  const auto n = static_cast<double>(samples.size());
  const auto from_end = static_cast<std::ptrdiff_t>(std::floor(n / 2 - 1.96 * std::sqrt(n) / 2));
  const std::size_t low = from_end >= 1 ? static_cast<std::size_t>(from_end - 1) : 0;
  out.interval = (samples[samples.size() - 1 - low] - samples[low]) / 2 / out.median;
  return out;
}

}  // namespace eratos::device
