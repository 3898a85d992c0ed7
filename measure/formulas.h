// The few computations of which layers are made, twice each: as a device does them, and plainly, by
// their definition, for the reference in double precision.
//
// Letters: t tokens, s positions of a sequence, b sequences, h query heads, g key heads, d head
// size.
#pragma once

#include <ATen/ATen.h>

namespace eratos::device {

enum class Activation { silu, gelu, relu, squared_relu };

struct Formulas {
  // x [t, w], weight [w]. `layer`: LayerNorm, else RMSNorm.
  at::Tensor (*norm)(const at::Tensor& x, const at::Tensor& weight, bool layer);
  // x [t, w] -> [t, w]; gated: x [t, 2w] -> [t, w], the first half activated times the second.
  at::Tensor (*activation)(const at::Tensor& x, Activation kind, bool gated);
  // x [b, s, heads, d], angles [s, d/2].
  at::Tensor (*rotary)(const at::Tensor& x, const at::Tensor& angles);
  // q [b, s, h, d], k [b, s', g, d], v [b, s', g, d'] -> [b, s, h, d']. window 0: none. `fused`: in
  // one kernel where there is one; else products and a softmax.
  at::Tensor (*attention)(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                          bool causal, std::int64_t window, bool fused);
  // logits [t, e] -> probabilities of the k likeliest, [t, k], which sum to 1.
  at::Tensor (*router)(const at::Tensor& logits, std::int64_t k);
  // Mean of -log p(target): logits [t, v], targets [t].
  at::Tensor (*cross_entropy)(const at::Tensor& logits, const at::Tensor& targets);
};
const Formulas& fast_formulas();
const Formulas& plain_formulas();

// "" where one kernel does attention that is asked to be fused, else what is done instead.
const char* attention_note();

// Rotary angles of s positions, in the format of `like`'s device: [s, d/2], base 10,000.
// Source: arXiv 2104.09864, equation 15.
at::Tensor rotary_angles(std::int64_t positions, std::int64_t head_dim, c10::Device device);

}  // namespace eratos::device
