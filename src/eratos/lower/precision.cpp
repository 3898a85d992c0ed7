#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "eratos/lower/passes.h"

namespace eratos::lower {

namespace {

using ops::Module;

bool runs_narrow(const ops::Op& op) {
  if (!std::holds_alternative<ops::Gemm>(op.work)) return false;
  switch (op.module) {
    case Module::router:
    case Module::output_layer:
    case Module::core_attention:
    case Module::scan:
    case Module::residual:
    case Module::mtp:
    case Module::adapter:  // Assumes: adapters stay in 16 bits; their products are too small to cast
      return false;
    default:
      return true;
  }
}

void insert_casts(std::vector<ops::Op>& list, const ops::Program& p, const job::CastRule& rule) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!runs_narrow(list[i]) || list[i].pass == ops::Pass::wgrad) continue;
    // Forward casts the activation, dgrad the incoming gradient; the weight gradient reads both
    // casts, and weights are cast once a step.
    ops::Op cast;
    cast.pass = list[i].pass;
    cast.module = Module::quantize;
    cast.kernels = static_cast<std::uint16_t>(rule.kernels);
    const double elements = list[i].reads.empty() ? 0 : p.tensors[list[i].reads[0]].elements;
    cast.work = ops::Elementwise{Bytes{elements * rule.traffic}, ops::ElementwiseClass::streaming};
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), cast);
    ++i;
  }
}

bool has_narrow_product(const ops::Program& p, Module module) {
  for (const ops::Op& op : p.forward) {
    if (op.module == module && runs_narrow(op)) return true;
  }
  return false;
}

}  // namespace

void apply_precision(ops::Program& p, job::Recipe recipe) {
  if (!job::is_narrow(recipe)) return;
  const DType narrow = job::gemm_dtype(recipe);
  const job::CastRule rule = job::cast_rule(recipe);
  for (auto* list : {&p.forward, &p.backward}) {
    for (ops::Op& op : *list) {
      if (runs_narrow(op)) std::get_if<ops::Gemm>(&op.work)->dtype = narrow;
    }
  }
  for (ops::Parameter& q : p.parameters) {
    q.narrow = q.matrix && !q.embedding && has_narrow_product(p, q.module);
  }
  // An operand kept only for a matrix product is kept in the product's format; one that another op
  // reads again in backward stays as it is, and the product's copy is kept beside it. One copy of an
  // activation outlives forward, the one along columns that the weight gradient reads.
  // Source: NVIDIA/TransformerEngine pytorch/module/linear.py (update_usage after the forward
  // product).
  std::vector<ops::Tensor>& tensors = p.tensors;
  const std::size_t count = tensors.size();
  for (std::size_t id = 0; id < count; ++id) {
    if (!tensors[id].gemm_input || !tensors[id].saved) continue;
    bool narrow_reader = false;
    bool wide_reader = false;
    for (const ops::Op& op : p.backward) {
      for (const ops::TensorId r : op.reads) {
        if (r != id) continue;
        if (runs_narrow(op)) {
          narrow_reader = true;
        } else if (!std::holds_alternative<ops::Collective>(op.work)) {
          wide_reader = true;
        } else {
          narrow_reader = true;  // the gather before a weight gradient
        }
      }
    }
    if (narrow_reader && !wide_reader) {
      tensors[id].dtype = narrow;
      tensors[id].scale_bytes = rule.scale_bytes;
    } else if (narrow_reader) {
      ops::Tensor copy = tensors[id];
      copy.name = "quantized_operand";
      copy.dtype = narrow;
      copy.scale_bytes = rule.scale_bytes;
      tensors.push_back(copy);
      const auto copy_id = static_cast<ops::TensorId>(tensors.size() - 1);
      // Lives as long as its weight gradient, or the gather before it, needs it.
      for (ops::Op& op : p.forward) {
        if (!op.writes.empty() && op.writes[0] == id) op.writes.push_back(copy_id);
      }
      for (ops::Op& op : p.backward) {
        const bool weight_gradient = op.pass == ops::Pass::wgrad && runs_narrow(op);
        if (!weight_gradient && !std::holds_alternative<ops::Collective>(op.work)) continue;
        for (ops::TensorId& r : op.reads) {
          if (r == id) r = copy_id;
        }
      }
    }
  }
  insert_casts(p.forward, p, rule);
  insert_casts(p.backward, p, rule);
}

void apply_packing(ops::Program& p, double part_length) {
  if (part_length <= 0) return;
  for (auto* list : {&p.forward, &p.backward}) {
    for (ops::Op& op : *list) {
      // Unfused attention multiplies whole rows and masks them.
      if (auto* a = std::get_if<ops::Attention>(&op.work)) {
        a->seq_kv = std::min(a->seq_kv, part_length);
      }
    }
  }
}

}  // namespace eratos::lower
