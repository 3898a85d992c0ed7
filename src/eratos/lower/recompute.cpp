#include <algorithm>
#include <cstddef>

#include "eratos/lower/passes.h"

namespace eratos::lower {

namespace {

using ops::Module;
using ops::TensorId;

bool drops_output(Module m) {
  return m == Module::norm || m == Module::activation || m == Module::expert_activation ||
         m == Module::mla_up;
}

bool writes(const ops::Op& op, TensorId id) {
  return std::find(op.writes.begin(), op.writes.end(), id) != op.writes.end();
}
bool reads(const ops::Op& op, TensorId id) {
  return std::find(op.reads.begin(), op.reads.end(), id) != op.reads.end();
}

// Forward ops [begin, end) of one recomputed stretch: drops what they made, and repeats them in
// backward just before the first op that reads a dropped tensor.
void recompute_stretch(ops::Program& p, std::size_t begin, std::size_t end,
                       const job::ModuleSet& modules) {
  InplaceVector<TensorId, 64> dropped;
  for (std::size_t i = begin; i < end; ++i) {
    for (const TensorId id : p.forward[i].writes) {
      if (!p.tensors[id].saved) continue;
      bool needed_outside = false;
      if (!drops_output(p.forward[i].module)) {
        for (std::size_t j = 0; j < p.forward.size(); ++j) {
          const bool inside = modules.test(static_cast<std::size_t>(p.forward[j].module));
          needed_outside = needed_outside || (!inside && reads(p.forward[j], id));
        }
      }
      if (needed_outside) continue;
      p.tensors[id].saved = false;
      dropped.push_back(id);
    }
  }
  if (dropped.empty()) return;
  std::size_t at = p.backward.size();
  for (std::size_t j = p.backward.size(); j-- > 0;) {
    for (const TensorId id : dropped) {
      if (reads(p.backward[j], id)) at = j;
    }
  }
  std::vector<ops::Op> again(p.forward.begin() + static_cast<std::ptrdiff_t>(begin),
                             p.forward.begin() + static_cast<std::ptrdiff_t>(end));
  for (ops::Op& op : again) op.pass = ops::Pass::recompute;
  p.backward.insert(p.backward.begin() + static_cast<std::ptrdiff_t>(at), again.begin(), again.end());
  // What the repeated ops read has to be there: inputs from outside the stretch stay kept.
  for (std::size_t i = begin; i < end; ++i) {
    for (const TensorId id : p.forward[i].reads) {
      bool made_inside = false;
      for (std::size_t j = begin; j < end; ++j) made_inside = made_inside || writes(p.forward[j], id);
      if (!made_inside) p.tensors[id].saved = true;
    }
  }
}

}  // namespace

void apply_full_recompute(ops::Program& p) {
  for (ops::Tensor& t : p.tensors) t.saved = false;
  if (p.input != ops::kNoTensor) p.tensors[p.input].saved = true;
  const std::size_t count = p.forward.size();
  p.backward.insert(p.backward.begin(), p.forward.begin(), p.forward.end());
  for (std::size_t i = 0; i < count; ++i) p.backward[i].pass = ops::Pass::recompute;
}

void apply_selective_recompute(ops::Program& p, const job::ModuleSet& modules) {
  std::size_t i = 0;
  while (i < p.forward.size()) {
    if (!modules.test(static_cast<std::size_t>(p.forward[i].module))) {
      ++i;
      continue;
    }
    std::size_t end = i + 1;
    while (end < p.forward.size() &&
           modules.test(static_cast<std::size_t>(p.forward[end].module))) {
      ++end;
    }
    recompute_stretch(p, i, end, modules);
    i = end;
  }
}

}  // namespace eratos::lower
