#include "eratos/layer/compressed_attention.h"

#include <algorithm>
#include <cmath>

namespace eratos::layer {

using ops::ElementwiseClass;

namespace {

const NormSpec kLatentNorm{NormKind::rmsnorm, false};

double width(const CompressedAttentionSpec& s) { return static_cast<double>(s.heads) * s.head_dim; }
// Projections that a pooled position is made from: overlapping pools have two.
double overlap(const CompressedAttentionSpec& s) { return s.ratio == 4 ? 2 : 1; }
bool indexes(const CompressedAttentionSpec& s) { return s.ratio == 4; }

LinearSpec q_down(const CompressedAttentionSpec& s) {
  return {
      "q_down", s.hidden, static_cast<double>(s.q_lora_rank), Split::replicated, Module::mla_down,
      false,    1};
}
LinearSpec q_up(const CompressedAttentionSpec& s) {
  return {
      "q_up", static_cast<double>(s.q_lora_rank), width(s), Split::column, Module::mla_up, false,
      1};
}
LinearSpec kv_down(const CompressedAttentionSpec& s) {
  return {"kv_down", s.hidden, static_cast<double>(s.head_dim), Split::replicated, Module::mla_down,
          false,     1};
}
LinearSpec pool_in(const CompressedAttentionSpec& s) {
  return {"pool_in", s.hidden, 2 * overlap(s) * s.head_dim, Split::replicated, Module::mla_down,
          false,     2};
}
LinearSpec out_linear(const CompressedAttentionSpec& s) {
  return {"attention_out",
          static_cast<double>(s.o_groups) * s.o_lora_rank,
          s.hidden,
          Split::row,
          Module::attention_out,
          false,
          1};
}

// The first half of the output projection: each group of heads by itself.
ops::Gemm grouped(const CompressedAttentionSpec& s, const LayerContext& c, Pass pass) {
  const double groups = s.o_groups;
  const double in = width(s) / groups;
  const double rank = s.o_lora_rank;
  const double rows = c.tokens() * groups;
  if (pass == Pass::forward) return {rows, rank, in, groups, c.activation};
  if (pass == Pass::dgrad) return {rows, in, rank, groups, c.activation};
  return {rank * groups, in,           c.tokens(),
          groups,        c.activation, c.profile->state.wgrad_fused_accumulation};
}

// A causal window with as many keys a query as `keys`: the inverse of ops::visible_keys.
double window_of(double keys, double sequence) {
  const double a = 2 * sequence + 1;
  return std::min(sequence, (a - std::sqrt(std::max(0.0, a * a - 8 * sequence * keys))) / 2);
}

ops::Attention core(const CompressedAttentionSpec& s, const LayerContext& c, bool backward) {
  ops::Attention work;
  work.batch = c.sequences;
  work.seq_q = c.sequence;
  work.seq_kv = c.sequence;
  work.heads = s.heads;
  work.kv_heads = 1;
  work.head_dim = s.head_dim;
  work.v_head_dim = s.head_dim;
  work.backward = backward;
  work.dtype = c.activation;
  work.window = window_of(compressed_attention_keys(s, c.sequence), c.sequence);
  work.sinks = s.sinks;
  return work;
}

// Each head's query by itself, without weights, then rotated: two kernels, or the casts and
// products of fp32 that torch makes of the norm (20 bytes an element beyond operand and result).
void normalise_heads(Builder& b, double elements, CompressedAttentionState& s) {
  if (b.profile().fusions.unweighted_norm) {
    b.save(s.q_raw);
    b.elementwise(Pass::forward, Module::rotary, ElementwiseClass::norm_forward, {s.q_raw}, {s.q})
        .kernels = 2;
    return;
  }
  const TensorId raw = s.q_raw;
  s.q_raw = b.tensor("cast_query", elements, DType::fp32, Module::rotary);
  b.elementwise(Pass::forward, Module::rotary, ElementwiseClass::streaming, {raw}, {s.q_raw});
  b.elementwise(Pass::forward, Module::rotary, ElementwiseClass::streaming, {s.q_raw}, {s.q},
                Bytes{elements * (20 + 4)})
      .kernels = 6;
  b.save(s.q_raw);
}

// Scores of every pooled position and the choice among them: forward only.
TensorId choose(const CompressedAttentionSpec& spec, Builder& b, TensorId x, TensorId latent) {
  const LayerContext& c = b.context();
  const Module m = Module::router;
  const double t = c.tokens();
  const double heads = spec.index_heads;
  const double dim = spec.index_dim;
  const double pooled = c.sequence / spec.ratio;
  b.parameter("index_query", spec.q_lora_rank * heads * dim, m, true);
  b.parameter("index_weight", spec.hidden * heads, m, true);
  b.parameter("index_pool_in", spec.hidden * 2 * overlap(spec) * dim, m, true);
  b.vector_parameter("index_pool", overlap(spec) * spec.ratio * dim + dim, m);
  const TensorId q = b.tensor("index_queries", t * heads * dim, m);
  b.gemm(Pass::forward, m, {t, heads * dim, static_cast<double>(spec.q_lora_rank), 1, c.activation},
         {latent}, {q});
  const TensorId k = b.tensor("index_keys", t * (2 * overlap(spec) * dim + heads), m);
  b.gemm(Pass::forward, m, {t, 2 * overlap(spec) * dim + heads, spec.hidden, 1, c.activation}, {x},
         {k})
      .kernels = 3;
  const TensorId scores = b.tensor("index_scores", t * pooled, DType::fp32, m);
  b.gemm(Pass::forward, m, {t * heads, pooled, dim, c.sequences, c.activation}, {q, k}, {scores});
  const TensorId chosen =
      b.tensor("index_choice", t * std::min<double>(spec.index_top, pooled), DType::int64, m);
  b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {scores}, {chosen}).kernels = 3;
  return chosen;
}

}  // namespace

