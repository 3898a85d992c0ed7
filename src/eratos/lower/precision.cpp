#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>

#include "eratos/lower/passes.h"

namespace eratos::lower {

namespace {

using ops::Module;

// `head`: the output layer's products too.
bool runs_narrow(const ops::Op& op, bool head) {
  if (!std::holds_alternative<ops::Gemm>(op.work)) return false;
  switch (op.module) {
    case Module::output_layer:
      return head;
    case Module::router:
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

// How this job makes operands narrow.
struct Casting {
  job::CastRule rule;
  double element = 1;  // bytes of a narrow one
  int copies = 2;      // that products need of one operand
  bool by_norm = false;
  bool grouped = true;  // all experts' rows in one launch
  bool fused = false;   // an expert's activation is cast by the product before it
  bool head = false;    // the output layer's products are narrow

  // A copy along columns is made of the other by a kernel of its own, once that is complete.
  bool transposes() const { return rule.tensor_scale && copies == 2; }
  double whole() const { return rule.traffic - (2 - copies) * element; }
  double one_copy() const { return rule.maximum + 2 + element; }
};

// `pieces`: cut at the experts and cast one by one.
void insert_cast(std::vector<ops::Op>& list, std::size_t at, ops::Pass pass, double bytes,
                 int kernels, double pieces = 1) {
  ops::Op cast;
  cast.pass = pass;
  cast.module = Module::quantize;
  cast.kernels = static_cast<std::uint16_t>(std::min(65535.0, kernels * pieces));
  cast.work = ops::Elementwise{Bytes{bytes}, ops::ElementwiseClass::streaming,
                               pieces > 1 ? kernels * pieces : 1.0};
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), cast);
}

bool reads(const ops::Op& op, ops::TensorId id) {
  return std::find(op.reads.begin(), op.reads.end(), id) != op.reads.end();
}

// The gather over tensor-parallel ranks that writes `id`, or the list's size.
std::size_t gather_of(const std::vector<ops::Op>& list, ops::TensorId id) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const auto* c = std::get_if<ops::Collective>(&list[i].work);
    if (c == nullptr || c->kind != ops::CollectiveKind::all_gather || c->axis != Axis::tp) continue;
    if (!list[i].writes.empty() && list[i].writes[0] == id) return i;
  }
  return list.size();
}

// The norm of forward that writes `id` for one narrow product alone, directly or behind a gather:
// one module then has both.
ops::Op* norm_of(ops::Program& p, ops::TensorId id, bool head) {
  ops::Op* norm = nullptr;
  int readers = 0;
  for (ops::Op& op : p.forward) {
    const auto* e = std::get_if<ops::Elementwise>(&op.work);
    const bool writes = !op.writes.empty() && op.writes[0] == id;
    if (writes && e != nullptr && e->kind == ops::ElementwiseClass::norm_forward) norm = &op;
    if (!reads(op, id)) continue;
    readers += 1;
    const auto* c = std::get_if<ops::Collective>(&op.work);
    const bool gather = c != nullptr && c->axis == Axis::tp;
    if (!runs_narrow(op, head) && !gather) return nullptr;
  }
  return readers == 1 ? norm : nullptr;
}

// Whether narrow_gather() has been here.
bool is_narrow(const ops::Op& gather, const ops::Tensor& whole, DType narrow) {
  return whole.dtype == narrow &&
         std::get_if<ops::Collective>(&gather.work)->bytes.value == whole.bytes().value;
}

// A gather whose result narrow products alone read carries what they read: one copy, or with block
// scales one for each of the two layouts that they ask for. Returns whether it does.
// Source: NVIDIA/TransformerEngine pytorch/distributed.py (gather_along_first_dim with a quantizer).
bool narrow_gather(ops::Program& p, ops::Op& gather, const Casting& how, DType narrow) {
  const ops::TensorId id = gather.writes[0];
  bool along_rows = false;
  bool along_columns = false;
  for (const auto* list : {&p.forward, &p.backward}) {
    for (const ops::Op& op : *list) {
      if (!reads(op, id) || op.kernels == 0) continue;
      if (!runs_narrow(op, how.head)) return false;
      (op.pass == ops::Pass::wgrad ? along_columns : along_rows) = true;
    }
  }
  ops::Tensor& whole = p.tensors[id];
  const bool both = along_rows && along_columns && !how.rule.tensor_scale;
  const double each = (how.element + how.rule.scale_bytes) * (both ? 2 : 1);
  whole.dtype = narrow;
  whole.scale_bytes = each - how.element;
  std::get_if<ops::Collective>(&gather.work)->bytes = Bytes{whole.elements * each};
  return true;
}

