// How sources count the FLOPs of a token. One function each; none is right, they differ.
#include <algorithm>
#include <variant>

#include "eratos/layer/compressed_attention.h"
#include "eratos/layer/delta_net.h"
#include "eratos/layer/mamba.h"
#include "eratos/projection/projection.h"

namespace eratos::projection {

namespace {

// 2 * (products' weights a token visits) of one layer, and its attention width heads*(d + d_v).
struct LayerWork {
  double weights = 0;
  double attention_width = 0;
  double window = 0;  // keys a query sees at most, or positions of its chunk; 0: all
  double chunk = 0;
  const layer::CompressedAttentionSpec* compressed = nullptr;
};

LayerWork work_of(const layer::BlockSpec& block) {
  LayerWork w;
  if (const auto* a = std::get_if<layer::AttentionSpec>(&block.mixer)) {
    const double q = static_cast<double>(a->heads) * a->head_dim;
    const double kv = static_cast<double>(a->kv_heads) * a->head_dim;
    w.weights += a->hidden * (q * (a->output_gate ? 3 : 2) + kv * (a->shared_kv ? 1 : 2));
    w.attention_width = 2 * q;
    w.window = a->window;
    w.chunk = a->chunk;
  } else if (const auto* m = std::get_if<layer::MlaSpec>(&block.mixer)) {
    const double qk = m->qk_nope_head_dim + m->qk_rope_head_dim;
    const double heads = m->heads;
    w.weights += m->q_lora_rank > 0 ? m->hidden * m->q_lora_rank + m->q_lora_rank * heads * qk
                                    : m->hidden * heads * qk;
    w.weights += m->hidden * (m->kv_lora_rank + m->qk_rope_head_dim);
    w.weights += m->kv_lora_rank * heads * (m->qk_nope_head_dim + m->v_head_dim);
    w.weights += heads * m->v_head_dim * m->hidden;
    w.attention_width = heads * (qk + m->v_head_dim);
  } else if (const auto* s = std::get_if<layer::MambaSpec>(&block.mixer)) {
    // 7 d N FLOPs forward, as if position by position.
    w.weights += layer::mamba_projections(*s) + 3.5 * s->heads * s->head_dim * s->state;
  } else if (const auto* d = std::get_if<layer::DeltaNetSpec>(&block.mixer)) {
    // The state is multiplied four times.
    const double states = 4.0 * d->value_heads * d->value_dim * d->value_dim;
    const double taps = d->conv * (2.0 * d->key_heads * d->key_dim + 1.0 * d->value_heads * d->value_dim);
    w.weights += layer::delta_net_projections(*d) + taps + states;
  } else if (const auto* c = std::get_if<layer::CompressedAttentionSpec>(&block.mixer)) {
    w.weights += layer::compressed_attention_projections(*c);
    w.attention_width = 2.0 * c->heads * c->head_dim;
    w.compressed = c;
  }
  if (const auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward)) {
    w.weights += (m->gated ? 3 : 2) * m->hidden * m->ffn;
  } else if (const auto* e = std::get_if<layer::MoeSpec>(&block.feed_forward)) {
    const double matrices = e->gated ? 3 : 2;
    const double width = e->latent > 0 ? e->latent : e->hidden;
    w.weights += e->hidden * e->experts + 2 * e->hidden * e->latent +
                 matrices * (width * e->ffn * e->top_k + e->hidden * e->shared_ffn);
  }
  return w;
}

}  // namespace

// 6 FLOPs per weight a token meets (input embedding not counted, output layer counted), and per
// layer 3 * 2 * s * width for attention, halved when the causal mask is counted.
// Source: arXiv 2204.02311 appendix B (full attention), arXiv 2104.04473 section 5.1 (the same
// products without recompute); the causal half: NVIDIA-NeMo/Megatron-Bridge, whose
// FLOP count halves attention since release 25.09; recurrences: NVIDIA/Megatron-LM
// megatron/training/training.py (mamba_layer_flops and the gated delta rule).
double model_flops_per_token(const model::Architecture& a, double sequence, FlopConvention c,
                             double vocab) {
  const bool causal = c == FlopConvention::causal;
  double flops = 6.0 * a.hidden * (vocab > 0 ? vocab : a.vocab);
  for (const std::uint8_t kind : a.pattern) {
    const LayerWork w = work_of(a.blocks[kind]);
    const double positions = w.chunk > 0 ? std::min(w.chunk, sequence) : sequence;
    const double keys = w.compressed != nullptr
                            ? layer::compressed_attention_keys(*w.compressed, sequence)
                            : ops::visible_keys(positions, causal, w.window);
    flops += 6.0 * w.weights + 6.0 * keys * w.attention_width;
  }
  return flops;
}

}  // namespace eratos::projection