double compressed_attention_projections(const CompressedAttentionSpec& s) {
  const double rank = s.q_lora_rank;
  double n = s.hidden * rank + rank * width(s) + s.hidden * s.head_dim;
  n += width(s) * s.o_lora_rank + static_cast<double>(s.o_groups) * s.o_lora_rank * s.hidden;
  if (s.ratio > 0) n += s.hidden * 2 * overlap(s) * s.head_dim;
  if (indexes(s)) {
    const double heads = s.index_heads;
    n += rank * heads * s.index_dim + s.hidden * heads + s.hidden * 2 * overlap(s) * s.index_dim;
  }
  return n;
}

double compressed_attention_parameters(const CompressedAttentionSpec& s) {
  double n = compressed_attention_projections(s) + s.q_lora_rank + s.head_dim;
  if (s.sinks) n += s.heads;
  if (s.ratio > 0) n += (overlap(s) * s.ratio + 1) * s.head_dim;
  if (indexes(s)) n += (overlap(s) * s.ratio + 1) * s.index_dim;
  return n;
}

double compressed_attention_keys(const CompressedAttentionSpec& s, double sequence) {
  double keys = ops::visible_keys(sequence, true, s.window);
  if (s.ratio > 0) {
    const double pooled = sequence / s.ratio;
    keys += ops::visible_keys(pooled, true, indexes(s) ? s.index_top : 0);
  }
  return std::min(keys, sequence / 2);
}

void check_compressed_attention(const CompressedAttentionSpec& s, const parallel::ParallelSpec& p,
                                Diagnostics& out) {
  if (s.heads < 1 || s.head_dim < 1 || s.q_lora_rank < 1 || s.o_lora_rank < 1 || s.o_groups < 1 ||
      s.heads % s.o_groups != 0 || s.ratio < 0) {
    reject(out, "model",
           "compressed attention of " + number(s.heads) + " heads in " + number(s.o_groups) +
               " output groups",
           "give positive sizes, heads a multiple of the groups");
  }
  if (p.tp > 1 || p.cp > 1) {
    reject(out, p.tp > 1 ? "parallel.tp" : "parallel.cp",
           "compressed attention is modelled whole on a rank, not over tp=" + number(p.tp) +
               " and cp=" + number(p.cp),
           "set parallel.tp: 1 and parallel.cp: 1");
  }
}

TensorId compressed_attention_forward(const CompressedAttentionSpec& spec, Builder& b, TensorId x,
                                      CompressedAttentionState& s) {
  const LayerContext& c = b.context();
  const double t = c.tokens();
  const double q_elements = t * width(spec);
  const TensorId latent = linear_forward(q_down(spec), b, x, s.q_down);
  s.q_norm = norm_forward(kLatentNorm, b, latent, t, spec.q_lora_rank, Module::mla_up);
  s.q_raw = linear_forward(q_up(spec), b, s.q_norm.output, s.q_up);
  s.q = b.tensor("query", q_elements, Module::rotary);
  normalise_heads(b, q_elements, s);
  const TensorId kv_raw = linear_forward(kv_down(spec), b, x, s.kv);
  s.kv_norm = norm_forward(kLatentNorm, b, kv_raw, t, spec.head_dim, Module::mla_up);
  s.kv_rotated = b.tensor("key_value", t * spec.head_dim, Module::rotary);
  b.elementwise(Pass::forward, Module::rotary, ElementwiseClass::streaming, {s.kv_norm.output},
                {s.kv_rotated});
  if (spec.ratio > 0) {
    s.pool_raw = linear_forward(pool_in(spec), b, x, s.pool);
    b.save(s.pool_raw);
    b.vector_parameter("pool_positions", overlap(spec) * spec.ratio * spec.head_dim,
                       Module::mla_down);
    const TensorId pool = b.tensor("pooled", t / spec.ratio * spec.head_dim, Module::mla_down);
    b.elementwise(Pass::forward, Module::mla_down, ElementwiseClass::streaming, {s.pool_raw},
                  {pool})
        .kernels = 3;
    s.pool_norm = norm_forward(kLatentNorm, b, pool, t / spec.ratio, spec.head_dim, Module::mla_up);
    s.pooled = s.pool_norm.output;
    b.save(s.pooled);
  }
  if (indexes(spec)) {
    s.chosen = choose(spec, b, x, s.q_norm.output);
    b.save(s.chosen);
  }
  if (spec.sinks) b.vector_parameter("sinks", spec.heads, Module::core_attention, false);
  s.context = b.tensor("attention_context", q_elements, Module::core_attention);
  s.lse = b.tensor("log_sum_exp", t * spec.heads, DType::fp32, Module::core_attention);
  b.attention(Pass::forward, core(spec, c, false), {s.q, s.kv_rotated, s.pooled, s.chosen},
              {s.context, s.lse});
  for (const TensorId id : {s.q, s.kv_rotated, s.context, s.lse}) b.save(id);
  b.parameter("output_down", width(spec) * spec.o_lora_rank, Module::attention_out);
  s.grouped =
      b.tensor("output_latent", t * spec.o_groups * spec.o_lora_rank, Module::attention_out);
  b.gemm(Pass::forward, Module::attention_out, grouped(spec, c, Pass::forward), {s.context},
         {s.grouped});
  return linear_forward(out_linear(spec), b, s.grouped, s.out);
}

