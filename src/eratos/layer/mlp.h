// The dense feed-forward: up (and gate), non-linearity, down.
//
// Letters: T tokens, h hidden, f width, t tp.
// Fused activation keeps the up product (gated: 2f/t a token) and its own output (f/t, the down
// product's operand): 6f/t bytes a token gated, 4f/t plain, in 16 bits. Eager SwiGLU keeps gate,
// silu(gate), up and the product: 8f/t.
// Source: arXiv 2205.05198 section 4.1 (plain, 8+8+2 bytes of a 4h MLP with its input).
#pragma once

#include "eratos/layer/legality.h"
#include "eratos/layer/linear.h"
#include "eratos/layer/specs.h"

namespace eratos::layer {

struct ActivationState {
  TensorId in = ops::kNoTensor;    // fused gated: gate and up together
  TensorId gate = ops::kNoTensor;  // eager gated
  TensorId up = ops::kNoTensor;
  TensorId silu = ops::kNoTensor;
  TensorId out = ops::kNoTensor;
};

// rows x width results; `in` holds rows x (gated ? 2 : 1) * width.
ActivationState activation_forward(Builder& b, bool gated, TensorId in, double rows, double width,
                                   Module module);
TensorId activation_backward(Builder& b, bool gated, const ActivationState& s, TensorId dy,
                             double rows, double width, Module module);

struct MlpState {
  LinearState in;
  LinearState out;
  ActivationState activation;
};

struct MlpModules {
  Module in = Module::mlp_in;
  Module activation = Module::activation;
  Module out = Module::mlp_out;
};

void check_mlp(const MlpSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out);
TensorId mlp_forward(const MlpSpec& spec, Builder& b, TensorId x, MlpState& s,
                     MlpModules modules = {});
TensorId mlp_backward(const MlpSpec& spec, Builder& b, const MlpState& s, TensorId dy,
                      MlpModules modules = {});

}  // namespace eratos::layer
