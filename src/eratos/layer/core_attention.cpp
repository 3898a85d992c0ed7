// The part of attention between the projections, shared by attention.cpp and mla.cpp.
#include "eratos/layer/attention.h"

#include <algorithm>

namespace eratos::layer {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using parallel::Axis;
using parallel::CpKind;

namespace {

constexpr Module kModule = Module::core_attention;

// What one rank attends to: `queries` positions of every key position, with `heads` query heads.
struct Local {
  double queries;
  double heads;
  double kv_heads;
};

bool trades_heads(const LayerContext& c) { return c.cp > 1 && c.cp_kind == CpKind::a2a; }

Local local_sizes(const LayerContext& c, const CoreSizes& size) {
  if (trades_heads(c)) return {c.sequence, size.heads / c.cp, size.kv_heads / c.cp};
  return {c.sequence / c.cp, size.heads, size.kv_heads};
}

ops::Attention flash_work(const LayerContext& c, const CoreSizes& size, bool backward) {
  const Local local = local_sizes(c, size);
  // A query of a chunk sees what a query of a sequence of that length sees.
  const double keys = size.chunk > 0 ? std::min(size.chunk, c.sequence) : c.sequence;
  return {c.sequences,     local.queries, keys,     local.heads,  local.kv_heads, size.head_dim,
          size.v_head_dim, true,          backward, c.activation, size.window,    size.sinks};
}

double q_elements(const LayerContext& c, const CoreSizes& size) {
  return c.tokens() * size.heads * size.head_dim;
}
double k_elements(const LayerContext& c, const CoreSizes& size) {
  return c.tokens() * size.kv_heads * size.head_dim;
}
double v_elements(const LayerContext& c, const CoreSizes& size) {
  return c.tokens() * size.kv_heads * size.v_head_dim;
}
double out_elements(const LayerContext& c, const CoreSizes& size) {
  return c.tokens() * size.heads * size.v_head_dim;
}

void trade(Builder& b, Pass pass, double elements, Builder::Ids from, Builder::Ids to) {
  b.collective(pass, kModule, CollectiveKind::all_to_all, Axis::cp, elements,
               b.context().activation, from, to);
}

// K and V of the other context-parallel ranks: a ring that runs beside the attention of the piece
// at hand, or one gather, whose result is returned.
TensorId bring_keys(Builder& b, const CoreSizes& size, Pass pass, TensorId k, TensorId v) {
  const LayerContext& c = b.context();
  if (c.cp <= 1 || c.cp_kind == CpKind::a2a) return ops::kNoTensor;
  const double own = k_elements(c, size) + v_elements(c, size);
  if (c.cp_kind == CpKind::p2p) {
    // c-1 steps; backward sends their gradients along.
    const double sent = own * (c.cp - 1) * (pass == Pass::forward ? 1.0 : 2.0);
    b.collective(pass, kModule, CollectiveKind::send_recv, Axis::cp, sent, c.activation, {k, v}, {},
                 1.0);
    return ops::kNoTensor;
  }
  const TensorId all = b.tensor("gathered_key_value", own * c.cp, kModule);
  b.collective(pass, kModule, CollectiveKind::all_gather, Axis::cp, own * c.cp, c.activation,
               {k, v}, {all});
  return all;
}

// Batched products over every (sequence, head): rows of all of them together.
ops::Gemm batched(const LayerContext& c, double heads, double m, double n, double k) {
  return {c.sequences * heads * m, n, k, c.sequences * heads, c.activation, false};
}

void unfused_forward(Builder& b, const CoreSizes& size, CoreState& s, TensorId gathered) {
  const LayerContext& c = b.context();
  const Local local = local_sizes(c, size);
  const double scores = c.sequences * local.heads * local.queries * c.sequence;
  if (size.kv_heads < size.heads) {
    const TensorId k = b.tensor("repeated_key", q_elements(c, size), kModule);
    const TensorId v = b.tensor("repeated_value", out_elements(c, size), kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {s.k}, {k});
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {s.v}, {v});
    s.k = k;
    s.v = v;
  }
  // Values that are a view among others are packed, unless one stride leads from head to head of
  // all sequences: a batched product wants that.
  if (c.sequences > 1 && size.kv_heads >= size.heads && b.elements(s.v) > v_elements(c, size)) {
    const TensorId packed = b.tensor("packed_value", v_elements(c, size), kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {s.v}, {packed},
                  bytes_of(v_elements(c, size) - b.elements(s.v), c.activation));
    s.v = packed;
  }
  TensorId raw = b.tensor("scores", scores, kModule);
  b.gemm(Pass::forward, kModule, batched(c, local.heads, local.queries, c.sequence, size.head_dim),
         {s.q, s.k, gathered}, {raw});
  if (size.soft_cap) {
    s.capped = b.tensor("capped_scores", scores, kModule);
    const TensorId scaled = b.tensor("rescaled_scores", scores, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {raw}, {s.capped}).kernels =
        2;
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {s.capped}, {scaled});
    b.save(s.capped);
    raw = scaled;
  }
  TensorId operand;
  if (b.profile().fusions.softmax) {
    s.probs = b.tensor("softmax", scores, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {raw}, {s.probs});
    operand = s.probs;
  } else {
    const TensorId scaled = b.tensor("scaled_scores", scores, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {raw}, {scaled});
    const TensorId masked = b.tensor("masked_scores", scores, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {scaled}, {masked});
    s.probs = b.tensor("softmax", scores, DType::fp32, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {masked}, {s.probs});
    operand = s.probs;
    if (c.activation != DType::fp32) {
      s.probs_narrow = b.tensor("softmax_narrow", scores, kModule);
      b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {s.probs},
                    {s.probs_narrow});
      operand = s.probs_narrow;
    }
  }
  b.save(s.probs);
  if (c.attention_dropout > 0) {
    s.mask = b.tensor("attention_dropout_mask", scores, DType::bool8, kModule);
    s.dropped = b.tensor("dropped_softmax", scores, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {operand},
                  {s.dropped, s.mask});
    b.save(s.mask);
    operand = s.dropped;
  }
  b.save(operand);
  s.out = b.tensor("context", out_elements(c, size), kModule);
  b.gemm(Pass::forward, kModule,
         batched(c, local.heads, local.queries, size.v_head_dim, c.sequence),
         {operand, s.v, gathered}, {s.out});
}

