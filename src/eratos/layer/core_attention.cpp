// The part of attention between the projections, shared by attention.cpp and mla.cpp.
#include "eratos/layer/attention.h"

namespace eratos::layer {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using parallel::Axis;
using parallel::CpKind;

namespace {

ops::Attention flash_work(const LayerContext& c, const CoreSizes& size, bool backward) {
  return {c.sequences,    c.sequence / c.cp, c.sequence, size.heads, size.kv_heads,
          size.head_dim, size.v_head_dim,  true,       backward,   c.activation};
}

double kv_elements(const LayerContext& c, const CoreSizes& size) {
  return c.tokens() * size.kv_heads * (size.head_dim + size.v_head_dim);
}

// K and V of the other context-parallel ranks. Backward brings their gradients home as well.
void exchange(Builder& b, const CoreSizes& size, Pass pass, TensorId k, TensorId v) {
  const LayerContext& c = b.context();
  if (c.cp <= 1) return;
  const double own = kv_elements(c, size);
  const bool backward = pass != Pass::forward;
  switch (c.cp_kind) {
    case CpKind::p2p: {
      // (c-1) ring steps; the ring runs beside the attention of the piece at hand.
      const double sent = own * (c.cp - 1) * (backward ? 2.0 : 1.0);
      b.collective(pass, Module::core_attention, CollectiveKind::send_recv, Axis::cp, sent,
                   c.activation, {k, v}, {}, 1.0);
      break;
    }
    case CpKind::all_gather:
      b.collective(pass, Module::core_attention, CollectiveKind::all_gather, Axis::cp, own * c.cp,
                   c.activation, {k, v}, {});
      if (backward) {
        b.collective(pass, Module::core_attention, CollectiveKind::reduce_scatter, Axis::cp,
                     own * c.cp, c.activation, {k, v}, {});
      }
      break;
    case CpKind::a2a: {
      // Heads for positions: Q, K, V out and the context back.
      const double all = own + c.tokens() * size.heads * (size.head_dim + size.v_head_dim);
      b.collective(pass, Module::core_attention, CollectiveKind::all_to_all, Axis::cp, all,
                   c.activation, {k, v}, {});
      break;
    }
  }
}

// Batched products over every (sequence, head): rows of all of them together.
ops::Gemm batched(const LayerContext& c, double heads, double m, double n, double k) {
  return {c.sequences * heads * m, n, k, c.sequences * heads, c.activation, false};
}

CoreState unfused_forward(Builder& b, const CoreSizes& size, TensorId q, TensorId k, TensorId v) {
  const LayerContext& c = b.context();
  CoreState s{q, k, v};
  const double rows = c.sequence / c.cp;
  const double scores = c.sequences * size.heads * rows * c.sequence;
  const Module m = Module::core_attention;
  if (!b.profile().fusions.softmax && size.kv_heads < size.heads) {
    // Eager code repeats K and V to every query head; the products keep the copies.
    s.k = b.tensor("repeated_key", c.tokens() * size.heads * size.head_dim, m);
    s.v = b.tensor("repeated_value", c.tokens() * size.heads * size.v_head_dim, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {k}, {s.k});
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {v}, {s.v});
  }
  const TensorId raw = b.tensor("scores", scores, m);
  b.gemm(Pass::forward, m, batched(c, size.heads, rows, c.sequence, size.head_dim), {q, s.k}, {raw});
  TensorId operand;
  if (b.profile().fusions.softmax) {
    s.probs = b.tensor("softmax", scores, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {raw}, {s.probs});
    operand = s.probs;
  } else {
    const TensorId scaled = b.tensor("scaled_scores", scores, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {raw}, {scaled});
    const TensorId masked = b.tensor("masked_scores", scores, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {scaled}, {masked});
    s.probs = b.tensor("softmax", scores, DType::fp32, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {masked}, {s.probs});
    operand = s.probs;
    if (c.activation != DType::fp32) {
      s.probs_narrow = b.tensor("softmax_narrow", scores, m);
      b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {s.probs}, {s.probs_narrow});
      b.save(s.probs_narrow);
      operand = s.probs_narrow;
    }
  }
  b.save(s.probs);
  if (c.attention_dropout > 0) {
    s.mask = b.tensor("attention_dropout_mask", scores, DType::bool8, m);
    s.dropped = b.tensor("dropped_softmax", scores, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {operand}, {s.dropped, s.mask});
    b.save(s.mask);
    b.save(s.dropped);
    operand = s.dropped;
  }
  s.out = b.tensor("context", c.tokens() * size.heads * size.v_head_dim, m);
  b.gemm(Pass::forward, m, batched(c, size.heads, rows, size.v_head_dim, c.sequence), {operand, s.v},
         {s.out});
  b.save(s.q);
  b.save(s.k);
  b.save(s.v);
  return s;
}

