// Mixture of experts: router, dispatch, grouped feed-forward, combine, shared expert.
//
// Letters: Ts tokens this rank routes (its shard under sequence parallelism), E experts, k experts
// a token visits, e = ep, u = etp, f_e width of one expert, h hidden.
// Rows an expert rank computes, balanced routing: R = Ts * k * u; E/e experts, R*e/E rows each.
// dispatch.h has how rows travel, capacities, and what a dispatcher costs.
// Tokens are divided by tp when expert weights are not (u < t). Source: arXiv 2504.14960 (parallel
// folding) and Megatron-LM core/transformer/moe/token_dispatcher.py.
// Kept in 16 bits: 2kh for the gathered rows, 4k f_e / 2k f_e around a fused gated activation,
// and, where router weights multiply the output instead of the activation, 2kh more.
// Latent experts: every routed token is projected to a width l before it is sent and back after it
// has returned (held whole on every rank); h above is then l.
// Source: Megatron-LM core/transformer/moe/moe_layer.py (fc1_latent_proj, fc2_latent_proj).
// Without a grouped product every expert launches its own kernels.
// Worked example: Mixtral 8x22B, ep 8, 16384 tokens: R = 32768 rows of one expert.
// Where routing is uneven the rank is the busiest of its group: it receives `load` times R rows, in
// all its experts alike (ops/load.h).
#pragma once

#include "eratos/layer/linear.h"
#include "eratos/layer/mlp.h"
#include "eratos/layer/norm.h"

namespace eratos::layer {

struct MoeState {
  TensorId input = ops::kNoTensor;
  TensorId router_input = ops::kNoTensor;
  LinearState latent_down;
  LinearState latent_up;
  TensorId probs = ops::kNoTensor;
  TensorId row_map = ops::kNoTensor;
  TensorId row_probs = ops::kNoTensor;
  TensorId top_index = ops::kNoTensor;  // eager: what top-k and the renormalisation keep
  TensorId top_value = ops::kNoTensor;
  TensorId top_sum = ops::kNoTensor;
  TensorId stacked = ops::kNoTensor;     // the experts' weights in one buffer
  TensorId rows = ops::kNoTensor;        // operand of the experts' first product
  TensorId expert_out = ops::kNoTensor;  // kept only when router weights come last
  TensorId returned = ops::kNoTensor;    // kept where the combine is a product with masks
  TensorId scaled = ops::kNoTensor;      // eager: rows after scaling, kept by index_add
  ActivationState activation;
  NormState router_norm;  // own norms (Gemma 4)
  NormState norm;
  NormState post_norm;
  NormState shared_norm;
  MlpState shared;
  TensorId shared_out = ops::kNoTensor;   // gated shared expert: its result before the gate
  TensorId shared_gate = ops::kNoTensor;  // one number a token
};

void check_moe(const MoeSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out);
TensorId moe_forward(const MoeSpec& spec, Builder& b, TensorId x, MoeState& s);
TensorId moe_backward(const MoeSpec& spec, Builder& b, const MoeState& s, TensorId dy);

}  // namespace eratos::layer