// Casts of what the product at `i` of `list` reads, before it or before the gather that brings it:
// then each rank casts its own tokens. Returns how many ops were added before the product.
std::size_t cast_operand(ops::Program& p, std::vector<ops::Op>& list, std::size_t i,
                         const Casting& how, DType narrow) {
  const ops::Pass pass = list[i].pass;
  const ops::TensorId operand = list[i].reads[0];
  // Transformer Engine cuts the rows at the experts and casts the pieces one by one. Source:
  // NVIDIA/TransformerEngine pytorch/csrc/extensions/cast.cpp (split_quantize).
  const auto& product = *std::get_if<ops::Gemm>(&list[i].work);
  const double pieces = product.experts && !how.grouped ? product.groups : 1.0;
  std::size_t at = gather_of(list, operand);
  ops::TensorId source = operand;
  const bool gathered = at < i;
  if (gathered) {
    if (is_narrow(list[at], p.tensors[operand], narrow)) return 0;  // an earlier product's
    source = list[at].reads[0];
    if (!narrow_gather(p, list[at], how, narrow)) {
      insert_cast(list, i, pass, p.tensors[operand].elements * how.whole(), how.rule.kernels);
      return 1;
    }
  } else {
    at = i;
  }
  double traffic = gathered && how.rule.tensor_scale ? how.one_copy() : how.whole();
  int kernels = how.rule.kernels;
  ops::Op* norm = how.by_norm && pass == ops::Pass::forward ? norm_of(p, source, how.head) : nullptr;
  if (norm != nullptr && how.rule.maximum > 0) {
    traffic -= how.rule.maximum;
    kernels -= 1;
  } else if (norm != nullptr) {
    const double elements = p.tensors[source].elements;
    std::get_if<ops::Elementwise>(&norm->work)->traffic -= Bytes{elements * (2 - how.element)};
    const bool transpose = how.transposes() && !gathered;
    traffic = transpose ? 2 * how.element : 0;
    kernels = transpose ? 1 : 0;
  }
  if (kernels == 0) return 0;
  insert_cast(list, at, pass, p.tensors[source].elements * traffic, kernels, pieces);
  return 1;
}

// Where experts' activation is an epilogue of the grouped product before it, so is the cast of what it
// writes. Source: NVIDIA/TransformerEngine pytorch/ops/fused (grouped MLP: grouped product, gated
// activation and MXFP8 cast in one kernel); Megatron-LM --use-transformer-engine-op-fuser.
// Assumes: it runs where all launches are in graphs; Megatron-Bridge's recipes turn both on together.
bool fuses_expert_mlp(const ops::Program& p, const job::JobSpec& spec) {
  if (!spec.framework.fusions.expert_epilogue || spec.precision != job::Recipe::mxfp8 ||
      spec.graph_share < 1) {
    return false;
  }
  double in = 0;
  double out = 0;
  for (const ops::Op& op : p.forward) {
    const auto* product = std::get_if<ops::Gemm>(&op.work);
    if (product == nullptr) continue;
    if (op.module == Module::expert_in) in = product->n;
    if (op.module == Module::expert_out) out = product->k;
  }
  return in > out;  // gate and up: a plain activation has no such kernel
}

// Removes the gated activation's passes of their own: an epilogue writes what it made.
void fuse_activation(std::vector<ops::Op>& list) {
  for (ops::Op& op : list) {
    auto* e = std::get_if<ops::Elementwise>(&op.work);
    if (e != nullptr && op.module == Module::expert_activation) op.kernels = 0;
  }
}

bool reads_epilogue(const ops::Op& op) {
  return op.pass == ops::Pass::forward || op.pass == ops::Pass::recompute
             ? op.module == Module::expert_out
             : op.module == Module::expert_in;
}

