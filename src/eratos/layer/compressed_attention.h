// DeepSeek-V4's attention: one latent of D numbers a token is key and value of every head; queries
// see a window of positions and a pool of compressed ones.
//
// Letters: h hidden, H heads of size D, r_q and r_o low ranks, G output groups, w window, m ratio,
// S sequence, T tokens of the rank. Ratio 0: the window alone. Otherwise m positions are pooled
// into one (each is a gated mean of m or, at ratio 4, of 2m projections); at ratio 4 an indexer of
// H_i heads of size D_i scores the S/4 pooled ones and each query keeps the best k. Weights: h r_q
// + r_q + r_q H D (queries), h D + D (latent), H (sinks), H D r_o + G r_o h (output: each group of
// heads has its own down projection); pool: c (2 h D + m D) + D with c 2 at ratio 4 and 1
// otherwise; indexer: r_q H_i D_i + h H_i + 2 (2 h D_i + 4 D_i) + D_i.
// Keys of a query: w of its window (fewer at the start) and, causally, S/(2m) of the pool on
// average, or of the best k: k - 2 k^2 / S for k below S/4. The query's projection is normalised
// over D without a weight, so it and the result are both kept. Source: AMD-AGI/Primus@fd1eeabb
// primus/backends/megatron/core/transformer/deepseek_v4_attention.py, compressor.py, indexer.py and
// primus/configs/models/megatron/deepseek_v4_base.yaml. Worked example: DeepSeek-V4-Flash (h 4096,
// H 64, D 512, r 1024, G 8), a window layer:
//   4096*1024 + 1024 + 1024*32768 + 4096*512 + 512 + 64 + 32768*1024 + 8192*4096 = 106,956,352.
// Assumes: the indexer is not trained (its own loss is off, the recipes' default): its products run
// forward only, and its weights still have gradients and optimizer state.
#pragma once

#include "eratos/layer/legality.h"
#include "eratos/layer/linear.h"
#include "eratos/layer/mixer_work.h"
#include "eratos/layer/norm.h"
#include "eratos/layer/specs.h"

namespace eratos::layer {

struct CompressedAttentionState {
  LinearState q_down;
  LinearState q_up;
  LinearState kv;
  LinearState pool;
  LinearState out;
  NormState q_norm;
  NormState kv_norm;
  NormState pool_norm;
  TensorId q_raw = ops::kNoTensor;
  TensorId q = ops::kNoTensor;
  TensorId kv_rotated = ops::kNoTensor;
  TensorId pool_raw = ops::kNoTensor;
  TensorId pooled = ops::kNoTensor;
  TensorId context = ops::kNoTensor;
  TensorId lse = ops::kNoTensor;
  TensorId chosen = ops::kNoTensor;  // indices of the pooled positions each query reads
  TensorId grouped = ops::kNoTensor;
};

inline constexpr MixerNames kCompressedAttentionNames{
    "compressed-attention alone", "compressed-attention layer", "compressed-attention moe layer"};

double compressed_attention_parameters(const CompressedAttentionSpec& spec);
// Weights of its projections: what a token meets as matrix products.
double compressed_attention_projections(const CompressedAttentionSpec& spec);
// Keys that a query sees on average.
double compressed_attention_keys(const CompressedAttentionSpec& spec, double sequence);

MixerWork compressed_attention_work(const CompressedAttentionSpec& spec, double sequence,
                                    bool causal);

void check_compressed_attention(const CompressedAttentionSpec& spec,
                                const parallel::ParallelSpec& p, Diagnostics& out);
TensorId compressed_attention_forward(const CompressedAttentionSpec& spec, Builder& b, TensorId x,
                                      CompressedAttentionState& s);
TensorId compressed_attention_backward(const CompressedAttentionSpec& spec, Builder& b,
                                       const CompressedAttentionState& s, TensorId dy);

}  // namespace eratos::layer
