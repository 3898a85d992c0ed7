// Attention with separate query, key and value heads: MHA, GQA and MQA.
//
// Letters: b sequences, s sequence, c = cp, t = tp, H heads, G key-value heads, d head_dim,
// q = H*d, kv = G*d (whole), T tokens of the rank.
// Fused (flash) kernels keep Q, K, V, the output and one fp32 log-sum-exp a query and head:
// bytes a token, 16 bit: 4(q + kv)/t + 4H/t. Unfused ones keep the H*s*s/c probabilities.
// Unfused ones read K and V repeated to every query head, and keep the copies.
// Context parallelism: each rank holds s/c queries balanced over the causal triangle (zig-zag), so
// every rank does 1/c of the pairs. p2p: K and V travel a ring, (c-1) steps; all_gather: once;
// a2a: Q, K, V change heads for positions, so that a rank sees H/(t*c) heads of all s positions,
// and the result changes back; it is kept on both sides of that exchange.
// Windows and chunks (local layers) change the pairs that are computed, not what is kept: fused
// kernels skip the blocks that no query sees. Unfused ones compute and mask all of them. ALiBi adds
// to the scores inside either kernel, learned sinks one logit a head to the softmax.
// A soft cap keeps tanh of the scores where they are written out; fused kernels recompute it.
// Gated outputs keep the gate (q) and the gated result (q) beside the result itself.
// With more tensor-parallel ranks than key-value heads, ranks share a head: the projection's
// output is gathered, and each rank takes its query heads and the one head they read.
// Source: arXiv 2205.05198 section 4.1 (what is kept); arXiv 2310.01889 and Megatron-LM's
// context-parallel documentation (ring, zig-zag); arXiv 2309.14509 (a2a); Megatron-LM
// core/transformer/attention.py (shared heads) and dot_product_attention.py (repeated heads);
// windows: Dao-AILab/flash-attention hopper/block.h (blocks outside a window are not visited);
// sinks, caps, shared values, gates: huggingface/transformers modeling_gpt_oss.py,
// modeling_gemma2.py, modeling_gemma4.py, modeling_qwen3_next.py.
// Worked example: Llama 3.1 8B, T 8192, t 1: 4 * (4096 + 1024) * 8192 + 4 * 32 * 8192 = 169 MB.
#pragma once

#include "eratos/layer/legality.h"
#include "eratos/layer/linear.h"
#include "eratos/layer/mixer_work.h"
#include "eratos/layer/norm.h"
#include "eratos/layer/specs.h"

namespace eratos::layer {

// The part between the projections: one kernel, or scores, softmax and context apart.
struct CoreSizes {
  double heads = 0;     // local query heads
  double kv_heads = 0;  // local
  double head_dim = 0;  // of Q and K
  double v_head_dim = 0;
  double window = 0;
  double chunk = 0;
  bool sinks = false;
  bool soft_cap = false;
};
struct CoreState {
  TensorId q = ops::kNoTensor;
  TensorId k = ops::kNoTensor;
  TensorId v = ops::kNoTensor;
  TensorId out = ops::kNoTensor;      // of the attention itself, which its backward reads
  TensorId context = ops::kNoTensor;  // what the output projection reads: `out`, exchanged (a2a)
  TensorId lse = ops::kNoTensor;
  TensorId probs = ops::kNoTensor;  // unfused: softmax result (fp32 when eager)
  TensorId probs_narrow = ops::kNoTensor;
  TensorId dropped = ops::kNoTensor;  // unfused with dropout: probabilities after it
  TensorId mask = ops::kNoTensor;
  TensorId capped = ops::kNoTensor;  // unfused: tanh of the scores
};
// v may be a tensor that holds more than the values when they are a view of it.
CoreState core_forward(Builder& b, const CoreSizes& size, TensorId q, TensorId k, TensorId v);
// Writes gradients of q, k, v as one tensor each.
struct CoreGradients {
  TensorId q, k, v;
};
CoreGradients core_backward(Builder& b, const CoreSizes& size, const CoreState& s,
                            TensorId d_context);

struct AttentionState {
  LinearState qkv;
  LinearState out;
  NormState q_norm;
  NormState k_norm;
  NormState v_norm;
  CoreState core;
  TensorId gate = ops::kNoTensor;
  TensorId extra = ops::kNoTensor;
};

inline constexpr MixerNames kAttentionNames{"attention alone", "dense layer", "moe layer"};

double attention_parameters(const AttentionSpec& spec);
MixerWork attention_work(const AttentionSpec& spec, double sequence, bool causal);

void check_attention(const AttentionSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out);
TensorId attention_forward(const AttentionSpec& spec, Builder& b, TensorId x, AttentionState& s);
TensorId attention_backward(const AttentionSpec& spec, Builder& b, const AttentionState& s,
                            TensorId dy);

}  // namespace eratos::layer
