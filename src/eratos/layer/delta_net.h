// Linear attention by the delta rule: Gated DeltaNet and Kimi Delta Attention, in chunks.
//
// Letters: h hidden, Q key heads of size k, H value heads of size v (a multiple of Q), K = Q*k,
// V = H*v, C chunk, t tp, T tokens of the rank.
// gated: one projection, cut over heads, gives q, k, v, an output gate (V) and two numbers a head:
//   2K + 2V + 2H columns.
// kimi:  q, k, v and one number a head (2K + V + H); the decay of each key channel and the output
//   gate come from hidden through widths of v (held whole) and on to K and to V (cut over heads).
// A causal convolution of four taps over q, k, v; q and k are normalised, and copied to every value
// head. For every chunk and head:
//   A = inverse of (1 + strict triangle of beta k k^T) [C x C];  w = A k [C x k];  u = A v [C x v]
//   new = u - w S;  S += k^T new;  out = q S + triangle(q k^T) new,  S [k x v]
// Forward work a token and head: 2 (C (3k + 2v) + 3 k v) FLOPs; backward twice that, w, u, the
// states and their products once more. The inverse's few small blocks are left out (C/12 of a
// product). Then RMSNorm over v, times the gate, and the output projection. Kept a token in 16
// bits, all /t, with H heads of copied q and k: the convolution's input 2(2K + V), gate 2V, q and k
// 4Hk, v 2V, A 2HC (kimi: and the scores, 2HC more), decay in fp32 (4H, kimi 4Hk and its projection
// 2K), beta 2H, out 2V and the gated result 2V. Source: arXiv 2412.06464 section 3.3; arXiv
// 2510.26692 sections 3 and 4 and appendix C; fla-org/flash-linear-attention
// fla/ops/gated_delta_rule/chunk.py and fla/ops/kda/chunk.py (what is kept); Megatron-LM
// core/ssm/gated_delta_net.py (tensor and context parallelism). Worked example: Qwen3-Next (h 2048,
// Q 16, H 32, k = v = 128): weights of one layer
//   2048*12352 + 8192*4 + 64 + 128 + 4096*2048 = 33,718,464, its norm apart.
// Assumes: the products of all chunks run side by side, although each chunk's state waits for the
// one before it.
#pragma once

#include "eratos/layer/legality.h"
#include "eratos/layer/linear.h"
#include "eratos/layer/mixer_work.h"
#include "eratos/layer/norm.h"
#include "eratos/layer/scan.h"
#include "eratos/layer/specs.h"

namespace eratos::layer {

struct DeltaNetState {
  LinearState in;
  LinearState gate_down;
  LinearState decay_up;
  LinearState gate_up;
  LinearState out;
  TensorId mixed = ops::kNoTensor;      // gated: q, k, v, gate, a, b; kimi: q, k, v, b
  TensorId decay_raw = ops::kNoTensor;  // kimi
  TensorId gate = ops::kNoTensor;       // kimi: the output gate; gated: a slice of `mixed`
  TensorId query = ops::kNoTensor;
  TensorId key = ops::kNoTensor;
  TensorId value = ops::kNoTensor;
  TensorId decay = ops::kNoTensor;  // cumulative, fp32
  TensorId inverse = ops::kNoTensor;
  TensorId scores = ops::kNoTensor;  // kimi
  NormState norm;
  TensorId normed = ops::kNoTensor;
};

inline constexpr MixerNames kDeltaNetNames{"delta-net alone", "delta-net layer",
                                           "delta-net moe layer"};

double delta_net_parameters(const DeltaNetSpec& spec);
// Weights of its projections: what a token meets as matrix products.
double delta_net_projections(const DeltaNetSpec& spec);
// FLOPs of the recurrence, forward, one token, all heads.
double delta_net_scan_flops(const DeltaNetSpec& spec, double sequence);

// The state is multiplied four times.
// Source: NVIDIA/Megatron-LM megatron/training/training.py (the gated delta rule).
MixerWork delta_net_work(const DeltaNetSpec& spec, double sequence, bool causal);

void check_delta_net(const DeltaNetSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out);
TensorId delta_net_forward(const DeltaNetSpec& spec, Builder& b, TensorId x, DeltaNetState& s);
TensorId delta_net_backward(const DeltaNetSpec& spec, Builder& b, const DeltaNetState& s,
                            TensorId dy);

}  // namespace eratos::layer