CoreGradients unfused_backward(Builder& b, const CoreSizes& size, const CoreState& s,
                               TensorId d_out, TensorId gathered) {
  const LayerContext& c = b.context();
  const Local local = local_sizes(c, size);
  const double scores = c.sequences * local.heads * local.queries * c.sequence;
  const TensorId operand = s.dropped != ops::kNoTensor        ? s.dropped
                           : s.probs_narrow != ops::kNoTensor ? s.probs_narrow
                                                              : s.probs;
  const TensorId d_probs = b.tensor("softmax_gradient", scores, kModule);
  b.gemm(Pass::dgrad, kModule, batched(c, local.heads, local.queries, c.sequence, size.v_head_dim),
         {d_out, s.v, gathered}, {d_probs});
  CoreGradients g{};
  g.v = b.tensor("value_gradient", out_elements(c, size), kModule);
  b.gemm(Pass::dgrad, kModule, batched(c, local.heads, c.sequence, size.v_head_dim, local.queries),
         {operand, d_out}, {g.v});
  if (s.mask != ops::kNoTensor) {
    b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming, {d_probs, s.mask}, {d_probs});
  }
  const TensorId d_scores = b.tensor("scores_gradient", scores, kModule);
  b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming, {d_probs, s.probs}, {d_scores});
  if (s.capped != ops::kNoTensor) {
    b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming, {d_scores, s.capped},
                  {d_scores})
        .kernels = 3;
  }
  g.q = b.tensor("query_gradient", q_elements(c, size), kModule);
  b.gemm(Pass::dgrad, kModule, batched(c, local.heads, local.queries, size.head_dim, c.sequence),
         {d_scores, s.k, gathered}, {g.q});
  g.k = b.tensor("key_gradient", q_elements(c, size), kModule);
  b.gemm(Pass::dgrad, kModule, batched(c, local.heads, c.sequence, size.head_dim, local.queries),
         {d_scores, s.q}, {g.k});
  if (size.kv_heads < size.heads) {
    const TensorId k = b.tensor("summed_key_gradient", k_elements(c, size), kModule);
    const TensorId v = b.tensor("summed_value_gradient", v_elements(c, size), kModule);
    b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming, {g.k}, {k});
    b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming, {g.v}, {v});
    g.k = k;
    g.v = v;
  }
  return g;
}

}  // namespace

