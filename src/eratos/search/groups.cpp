#include "eratos/search/groups.h"

namespace eratos::search {

namespace {

constexpr auto kPipeline = static_cast<std::size_t>(AxisId::pp);
constexpr std::size_t kOffload = kScreenedAxes - 1;
static_assert(static_cast<std::size_t>(AxisId::offload) == kOffload);

}  // namespace

GroupWalk::GroupWalk(const Space& space, const RulesByAxis& rules)
    : cursor_(space),
      groups_(cursor_, rules, kPipeline, kOffload),
      siblings_(cursor_, rules, kOffload, kScreenedAxes),
      tails_(cursor_, rules) {}

void GroupWalk::begin(const Candidate& stem) {
  for (std::size_t i = 0; i < kPipeline; ++i) cursor_.set(i, stem.at[i]);
  groups_.restart();
}

Groups GroupWalk::next(std::size_t most) {
  Groups out;
  while (out.ends.size() < most) {
    if (!groups_.next(out.removed)) {
      out.last = true;
      break;
    }
    const std::size_t before = out.prefixes.size();
    siblings_.restart();
    while (siblings_.next(out.removed)) {
      const TailCount& tail = tails_.of_prefix();
      add(tail, out.removed);
      if (tail.legal == 0) continue;
      Prefix p{cursor_.at, static_cast<std::uint32_t>(tail.legal)};
      for (std::size_t i = kScreenedAxes; i < kAxes; ++i) p.at.at[i] = tail.last.at[i];
      out.prefixes.push_back(p);
    }
    if (out.prefixes.size() > before) out.ends.push_back(out.prefixes.size());
  }
  return out;
}

}  // namespace eratos::search
