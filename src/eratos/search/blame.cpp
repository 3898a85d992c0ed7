#include "eratos/search/blame.h"

#include <algorithm>
#include <cstddef>

#include "eratos/search/walk.h"

namespace eratos::search {

namespace {

bool any_legal(const Space& space, const RulesByAxis& rules) {
  Cursor cursor(space);
  Walk walk(cursor, rules, 0, kAxes);
  Removed removed;
  return walk.next(removed);
}

}  // namespace

std::vector<const Rule*> deciding_rules(const Space& space) {
  std::vector<const Rule*> out;
  if (any_legal(space, RulesByAxis(space))) return out;
  for (const Rule* rule : rules_of(space)) {
    if (rule->ground == Ground::repeat) continue;
    RulesByAxis others(space);
    for (std::vector<const Rule*>& at : others.at) std::erase(at, rule);
    if (any_legal(space, others)) out.push_back(rule);
  }
  return out;
}

job::JobSpec pinned_job(const Space& space) {
  Candidate at;
  for (std::size_t i = 0; i < kAxes; ++i) {
    const std::vector<Value>& values = space.axes[i];
    const int own = own_number(space, static_cast<AxisId>(i));
    const auto found =
        std::find_if(values.begin(), values.end(), [&](const Value& v) { return v.number == own; });
    if (found != values.end()) at.at[i] = static_cast<std::uint8_t>(found - values.begin());
  }
  job::JobSpec out = space.base;
  apply(space, at, out);
  return out;
}

}  // namespace eratos::search
