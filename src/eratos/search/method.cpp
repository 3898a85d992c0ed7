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

Found found_of(const Candidate& at, const Tell& tell) {
  return {at, tell.figure, tell.device_peak, tell.per_token, tell.busy, tell.along};
}

bool is_better(const Found& a, const Found& b) {
  return a.figure != b.figure ? a.figure < b.figure : a.per_token < b.per_token;
}

void count_refused(int limit, std::uint64_t candidates, Outcome& outcome) {
  const auto i = static_cast<std::size_t>(limit);
  if (outcome.refused.size() <= i) outcome.refused.resize(i + 1);
  outcome.refused[i] += candidates;
}

void keep_best(const Found& found, const Space& space, std::size_t most, std::vector<Found>& top) {
  const std::uint64_t family = family_of(space, found.at);
  const auto same = std::find_if(top.begin(), top.end(),
                                 [&](const Found& f) { return family_of(space, f.at) == family; });
  if (same != top.end()) {
    if (!is_better(found, *same)) return;
    top.erase(same);
  }
  const auto place = std::upper_bound(top.begin(), top.end(), found, is_better);
  top.insert(place, found);
  if (top.size() > most) top.pop_back();
}

void settle(const Candidate& at, const Tell& tell, const Space& space, std::size_t most,
            Outcome& outcome) {
  if (!tell.fits) {
    ++outcome.proof.too_big;
    if (!outcome.any_too_big || tell.least_peak < outcome.least_peak) {
      outcome.any_too_big = true;
      outcome.least = at;
      outcome.least_peak = tell.least_peak;
    }
    return;
  }
  ++outcome.proof.simulated;
  if (tell.refused_by >= 0) {
    count_refused(tell.refused_by, 1, outcome);
  } else {
    keep_best(found_of(at, tell), space, most, outcome.top);
  }
}

}  // namespace eratos::search