TensorId compressed_attention_backward(const CompressedAttentionSpec& spec, Builder& b,
                                       const CompressedAttentionState& s, TensorId dy) {
  const LayerContext& c = b.context();
  const double t = c.tokens();
  const double q_elements = t * width(spec);
  const TensorId d_grouped = linear_backward(out_linear(spec), b, s.out, dy);
  const TensorId d_context = b.tensor("context_gradient", q_elements, Module::attention_out);
  b.gemm(Pass::dgrad, Module::attention_out, grouped(spec, c, Pass::dgrad), {d_grouped},
         {d_context});
  b.gemm(Pass::wgrad, Module::attention_out, grouped(spec, c, Pass::wgrad), {s.context, d_grouped},
         {});
  const TensorId d_q = b.tensor("query_gradient", q_elements, Module::core_attention);
  const TensorId d_kv = b.tensor("key_value_gradient", t * spec.head_dim, Module::core_attention);
  TensorId d_pooled = ops::kNoTensor;
  if (spec.ratio > 0) {
    d_pooled = b.tensor("pooled_gradient", t / spec.ratio * spec.head_dim, Module::core_attention);
  }
  b.attention(Pass::dgrad, core(spec, c, true),
              {s.q, s.kv_rotated, s.pooled, s.chosen, s.context, s.lse, d_context},
              {d_q, d_kv, d_pooled});
  TensorId dx_pool = ops::kNoTensor;
  if (spec.ratio > 0) {
    const TensorId d_pool = norm_backward(kLatentNorm, b, s.pool_norm, d_pooled, Module::mla_up);
    const TensorId d_raw = b.tensor("pool_gradient", b.elements(s.pool_raw), Module::mla_down);
    b.elementwise(Pass::dgrad, Module::mla_down, ElementwiseClass::streaming, {d_pool, s.pool_raw},
                  {d_raw})
        .kernels = 3;
    dx_pool = linear_backward(pool_in(spec), b, s.pool, d_raw);
  }
  b.elementwise(Pass::dgrad, Module::rotary, ElementwiseClass::streaming, {d_kv}, {d_kv});
  const TensorId d_latent = norm_backward(kLatentNorm, b, s.kv_norm, d_kv, Module::mla_up);
  const TensorId dx_kv = linear_backward(kv_down(spec), b, s.kv, d_latent);
  const TensorId d_raw = b.tensor("query_projection_gradient", q_elements, Module::rotary);
  if (b.profile().fusions.unweighted_norm) {
    b.elementwise(Pass::dgrad, Module::rotary, ElementwiseClass::norm_backward, {d_q, s.q_raw},
                  {d_raw})
        .kernels = 2;
  } else {
    b.elementwise(Pass::dgrad, Module::rotary, ElementwiseClass::streaming, {d_q, s.q_raw}, {d_raw},
                  Bytes{q_elements * (50 - 8 + 4)})
        .kernels = 10;
  }
  TensorId dx_q = linear_backward(q_up(spec), b, s.q_up, d_raw);
  dx_q = norm_backward(kLatentNorm, b, s.q_norm, dx_q, Module::mla_up);
  dx_q = linear_backward(q_down(spec), b, s.q_down, dx_q);
  const TensorId dx = b.tensor("attention_input_gradient", t * spec.hidden, Module::mla_down);
  b.elementwise(Pass::dgrad, Module::mla_down, ElementwiseClass::streaming, {dx_kv, dx_q, dx_pool},
                {dx});
  return dx;
}

MixerWork compressed_attention_work(const CompressedAttentionSpec& spec, double sequence, bool) {
  return {.weights = compressed_attention_projections(spec),
          .width = 2.0 * spec.heads * spec.head_dim,
          .keys = compressed_attention_keys(spec, sequence)};
}

}  // namespace eratos::layer