CoreGradients unfused_backward(Builder& b, const CoreSizes& size, const CoreState& s,
                               TensorId d_out) {
  const LayerContext& c = b.context();
  const Module m = Module::core_attention;
  const double rows = c.sequence / c.cp;
  const double scores = c.sequences * size.heads * rows * c.sequence;
  const double q_elements = c.tokens() * size.heads * size.head_dim;
  const TensorId operand = s.dropped != ops::kNoTensor        ? s.dropped
                           : s.probs_narrow != ops::kNoTensor ? s.probs_narrow
                                                              : s.probs;
  const TensorId d_probs = b.tensor("softmax_gradient", scores, m);
  b.gemm(Pass::dgrad, m, batched(c, size.heads, rows, c.sequence, size.v_head_dim), {d_out, s.v},
         {d_probs});
  CoreGradients g{};
  g.v = b.tensor("value_gradient", b.elements(s.v), m);
  b.gemm(Pass::dgrad, m, batched(c, size.heads, c.sequence, size.v_head_dim, rows), {operand, d_out},
         {g.v});
  if (s.mask != ops::kNoTensor) {
    b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming, {d_probs, s.mask}, {d_probs});
  }
  const TensorId d_scores = b.tensor("scores_gradient", scores, m);
  b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming, {d_probs, s.probs}, {d_scores});
  g.q = b.tensor("query_gradient", q_elements, m);
  b.gemm(Pass::dgrad, m, batched(c, size.heads, rows, size.head_dim, c.sequence), {d_scores, s.k},
         {g.q});
  g.k = b.tensor("key_gradient", b.elements(s.k), m);
  b.gemm(Pass::dgrad, m, batched(c, size.heads, c.sequence, size.head_dim, rows), {d_scores, s.q},
         {g.k});
  return g;
}

}  // namespace

CoreState core_forward(Builder& b, const CoreSizes& size, TensorId q, TensorId k, TensorId v) {
  const LayerContext& c = b.context();
  exchange(b, size, Pass::forward, k, v);
  if (c.attention == AttentionKernel::unfused) return unfused_forward(b, size, q, k, v);
  CoreState s{q, k, v};
  s.out = b.tensor("context", c.tokens() * size.heads * size.v_head_dim, Module::core_attention);
  s.lse = b.tensor("log_sum_exp", c.tokens() * size.heads, DType::fp32, Module::core_attention);
  b.attention(Pass::forward, flash_work(c, size, false), {q, k, v}, {s.out, s.lse});
  b.save(q);
  b.save(k);
  b.save(v);
  b.save(s.out);
  b.save(s.lse);
  return s;
}

CoreGradients core_backward(Builder& b, const CoreSizes& size, const CoreState& s, TensorId d_out) {
  const LayerContext& c = b.context();
  exchange(b, size, Pass::dgrad, s.k, s.v);
  if (c.attention == AttentionKernel::unfused) return unfused_backward(b, size, s, d_out);
  CoreGradients g{};
  const Module m = Module::core_attention;
  g.q = b.tensor("query_gradient", c.tokens() * size.heads * size.head_dim, m);
  g.k = b.tensor("key_gradient", c.tokens() * size.kv_heads * size.head_dim, m);
  g.v = b.tensor("value_gradient", c.tokens() * size.kv_heads * size.v_head_dim, m);
  b.attention(Pass::dgrad, flash_work(c, size, true), {s.q, s.k, s.v, s.out, s.lse, d_out},
              {g.q, g.k, g.v});
  return g;
}

}  // namespace eratos::layer
