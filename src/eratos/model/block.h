// One transformer layer as a program, and the programs that stand before, behind and beside it.
//
// Order, forward: norm, mixer, residual add, norm, feed-forward, residual add; a parallel block
// feeds one norm's output (or a norm for each) to both branches. A norm may also stand behind a
// branch, before it is added, beside the one before it (Gemma 2) or instead of it (OLMo 2).
// Backward is the exact reverse, with the residual stream's gradient added where a branch leaves it.
#pragma once

#include "eratos/layer/context.h"
#include "eratos/layer/specs.h"
#include "eratos/ops/ops.h"

namespace eratos::model {

// "dense layer", "moe layer", "mamba alone" (a layer of hybrid stacks that is a mixer and no more), ...
const char* kind_of(const layer::BlockSpec& block);

void lower_block(const layer::BlockSpec& block, const layer::LayerContext& context,
                 double hidden, ops::Program& out);
void lower_embedding(const layer::EmbeddingSpec& spec, const layer::LayerContext& context,
                     ops::Program& out);
void lower_output(const layer::OutputSpec& spec, const layer::LayerContext& context,
                  bool own_weight, ops::Program& out);
// A multi-token prediction module: two norms, the 2h -> h projection, one block, and the shared
// head once more. Source: arXiv 2412.19437, section 2.2; under tensor parallelism the projection is
// cut by columns and gathered, Megatron-LM core/transformer/multi_token_prediction.py (eh_proj).
void lower_mtp(const layer::BlockSpec& block, const layer::OutputSpec& head,
               const layer::LayerContext& context, double hidden, ops::Program& out);

}  // namespace eratos::model
