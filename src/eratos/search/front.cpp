#include "eratos/search/front.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace eratos::search {

namespace {

bool no_worse(const Along& a, const Along& b) {
  for (std::size_t i = 0; i < kMostAlong; ++i) {
    if (a[i] > b[i]) return false;
  }
  return true;
}

}  // namespace

std::int64_t whole_gib(Bytes b) { return static_cast<std::int64_t>(std::ceil(b.value / kGiB)); }

bool Front::open_to(const Along& least) const {
  // Only those before it can be no worse in the first figure, and the last of them are mostly best
  // in the others.
  const auto behind = std::partition_point(points_.begin(), points_.end(),
                                           [&](const Found& f) { return f.along[0] <= least[0]; });
  for (auto at = behind; at != points_.begin();) {
    if (no_worse((--at)->along, least)) return false;
  }
  return true;
}

void Front::take(const Found& found) {
  if (!open_to(found.along)) return;
  std::erase_if(points_, [&](const Found& f) { return no_worse(found.along, f.along); });
  const auto place = std::partition_point(points_.begin(), points_.end(),
                                          [&](const Found& f) { return f.along < found.along; });
  points_.insert(place, found);
}

}  // namespace eratos::search
