#include "eratos/search/method.h"

#include <algorithm>

namespace eratos::search {

std::uint64_t family_of(const Space& space, const Candidate& candidate) {
  std::uint64_t out = 0;
  for (const AxisId a : {AxisId::tp, AxisId::cp, AxisId::ep, AxisId::etp, AxisId::pp}) {
    out = out * space.values(a).size() + candidate[a];
  }
  return out;
}

void keep_best(const Found& found, const Space& space, std::size_t most, std::vector<Found>& top) {
  const std::uint64_t family = family_of(space, found.at);
  const auto same = std::find_if(top.begin(), top.end(),
                                 [&](const Found& f) { return family_of(space, f.at) == family; });
  if (same != top.end()) {
    if (same->figure <= found.figure) return;
    top.erase(same);
  }
  const auto place =
      std::upper_bound(top.begin(), top.end(), found,
                       [](const Found& a, const Found& b) { return a.figure < b.figure; });
  top.insert(place, found);
  if (top.size() > most) top.pop_back();
}

}  // namespace eratos::search
