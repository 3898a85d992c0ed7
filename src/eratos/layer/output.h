// Final norm, output layer and loss: the head.
//
// Letters: T tokens, V padded vocabulary, t tp. Logits are T * V/t on every rank (column-parallel);
// the loss reduces three numbers a token over tp (maximum, sum of exponentials, target logit).
// Bytes a logit that live at once, and traffic, are the framework's (LossBuffers): unfused losses
// copy the logits to fp32 and keep probabilities, fused ones make the gradient in forward.
// A framework that gathers logits (`gathers_logits`) has T * V of them on every rank, an all-gather
// instead of the three numbers, and cuts the gradient again before the head's products.
// A soft cap keeps tanh of the logits, in the activation format, and writes them anew.
// Source: Megatron-LM core/tensor_parallel/cross_entropy.py; docs/model/memory.md for the bytes.
// Worked example: Llama 3.1 8B, T 8192, t 1: 1.05e9 logits; at 6 B each 6.3 GB.
#pragma once

#include "eratos/layer/legality.h"
#include "eratos/layer/linear.h"
#include "eratos/layer/norm.h"
#include "eratos/layer/specs.h"

namespace eratos::layer {

struct OutputState {
  NormState norm;
  LinearState linear;
  TensorId logits = ops::kNoTensor;  // what the loss reads
  TensorId part = ops::kNoTensor;    // a rank's columns of them, where it gathers the rest
  TensorId capped = ops::kNoTensor;  // tanh of the product's logits, with a soft cap
  TensorId loss_buffer = ops::kNoTensor;
  TensorId weight_sum = ops::kNoTensor;  // the weight's gradient, where forward takes it
};

void check_output(const OutputSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out);
// x: the last layer's output. Appends loss and its buffers; nothing is returned forward.
// own_weight false: the matrix lives in another program of the same rank (tied on one stage, MTP).
void output_forward(const OutputSpec& spec, Builder& b, TensorId x, OutputState& s, bool own_weight);
TensorId output_backward(const OutputSpec& spec, Builder& b, const OutputState& s);

}  // namespace eratos::layer
