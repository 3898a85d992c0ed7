// Input embedding, with learned positions, a factor and its own norm where the architecture has them.
//
// Letters: T tokens, V vocabulary (padded), h hidden, t tp. The table is cut by rows of the
// vocabulary: V/t * h parameters a rank; positions are held whole.
// Traffic: all-reduce (no SP) or reduce-scatter (SP) of T*h. Backward scatters T rows into a dense
// gradient of the whole local table.
// Source: Megatron-LM core/tensor_parallel/layers.py VocabParallelEmbedding.
// Worked example: Llama 3.1 8B, t 1: 128256 * 4096 = 525,336,576 parameters.
#pragma once

#include "eratos/layer/legality.h"
#include "eratos/layer/norm.h"
#include "eratos/layer/specs.h"

namespace eratos::layer {

struct EmbeddingState {
  TensorId ids = ops::kNoTensor;
  TensorId mask = ops::kNoTensor;  // dropout
  NormState norm;
};

TensorId embedding_forward(const EmbeddingSpec& spec, Builder& b, EmbeddingState& s);
void embedding_backward(const EmbeddingSpec& spec, Builder& b, const EmbeddingState& s, TensorId dy);

}  // namespace eratos::layer
