// How sources count the FLOPs of a token. One function each; none is right, they differ.
#include <variant>

#include "eratos/projection/projection.h"

namespace eratos::projection {

namespace {

// 2 * (products' weights a token visits) of one layer, and its attention width heads*(d + d_v).
struct LayerWork {
  double weights = 0;
  double attention_width = 0;
};

LayerWork work_of(const layer::BlockSpec& block) {
  LayerWork w;
  if (const auto* a = std::get_if<layer::AttentionSpec>(&block.mixer)) {
    const double q = static_cast<double>(a->heads) * a->head_dim;
    const double kv = static_cast<double>(a->kv_heads) * a->head_dim;
    w.weights += a->hidden * (q + 2 * kv) + q * a->hidden;
    w.attention_width = 2 * q;
  } else if (const auto* m = std::get_if<layer::MlaSpec>(&block.mixer)) {
    const double qk = m->qk_nope_head_dim + m->qk_rope_head_dim;
    const double heads = m->heads;
    w.weights += m->q_lora_rank > 0 ? m->hidden * m->q_lora_rank + m->q_lora_rank * heads * qk
                                    : m->hidden * heads * qk;
    w.weights += m->hidden * (m->kv_lora_rank + m->qk_rope_head_dim);
    w.weights += m->kv_lora_rank * heads * (m->qk_nope_head_dim + m->v_head_dim);
    w.weights += heads * m->v_head_dim * m->hidden;
    w.attention_width = heads * (qk + m->v_head_dim);
  }
  if (const auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward)) {
    w.weights += (m->gated ? 3 : 2) * m->hidden * m->ffn;
  } else if (const auto* e = std::get_if<layer::MoeSpec>(&block.feed_forward)) {
    const double matrices = e->gated ? 3 : 2;
    w.weights += e->hidden * e->experts + matrices * e->hidden * (e->ffn * e->top_k + e->shared_ffn);
  }
  return w;
}

}  // namespace

// 6 FLOPs per weight a token meets (input embedding not counted, output layer counted), and per
// layer 3 * 2 * s * width for attention, halved when the causal mask is counted.
// Source: arXiv 2204.02311 appendix B (full attention), arXiv 2104.04473 section 5.1 (the same
// products without recompute); the causal half: NVIDIA-NeMo/Megatron-Bridge, whose
// FLOP count halves attention since release 25.09.
double model_flops_per_token(const model::Architecture& a, double sequence, FlopConvention c,
                             double vocab) {
  const double share = c == FlopConvention::causal ? 0.5 : 1.0;
  double flops = 6.0 * a.hidden * (vocab > 0 ? vocab : a.vocab);
  for (const std::uint8_t kind : a.pattern) {
    const LayerWork w = work_of(a.blocks[kind]);
    flops += 6.0 * w.weights + 6.0 * share * sequence * w.attention_width;
  }
  return flops;
}

}  // namespace eratos::projection
