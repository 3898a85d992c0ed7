#include "eratos/layer/mla.h"

namespace eratos::layer {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using parallel::Axis;

namespace {

const NormSpec kLatentNorm{NormKind::rmsnorm, false};

double qk_dim(const MlaSpec& spec) { return spec.qk_nope_head_dim + spec.qk_rope_head_dim; }

LinearSpec q_down(const MlaSpec& s) {
  return {
      "q_down", s.hidden, static_cast<double>(s.q_lora_rank), Split::replicated, Module::mla_down,
      false,    1};
}
LinearSpec q_up(const MlaSpec& s) {
  return {"q_up",
          s.q_lora_rank > 0 ? s.q_lora_rank : s.hidden,
          s.heads * qk_dim(s),
          Split::column,
          s.q_lora_rank > 0 ? Module::mla_up : Module::qkv,
          false,
          1};
}
LinearSpec kv_down(const MlaSpec& s) {
  return {"kv_down",
          s.hidden,
          static_cast<double>(s.kv_lora_rank + s.qk_rope_head_dim),
          Split::replicated,
          Module::mla_down,
          false,
          1};
}
LinearSpec kv_up(const MlaSpec& s) {
  return {"kv_up",
          static_cast<double>(s.kv_lora_rank),
          static_cast<double>(s.heads) * (s.qk_nope_head_dim + s.v_head_dim),
          Split::column,
          Module::mla_up,
          false,
          1};
}
LinearSpec out_linear(const MlaSpec& s) {
  return {"attention_out",
          static_cast<double>(s.heads) * s.v_head_dim,
          s.hidden,
          Split::row,
          Module::attention_out,
          false,
          1};
}
CoreSizes core_sizes(const MlaSpec& s, int tp) {
  const double heads = static_cast<double>(s.heads) / tp;
  return {heads, heads, qk_dim(s), static_cast<double>(s.v_head_dim)};
}

}  // namespace

void check_mla(const MlaSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out) {
  if (spec.heads % p.tp != 0) {
    reject(out, "parallel.tp",
           "tp=" + number(p.tp) + " does not divide the " + number(spec.heads) + " attention heads",
           "choose a tp that divides " + number(spec.heads));
  } else if (p.cp > 1 && p.cp_kind == parallel::CpKind::a2a && spec.heads / p.tp % p.cp != 0) {
    reject(out, "parallel.cp_kind",
           "cp=" + number(p.cp) + " by all-to-all does not divide the rank's " +
               number(spec.heads) + "/" + number(p.tp) + " heads",
           "choose cp_kind p2p, or a cp that divides them");
  }
}

TensorId mla_forward(const MlaSpec& spec, Builder& b, TensorId x, MlaState& s) {
  const LayerContext& c = b.context();
  const CoreSizes size = core_sizes(spec, c.tp);
  const double shard = c.shard_tokens();

  TensorId q_input = x;
  if (spec.q_lora_rank > 0) {
    const TensorId latent = linear_forward(q_down(spec), b, x, s.q_down);
    s.q_norm = norm_forward(kLatentNorm, b, latent, shard, spec.q_lora_rank, Module::mla_up);
    q_input = s.q_norm.output;
  }
  const TensorId q_raw = linear_forward(q_up(spec), b, q_input, s.q_up);

  const TensorId joint = linear_forward(kv_down(spec), b, x, s.kv_down);
  // The rotary part is a view of the joint projection, gathered for every head under SP.
  const double rope = c.tokens() * spec.qk_rope_head_dim;
  TensorId rope_part = joint;
  if (c.sequence_parallel) {
    rope_part = b.tensor("key_rotary_gathered", rope, Module::mla_down);
    b.collective(Pass::forward, Module::mla_down, CollectiveKind::all_gather, Axis::tp, rope,
                 c.activation, {joint}, {rope_part});
  }
  // So is the latent: the whole stays for the norm's backward.
  s.kv_norm = norm_forward(kLatentNorm, b, joint, shard, spec.kv_lora_rank, Module::mla_up);
  const TensorId kv_raw = linear_forward(kv_up(spec), b, s.kv_norm.output, s.kv_up);

  // Rotary on the rotary parts, then the shared key part is copied to every head. Megatron counts
  // this among the work that mla_up_proj recomputation repeats.
  const Module m = Module::mla_up;
  const TensorId q = b.tensor("query", c.tokens() * size.heads * size.head_dim, m);
  const TensorId k = b.tensor("key", c.tokens() * size.heads * size.head_dim, m);
  b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {q_raw}, {q});
  b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {kv_raw, rope_part}, {k},
                bytes_of(rope - b.elements(rope_part), c.activation));
  // Values are a view of the up projection's output.
  s.core = core_forward(b, size, q, k, kv_raw);
  return linear_forward(out_linear(spec), b, s.core.context, s.out);
}

