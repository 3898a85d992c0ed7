#include <algorithm>
#include <variant>

#include "eratos/lower/passes.h"

namespace eratos::lower {

void apply_overlap(ops::Program& p, const job::JobSpec& spec) {
  const auto& rules = spec.framework.overlap;
  for (auto* list : {&p.forward, &p.backward}) {
    for (ops::Op& op : *list) {
      auto* c = std::get_if<ops::Collective>(&op.work);
      if (c == nullptr) continue;
      if (op.stream == ops::Stream::tp && spec.overlap.tp) {
        c->overlappable = std::max(c->overlappable, rules.tp_share);
      }
      if (op.stream == ops::Stream::ep && spec.overlap.moe_a2a) {
        c->overlappable = std::max(c->overlappable, rules.ep_share);
      }
    }
  }
}

}  // namespace eratos::lower
