#include <cstddef>
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
    case Module::mtp:
      return false;
    default:
      return true;
  }
}

// Cast of one operand: read 2 B, write 1 B, and 1 B more for the transposed copy that the weight
// gradient reads. Delayed scaling knows its scale; current scaling reads the tensor once before.
// Source: NVIDIA/TransformerEngine common/transpose/cast_transpose (one read, both copies written).
Bytes cast_traffic(double elements, job::Recipe recipe) {
  const double bytes = recipe == job::Recipe::fp8_current ? 6.0 : 4.0;
  return Bytes{elements * bytes};
}

void insert_casts(std::vector<ops::Op>& list, const ops::Program& p, job::Recipe recipe) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!runs_narrow(list[i]) || list[i].pass == ops::Pass::wgrad) continue;
    // Forward casts the activation, dgrad the incoming gradient; the weight gradient reads both
    // casts, and weights are cast once a step.
    ops::Op cast;
    cast.pass = list[i].pass;
    cast.module = Module::quantize;
    cast.kernels = recipe == job::Recipe::fp8_current ? 2 : 1;
    const double elements = list[i].reads.empty() ? 0 : p.tensors[list[i].reads[0]].elements;
    cast.work = ops::Elementwise{cast_traffic(elements, recipe), ops::ElementwiseClass::streaming};
    list.insert(list.begin() + static_cast<std::ptrdiff_t>(i), cast);
    ++i;
  }
}

}  // namespace

void apply_precision(ops::Program& p, job::Recipe recipe) {
  const DType narrow = job::gemm_dtype(recipe);
  if (narrow != DType::fp8 && narrow != DType::fp4) return;
  for (auto* list : {&p.forward, &p.backward}) {
    for (ops::Op& op : *list) {
      if (runs_narrow(op)) std::get_if<ops::Gemm>(&op.work)->dtype = narrow;
    }
  }
  // An operand kept only for a matrix product is kept in the product's format; one that another op
  // reads again in backward stays as it is, and the product's copy is kept beside it.
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
    } else if (narrow_reader) {
      ops::Tensor copy = tensors[id];
      copy.name = "quantized_operand";
      copy.dtype = narrow;
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
  insert_casts(p.forward, p, recipe);
  insert_casts(p.backward, p, recipe);
}

}  // namespace eratos::lower