CoreState core_forward(Builder& b, const CoreSizes& size, TensorId q, TensorId k, TensorId v) {
  const LayerContext& c = b.context();
  CoreState s;
  s.q = q;
  s.k = k;
  s.v = v;
  if (trades_heads(c)) {
    s.q = b.tensor("traded_query", q_elements(c, size), kModule);
    s.k = b.tensor("traded_key", k_elements(c, size), kModule);
    s.v = b.tensor("traded_value", v_elements(c, size), kModule);
    trade(b, Pass::forward, q_elements(c, size) + k_elements(c, size) + v_elements(c, size),
          {q, k, v}, {s.q, s.k, s.v});
  }
  const TensorId gathered = bring_keys(b, size, Pass::forward, s.k, s.v);
  if (c.attention == AttentionKernel::unfused) {
    unfused_forward(b, size, s, gathered);
  } else {
    s.out = b.tensor("context", out_elements(c, size), kModule);
    s.lse = b.tensor("log_sum_exp", c.tokens() * size.heads, DType::fp32, kModule);
    b.attention(Pass::forward, flash_work(c, size, false), {s.q, s.k, s.v, gathered},
                {s.out, s.lse});
    b.save(s.out);
    b.save(s.lse);
  }
  b.save(s.q);
  b.save(s.k);
  b.save(s.v);
  s.context = s.out;
  if (trades_heads(c)) {
    s.context = b.tensor("returned_context", out_elements(c, size), kModule);
    trade(b, Pass::forward, out_elements(c, size), {s.out}, {s.context});
  }
  return s;
}

CoreGradients core_backward(Builder& b, const CoreSizes& size, const CoreState& s,
                            TensorId d_context) {
  const LayerContext& c = b.context();
  TensorId d_out = d_context;
  if (trades_heads(c)) {
    d_out = b.tensor("traded_context_gradient", out_elements(c, size), kModule);
    trade(b, Pass::dgrad, out_elements(c, size), {d_context}, {d_out});
  }
  const TensorId gathered = bring_keys(b, size, Pass::dgrad, s.k, s.v);
  CoreGradients g{};
  if (c.attention == AttentionKernel::unfused) {
    g = unfused_backward(b, size, s, d_out, gathered);
  } else {
    g.q = b.tensor("query_gradient", q_elements(c, size), kModule);
    g.k = b.tensor("key_gradient", k_elements(c, size), kModule);
    g.v = b.tensor("value_gradient", v_elements(c, size), kModule);
    b.attention(Pass::dgrad, flash_work(c, size, true),
                {s.q, s.k, s.v, s.out, s.lse, d_out, gathered}, {g.q, g.k, g.v});
  }
  if (gathered != ops::kNoTensor) {
    const double all = (k_elements(c, size) + v_elements(c, size)) * c.cp;
    b.collective(Pass::dgrad, kModule, CollectiveKind::reduce_scatter, Axis::cp, all, c.activation,
                 {g.k, g.v}, {g.k, g.v});
  }
  if (trades_heads(c)) {
    const CoreGradients home{b.tensor("own_query_gradient", q_elements(c, size), kModule),
                             b.tensor("own_key_gradient", k_elements(c, size), kModule),
                             b.tensor("own_value_gradient", v_elements(c, size), kModule)};
    trade(b, Pass::dgrad, q_elements(c, size) + k_elements(c, size) + v_elements(c, size),
          {g.q, g.k, g.v}, {home.q, home.k, home.v});
    return home;
  }
  return g;
}

}  // namespace eratos::layer
