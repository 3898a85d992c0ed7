// Which modules a CUDA graph of a part of a layer holds, by the names of Megatron-LM's
// --cuda-graph-scope.
// Source: NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py (cuda_graph_scope) and
// transformer_layer.py.
#pragma once

#include <string_view>

#include "eratos/job/job.h"

namespace eratos::reader {

// Adds the modules of `scope`: attn, mamba, mlp, moe_router, moe_preprocess. False: no such scope.
bool add_graph_scope(std::string_view scope, job::ModuleSet& out);

// Every scope that a dropless mixture of experts allows: what is captured where none is named.
job::ModuleSet all_graph_scopes();

}  // namespace eratos::reader
