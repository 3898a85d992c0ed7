#include "eratos/search/front.h"

#include <algorithm>
#include <cmath>

namespace eratos::search {

std::int64_t whole_gib(Bytes b) { return static_cast<std::int64_t>(std::ceil(b.value / kGiB)); }

bool Front::open_to(double figure, Bytes device_peak) const {
  const std::int64_t peak = whole_gib(device_peak);
  // The fastest of those that hold no more is the last of them.
  const auto above = std::partition_point(points_.begin(), points_.end(), [&](const Found& f) {
    return whole_gib(f.device_peak) <= peak;
  });
  return above == points_.begin() || figure < std::prev(above)->figure;
}

void Front::take(const Found& found) {
  if (!open_to(found.figure, found.device_peak)) return;
  const std::int64_t peak = whole_gib(found.device_peak);
  std::erase_if(points_, [&](const Found& f) {
    return whole_gib(f.device_peak) >= peak && f.figure >= found.figure;
  });
  const auto place = std::partition_point(points_.begin(), points_.end(), [&](const Found& f) {
    return whole_gib(f.device_peak) < peak;
  });
  points_.insert(place, found);
}

}  // namespace eratos::search