// Forward casts the activation, dgrad the incoming gradient; the weight gradient reads both casts,
// and weights are cast once a step.
void insert_casts(ops::Program& p, std::vector<ops::Op>& list, const Casting& how, DType narrow) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!runs_narrow(list[i], how.head)) continue;
    if (list[i].pass != ops::Pass::wgrad) {
      if (how.fused && reads_epilogue(list[i])) continue;
      if (!list[i].reads.empty()) i += cast_operand(p, list, i, how, narrow);
      continue;
    }
    // What came through a gather comes along rows. A copy: each cast moves the product along.
    const auto operands = list[i].reads;
    for (const ops::TensorId id : operands) {
      const std::size_t gather = gather_of(p.backward, id);
      const bool here = gather < p.backward.size();
      if (!here && gather_of(p.forward, id) == p.forward.size()) continue;
      if (here && !is_narrow(p.backward[gather], p.tensors[id], narrow) &&
          !narrow_gather(p, p.backward[gather], how, narrow)) {
        continue;
      }
      if (!how.transposes()) continue;
      insert_cast(list, i, ops::Pass::wgrad, p.tensors[id].elements * 2 * how.element, 1);
      ++i;
    }
  }
}

bool has_narrow_product(const ops::Program& p, Module module, bool head) {
  for (const ops::Op& op : p.forward) {
    if (op.module == module && runs_narrow(op, head)) return true;
  }
  return false;
}

// Attention in 8 bits: what its kernels read is cast before them, a scale a tensor or a block.
// Source: NVIDIA/TransformerEngine pytorch/attention/dot_product_attention/backends.py (FusedAttnFunc
// with fp8 quantizers of Q, K, V and of the incoming gradient).
void narrow_attention(ops::Program& p, std::vector<ops::Op>& list, const Casting& how) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto* a = std::get_if<ops::Attention>(&list[i].work);
    if (a == nullptr) continue;
    a->dtype = DType::fp8;
    double elements = 0;
    if (a->backward) {
      elements = a->batch * a->seq_q * a->heads * a->v_head_dim;
    } else {
      for (const ops::TensorId id : list[i].reads) elements += p.tensors[id].elements;
    }
    insert_cast(list, i, list[i].pass, elements * how.one_copy(), how.rule.kernels);
    ++i;
  }
}

}  // namespace

void apply_precision(ops::Program& p, const job::JobSpec& spec) {
  const job::Recipe recipe = spec.precision;
  if (!job::is_narrow(recipe)) return;
  const DType narrow = job::gemm_dtype(recipe);
  const job::CastRule rule = job::cast_rule(recipe);
  const bool head = spec.narrow.output_layer;
  for (auto* list : {&p.forward, &p.backward}) {
    for (ops::Op& op : *list) {
      if (runs_narrow(op, head)) std::get_if<ops::Gemm>(&op.work)->dtype = narrow;
    }
  }
  for (ops::Parameter& q : p.parameters) {
    const bool table = q.embedding && !(head && q.module == Module::output_layer);
    q.narrow = q.matrix && !table && has_narrow_product(p, q.module, head);
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
        if (runs_narrow(op, head)) {
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
        const bool weight_gradient = op.pass == ops::Pass::wgrad && runs_narrow(op, head);
        if (!weight_gradient && !std::holds_alternative<ops::Collective>(op.work)) continue;
        for (ops::TensorId& r : op.reads) {
          if (r == id) r = copy_id;
        }
      }
    }
  }
  const bool fused = fuses_expert_mlp(p, spec);
  const Casting how{rule,
                    bytes_per_element(narrow),
                    job::copies_of(recipe, spec.cluster.accelerator),
                    spec.framework.fusions.norm_cast && rule.tensor_scale,
                    fused || spec.framework.fusions.grouped_cast,
                    fused,
                    head};
  insert_casts(p, p.forward, how, narrow);
  insert_casts(p, p.backward, how, narrow);
  if (spec.narrow.attention) {
    narrow_attention(p, p.forward, how);
    narrow_attention(p, p.backward, how);
  }
  if (!fused) return;
  fuse_activation(p.forward);
  fuse_activation(p.backward);
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
