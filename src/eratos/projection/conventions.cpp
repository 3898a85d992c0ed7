// How sources count the FLOPs of a token. One function each; none is right, they differ.
#include <variant>

#include "eratos/layer/mixers.h"
#include "eratos/projection/projection.h"

namespace eratos::projection {

namespace {

double feed_forward_weights(const layer::FeedForward& f) {
  if (const auto* m = std::get_if<layer::MlpSpec>(&f)) return (m->gated ? 3 : 2) * m->hidden * m->ffn;
  const auto* e = std::get_if<layer::MoeSpec>(&f);
  if (e == nullptr) return 0;
  const double matrices = e->gated ? 3 : 2;
  const double width = e->latent > 0 ? e->latent : e->hidden;
  return e->hidden * e->experts + 2 * e->hidden * e->latent +
         matrices * (width * e->ffn * e->top_k + e->hidden * e->shared_ffn);
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
    const layer::BlockSpec& block = a.blocks[kind];
    const layer::MixerWork w = layer::mixer_work(block.mixer, sequence, causal);
    flops += 6.0 * (w.weights + feed_forward_weights(block.feed_forward)) + 6.0 * w.keys * w.width;
  }
  return flops;
}

}  // namespace eratos::projection
