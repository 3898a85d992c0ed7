// Mamba-2: a selective state space, computed in chunks as matrix products.
//
// Letters: h hidden, H heads of size P (inner width d = H*P), N state, G groups that share B and C,
// w = d + 2*G*N channels of the convolution, C chunk, t tp, T tokens of the rank.
// One projection gives z (d), x B C (w) and a step for each head (H): 2d + 2GN + H columns, cut
// over heads and groups. A causal convolution of four taps, then for every chunk and head
//   scores B C^T [C x C] (once a group), what the chunk adds to its state [N x P], and
//   out = scores * x + C * (state so far): [C x (C + N)] by [(C + N) x P],
// then gate by silu(z), RMSNorm over d, and the output projection.
// Forward work a token and head: 2 (C N G/H + 2 N P + C P) FLOPs; backward twice that, and the
// scores and states once more.
// Kept a token in 16 bits: the projection (2d + 2GN + H), the scan's result, the gated one and the
// normalised one (d each), all /t: 2 (5d + 2GN + H)/t bytes. The convolution is done again.
// Source: arXiv 2405.21060 section 6 (chunks) and section 8.2 (tensor parallelism);
// state-spaces/mamba mamba_ssm/ops/triton/ssd_combined.py (what is kept); Megatron-LM
// core/ssm/mamba_mixer.py. Worked example: Nemotron-H 8B (h 4096, H 128, P 64, N 128, G 8): weights
// of one layer
//   4096*18560 + 10240*5 + 3*128 + 8192 + 8192*4096 = 109,635,968, its norm apart.
// Assumes: gate and norm are two passes over d, as where the gate is part of the scan's kernel.
#pragma once

#include "eratos/layer/legality.h"
#include "eratos/layer/linear.h"
#include "eratos/layer/mixer_work.h"
#include "eratos/layer/norm.h"
#include "eratos/layer/scan.h"
#include "eratos/layer/specs.h"

namespace eratos::layer {

struct MambaState {
  LinearState in;
  LinearState out;
  TensorId mixed = ops::kNoTensor;    // z, x, B, C, dt of every position the rank scans
  TensorId scanned = ops::kNoTensor;  // before the gate
  NormState norm;
};

inline constexpr MixerNames kMambaNames{"mamba alone", "mamba layer", "mamba moe layer"};

double mamba_parameters(const MambaSpec& spec);
// Weights of its projections: what a token meets as matrix products.
double mamba_projections(const MambaSpec& spec);
// FLOPs of the scan, forward, one token, all heads.
double mamba_scan_flops(const MambaSpec& spec, double sequence);

// 7 d N FLOPs forward for the scan, as if position by position.
// Source: NVIDIA/Megatron-LM megatron/training/training.py (mamba_layer_flops).
MixerWork mamba_work(const MambaSpec& spec, double sequence, bool causal);

void check_mamba(const MambaSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out);
TensorId mamba_forward(const MambaSpec& spec, Builder& b, TensorId x, MambaState& s);
TensorId mamba_backward(const MambaSpec& spec, Builder& b, const MambaState& s, TensorId dy);

}  // namespace eratos::layer
