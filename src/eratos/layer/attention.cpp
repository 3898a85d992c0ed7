#include "eratos/layer/attention.h"

#include <algorithm>

namespace eratos::layer {

using ops::ElementwiseClass;

namespace {

// Columns of the projection: queries (and as many of the gate), keys, and values of their own.
double projected(const AttentionSpec& spec) {
  const double queries = spec.heads * (spec.output_gate ? 2.0 : 1.0);
  return (queries + spec.kv_heads * (spec.shared_kv ? 1.0 : 2.0)) * spec.head_dim;
}

LinearSpec qkv_linear(const AttentionSpec& spec, const Builder& b) {
  const int separate = spec.shared_kv ? 2 : 3;
  return {"qkv",
          spec.hidden,
          projected(spec),
          Split::column,
          Module::qkv,
          spec.qkv_bias,
          b.profile().fusions.qkv ? 1 : separate};
}

LinearSpec out_linear(const AttentionSpec& spec) {
  return {"attention_out",
          static_cast<double>(spec.heads) * spec.head_dim,
          spec.hidden,
          Split::row,
          Module::attention_out,
          spec.out_bias,
          1};
}

CoreSizes core_sizes(const AttentionSpec& spec, int tp) {
  return {static_cast<double>(spec.heads) / tp,
          std::max(1.0, static_cast<double>(spec.kv_heads) / tp),
          static_cast<double>(spec.head_dim),
          static_cast<double>(spec.head_dim),
          static_cast<double>(spec.window),
          static_cast<double>(spec.chunk),
          spec.sinks,
          spec.soft_cap > 0};
}

bool shares_heads(const AttentionSpec& spec, int tp) { return spec.kv_heads < tp; }

// Elements of the projection's output of all tensor-parallel ranks together.
double whole_qkv(const AttentionSpec& spec, const LayerContext& c) {
  return c.tokens() * projected(spec);
}

NormSpec qk_norm(const AttentionSpec& spec) {
  return {NormKind::rmsnorm, false, spec.qk_norm_weight};
}
constexpr NormSpec kValueNorm{NormKind::rmsnorm, false, false};

// Eager rotary: two products, a rotated half (negate, concatenate) and a sum; when only a share of
// the head rotates, its two parts are joined again.
std::uint16_t rotary_kernels(const AttentionSpec& spec, const Builder& b) {
  if (b.profile().fusions.rotary) return 1;
  return spec.rotary_share < 1 ? 6 : 5;
}

// Whether Q and K are made anew before attention (rotary out of place), which is what attention
// then keeps instead of the projection's output.
TensorId rotate(Builder& b, const AttentionSpec& spec, const char* name, TensorId x,
                double elements) {
  const TensorId y = b.tensor(name, elements, Module::rotary);
  ops::Op& op = b.elementwise(Pass::forward, Module::rotary, ElementwiseClass::streaming, {x}, {y},
                              // The source holds Q, K and V together: only this slice is read.
                              bytes_of(elements - b.elements(x), b.context().activation));
  op.kernels = rotary_kernels(spec, b);
  return y;
}

// sigmoid(gate) * context, and its backward: the gradients of both.
TensorId gate_forward(Builder& b, TensorId gate, TensorId context) {
  const TensorId gated = b.tensor("gated_context", b.elements(context), Module::core_attention);
  b.elementwise(Pass::forward, Module::core_attention, ElementwiseClass::streaming, {context, gate},
                {gated})
      .kernels = b.profile().fusions.activation ? 1 : 2;
  b.save(gate);
  b.save(context);
  return gated;
}

}  // namespace

void check_attention(const AttentionSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out) {
  if (spec.heads < 1 || spec.kv_heads < 1 || spec.head_dim < 1 || spec.heads % spec.kv_heads != 0) {
    reject(out, "model",
           number(spec.heads) + " attention heads, " + number(spec.kv_heads) +
               " key-value heads of size " + number(spec.head_dim),
           "give positive numbers, heads a multiple of key-value heads");
    return;
  }
  if (spec.window < 0 || spec.chunk < 0) {
    reject(out, "model",
           "an attention window of " + number(std::min(spec.window, spec.chunk)) + " keys",
           "give a positive number, or none for full attention");
  }
  if (spec.heads % p.tp != 0) {
    reject(out, "parallel.tp",
           "tp=" + number(p.tp) + " does not divide the " + number(spec.heads) + " attention heads",
           "choose a tp that divides " + number(spec.heads));
  } else if (spec.kv_heads % p.tp != 0 && p.tp % spec.kv_heads != 0) {
    reject(out, "parallel.tp",
           "tp=" + number(p.tp) + " and the " + number(spec.kv_heads) +
               " key-value heads do not divide one another",
           "choose a tp that divides " + number(spec.kv_heads) + " or is a multiple of it");
  } else if (p.cp > 1 && p.cp_kind == parallel::CpKind::a2a &&
             (spec.heads / p.tp % p.cp != 0 || spec.kv_heads % (p.tp * p.cp) != 0)) {
    reject(out, "parallel.cp_kind",
           "cp=" + number(p.cp) + " by all-to-all does not divide the rank's heads, " +
               number(spec.heads) + "/" + number(p.tp) + " and " + number(spec.kv_heads) + "/" +
               number(p.tp),
           "choose cp_kind p2p, or a cp that divides both");
  }
}

TensorId attention_forward(const AttentionSpec& spec, Builder& b, TensorId x, AttentionState& s) {
  const LayerContext& c = b.context();
  const CoreSizes size = core_sizes(spec, c.tp);
  const double q_elements = c.tokens() * size.heads * size.head_dim;
  const double kv_elements = c.tokens() * size.kv_heads * size.head_dim;
  TensorId mixed = linear_forward(qkv_linear(spec, b), b, x, s.qkv);
  if (shares_heads(spec, c.tp)) {
    const TensorId gathered = b.tensor("gathered_qkv", whole_qkv(spec, c), Module::qkv);
    b.collective(Pass::forward, Module::qkv, ops::CollectiveKind::all_gather, parallel::Axis::tp,
                 whole_qkv(spec, c), c.activation, {mixed}, {gathered});
    mixed = gathered;
  }
  TensorId q = mixed;
  TensorId k = mixed;
  // Q, K and V are slices of one buffer; each becomes a tensor of its own where it is first kept.
  TensorId v = b.tensor("value", kv_elements, Module::qkv);
  b.slice(Module::qkv, mixed, {v});
  if (spec.value_norm) {
    s.v_norm =
        norm_forward(kValueNorm, b, v, kv_elements / size.head_dim, size.head_dim, Module::norm);
    v = s.v_norm.output;
  }
  if (spec.output_gate) {
    s.gate = b.tensor("output_gate", q_elements, Module::qkv);
    b.slice(Module::qkv, mixed, {s.gate});
  }
  if (spec.sinks) b.vector_parameter("sinks", size.heads, Module::core_attention, false);
  if (spec.qk_norm || spec.qk_norm_full) {
    const double width_q = spec.qk_norm_full ? size.heads * size.head_dim : size.head_dim;
    const double width_k = spec.qk_norm_full ? size.kv_heads * size.head_dim : size.head_dim;
    const TensorId q_slice = b.tensor("query", q_elements, Module::qkv);
    const TensorId k_slice = b.tensor("key", kv_elements, Module::qkv);
    b.slice(Module::qkv, mixed, {q_slice, k_slice});
    const bool whole = !spec.qk_norm_full;
    const NormSpec norm = qk_norm(spec);
    s.q_norm = norm_forward(norm, b, q_slice, q_elements / width_q, width_q, Module::norm, whole);
    s.k_norm = norm_forward(norm, b, k_slice, kv_elements / width_k, width_k, Module::norm, whole);
    q = s.q_norm.output;
    k = s.k_norm.output;
  }
  if (spec.position == Position::rotary) {
    q = rotate(b, spec, "rotated_query", q, q_elements);
    k = rotate(b, spec, "rotated_key", k, kv_elements);
  } else if (q == mixed) {
    q = b.tensor("query", q_elements, Module::qkv);
    k = b.tensor("key", kv_elements, Module::qkv);
    b.slice(Module::qkv, mixed, {q, k});
  }
  s.core = core_forward(b, size, q, k, v);
  if (b.profile().saved.value_in_joined_qkv && spec.heads == spec.kv_heads &&
      spec.position == Position::rotary) {
    s.extra = b.tensor("joined_query_key", q_elements + kv_elements, Module::core_attention);
    b.slice(Module::core_attention, s.core.context, {s.extra});
    b.save(s.extra);
  }
  TensorId context = s.core.context;
  if (spec.output_gate) context = gate_forward(b, s.gate, context);
  return linear_forward(out_linear(spec), b, context, s.out);
}

TensorId attention_backward(const AttentionSpec& spec, Builder& b, const AttentionState& s,
                            TensorId dy) {
  const LayerContext& c = b.context();
  const CoreSizes size = core_sizes(spec, c.tp);
  TensorId d_context = linear_backward(out_linear(spec), b, s.out, dy);
  TensorId d_gate = ops::kNoTensor;
  if (spec.output_gate) {
    const TensorId d_gated = d_context;
    d_context = b.tensor("context_gradient", b.elements(d_gated), Module::core_attention);
    d_gate = b.tensor("output_gate_gradient", b.elements(d_gated), Module::core_attention);
    b.elementwise(Pass::dgrad, Module::core_attention, ElementwiseClass::streaming,
                  {d_gated, s.gate, s.core.context}, {d_context, d_gate})
        .kernels = b.profile().fusions.activation ? 1 : 3;
  }
  CoreGradients g = core_backward(b, size, s.core, d_context);
  if (s.extra != ops::kNoTensor) b.release(Module::core_attention, s.extra);
  if (spec.position == Position::rotary) {
    const std::uint16_t kernels = rotary_kernels(spec, b);
    b.elementwise(Pass::dgrad, Module::rotary, ElementwiseClass::streaming, {g.q}, {g.q}).kernels =
        kernels;
    b.elementwise(Pass::dgrad, Module::rotary, ElementwiseClass::streaming, {g.k}, {g.k}).kernels =
        kernels;
  }
  if (spec.qk_norm || spec.qk_norm_full) {
    g.q = norm_backward(qk_norm(spec), b, s.q_norm, g.q, Module::norm);
    g.k = norm_backward(qk_norm(spec), b, s.k_norm, g.k, Module::norm);
  }
  if (spec.value_norm) g.v = norm_backward(kValueNorm, b, s.v_norm, g.v, Module::norm);
  const bool shared = shares_heads(spec, c.tp);
  TensorId d_mixed =
      b.tensor("qkv_gradient", whole_qkv(spec, c) / (shared ? 1 : c.tp), Module::qkv);
  b.elementwise(Pass::dgrad, Module::qkv, ElementwiseClass::streaming, {g.q, g.k, g.v, d_gate},
                {d_mixed});
  if (shared) {
    const TensorId own = b.tensor("own_qkv_gradient", whole_qkv(spec, c) / c.tp, Module::qkv);
    b.collective(Pass::dgrad, Module::qkv, ops::CollectiveKind::reduce_scatter, parallel::Axis::tp,
                 whole_qkv(spec, c), c.activation, {d_mixed}, {own});
    d_mixed = own;
  }
  return linear_backward(qkv_linear(spec, b), b, s.qkv, d_mixed);
}

double attention_parameters(const AttentionSpec& a) {
  const double q = static_cast<double>(a.heads) * a.head_dim;
  const double kv = static_cast<double>(a.kv_heads) * a.head_dim;
  const double projected = q * (a.output_gate ? 2 : 1) + kv * (a.shared_kv ? 1 : 2);
  double n = a.hidden * projected + q * a.hidden;
  if (a.qkv_bias) n += projected;
  if (a.out_bias) n += a.hidden;
  if (a.qk_norm && a.qk_norm_weight) n += 2.0 * a.head_dim;
  if (a.qk_norm_full && a.qk_norm_weight) n += q + kv;
  if (a.sinks) n += a.heads;
  return n;
}

MixerWork attention_work(const AttentionSpec& a, double sequence, bool causal) {
  const double q = static_cast<double>(a.heads) * a.head_dim;
  const double kv = static_cast<double>(a.kv_heads) * a.head_dim;
  const double positions = a.chunk > 0 ? std::min<double>(a.chunk, sequence) : sequence;
  return {.weights = a.hidden * (q * (a.output_gate ? 3 : 2) + kv * (a.shared_kv ? 1 : 2)),
          .width = 2 * q,
          .keys = ops::visible_keys(positions, causal, a.window)};
}

}  // namespace eratos::layer
