// Hyper-connections: n residual streams, of which a branch reads one mixture and writes to all.
//
// Letters: n streams of h numbers, T tokens. From all streams of a token, normalised together
// without a weight, one fp32 product gives (2 + n) n numbers: how the branch's input is mixed (n),
// how its result is spread (n), and how the streams are mixed among themselves (n x n, made doubly
// stochastic). Weights of one branch: n h (2 + n) n + (2 + n) n + 3; of the last mixture, before
// the final norm, n h n + n + 1; all on every rank. Kept a token: the streams 2nh, the normalised
// ones in fp32 4nh (the product's operand), the numbers 4(2 + n)n, the branch's result 2h; a norm
// that is written out (fusions.unweighted_norm off) keeps its operand in fp32 too, 4nh. Source:
// arXiv 2409.19606 section 2 (hyper-connections); AMD-AGI/Primus@fd1eeabb
// primus/backends/megatron/core/transformer/hyper_connection.py (DeepSeek-V4's form).
// Worked example: DeepSeek-V4-Flash (n 4, h 4096): 16384 * 24 + 24 + 3 = 393,243 weights a branch.
#pragma once

#include "eratos/layer/builder.h"

namespace eratos::layer {

struct HyperState {
  TensorId streams = ops::kNoTensor;
  TensorId cast = ops::kNoTensor;  // in fp32, where the norm is written out
  TensorId normed = ops::kNoTensor;
  TensorId mixture = ops::kNoTensor;
  TensorId branch = ops::kNoTensor;
};

double hyper_parameters(double hidden, int streams);
double hyper_head_parameters(double hidden, int streams);

// The mixture that a branch reads.
TensorId collapse_forward(Builder& b, double hidden, int streams, TensorId x, HyperState& s);
// The streams after it.
TensorId spread_forward(Builder& b, double hidden, int streams, TensorId branch, HyperState& s);
// Gradients that leave a branch for its result, and, once the branch's own gradient of its input is
// known, for the streams. `d_mixture` and `d_streams` carry what the first part found.
struct SpreadGradients {
  TensorId branch, streams, mixture;
};
SpreadGradients spread_backward(Builder& b, double hidden, int streams, const HyperState& s,
                                TensorId dy);
TensorId collapse_backward(Builder& b, double hidden, int streams, const HyperState& s,
                           const SpreadGradients& g, TensorId d_collapsed);

// The last mixture, before the final norm.
TensorId hyper_head_forward(Builder& b, double hidden, int streams, TensorId x, HyperState& s);
TensorId hyper_head_backward(Builder& b, double hidden, int streams, const HyperState& s,
                             TensorId dy);

}  // namespace eratos::layer