TensorId mla_backward(const MlaSpec& spec, Builder& b, const MlaState& s, TensorId dy) {
  const LayerContext& c = b.context();
  const CoreSizes size = core_sizes(spec, c.tp);
  const double shard = c.shard_tokens();
  const Module m = Module::mla_up;
  const TensorId d_context = linear_backward(out_linear(spec), b, s.out, dy);
  const CoreGradients g = core_backward(b, size, s.core, d_context);

  const TensorId d_kv = b.tensor(
      "kv_gradient", c.tokens() * size.heads * (spec.qk_nope_head_dim + spec.v_head_dim), m);
  TensorId d_rope = b.tensor("key_rotary_gradient", c.tokens() * spec.qk_rope_head_dim, m);
  b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming, {g.k, g.v}, {d_kv, d_rope});
  if (c.tp > 1) {
    // Every rank's heads read the one rotary part: their gradients add up over the ranks.
    const double whole = c.tokens() * spec.qk_rope_head_dim;
    if (c.sequence_parallel) {
      const TensorId own = b.tensor("key_rotary_own_gradient", shard * spec.qk_rope_head_dim, m);
      b.collective(Pass::dgrad, m, CollectiveKind::reduce_scatter, Axis::tp, whole, c.activation,
                   {d_rope}, {own});
      d_rope = own;
    } else {
      b.collective(Pass::dgrad, m, CollectiveKind::all_reduce, Axis::tp, whole, c.activation,
                   {d_rope}, {d_rope});
    }
  }
  const TensorId d_kv_normed = linear_backward(kv_up(spec), b, s.kv_up, d_kv);
  const TensorId d_latent = norm_backward(kLatentNorm, b, s.kv_norm, d_kv_normed, m);
  const TensorId d_joint = b.tensor(
      "kv_down_gradient", shard * (spec.kv_lora_rank + spec.qk_rope_head_dim), Module::mla_down);
  b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming, {d_latent, d_rope}, {d_joint});
  const TensorId dx_kv = linear_backward(kv_down(spec), b, s.kv_down, d_joint);

  b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming, {g.q}, {g.q});
  TensorId dx_q = linear_backward(q_up(spec), b, s.q_up, g.q);
  if (spec.q_lora_rank > 0) {
    dx_q = norm_backward(kLatentNorm, b, s.q_norm, dx_q, m);
    dx_q = linear_backward(q_down(spec), b, s.q_down, dx_q);
  }
  const TensorId dx = b.tensor("mla_input_gradient", shard * spec.hidden, Module::mla_down);
  b.elementwise(Pass::dgrad, Module::mla_down, ElementwiseClass::streaming, {dx_kv, dx_q}, {dx});
  return dx;
}

double mla_parameters(const MlaSpec& a) {
  const double qk = a.qk_nope_head_dim + a.qk_rope_head_dim;
  const double heads = a.heads;
  double n = 0;
  if (a.q_lora_rank > 0) {
    n += a.hidden * a.q_lora_rank + a.q_lora_rank + a.q_lora_rank * heads * qk;
  } else {
    n += a.hidden * heads * qk;
  }
  n += a.hidden * (a.kv_lora_rank + a.qk_rope_head_dim) + a.kv_lora_rank;
  n += a.kv_lora_rank * heads * (a.qk_nope_head_dim + a.v_head_dim);
  n += heads * a.v_head_dim * a.hidden;
  return n;
}

MixerWork mla_work(const MlaSpec& m, double sequence, bool causal) {
  const double qk = m.qk_nope_head_dim + m.qk_rope_head_dim;
  const double heads = m.heads;
  MixerWork w;
  w.weights = m.q_lora_rank > 0 ? m.hidden * m.q_lora_rank + m.q_lora_rank * heads * qk
                                : m.hidden * heads * qk;
  w.weights += m.hidden * (m.kv_lora_rank + m.qk_rope_head_dim);
  w.weights += m.kv_lora_rank * heads * (m.qk_nope_head_dim + m.v_head_dim);
  w.weights += heads * m.v_head_dim * m.hidden;
  w.width = heads * (qk + m.v_head_dim);
  w.keys = ops::visible_keys(sequence, causal, 0);
  return w;
}

}  // namespace eratos::layer
