// The words that sources of measured runs use for recompute, precision, overlap and the like.
//
// Each function sets the part of a JobSpec that the words mean, or says what is not modelled (""
// when all is well).
#pragma once

#include <string>
#include <string_view>

#include "eratos/job/job.h"

namespace eratos::reader {

// "none", "full", "full (block, 21 of 80 layers)", "full, 9 of 61 layers by id 0,1,2",
// "selective: layernorm moe_act" (Megatron-LM's module names); "" is taken for none. Policies that
// have a name of their own are in data/run_recompute.csv; `layers` is the model's number of them.
std::string read_recompute(std::string_view words, int layers, job::RecomputeSpec& out);

// "bf16", "fp8-hybrid", ...; `notes` may say that fp8-hybrid is tensorwise. "" is taken for bf16.
std::string read_precision(std::string_view word, std::string_view notes, job::Recipe& out);

// pp of `out` is known.
std::string read_schedule(std::string_view word, job::JobSpec& out);
// "grad-reduce param-gather tp-comm pp-p2p moe-a2a", "none", prose; "" leaves the defaults.
void read_overlap(std::string_view words, job::OverlapSpec& out);
layer::AttentionKernel read_attention(std::string_view words);
std::string read_dispatch(std::string_view words, job::RoutingSpec& out);
// Ranks of an hsdp shard group: "FSDP group 128, DP 4", "shard group 64"; 0 where not said.
int shard_group_in(std::string_view notes);
// Which launches captured graphs replay; where `words` is empty the notes may say.
void read_graphs(std::string_view words, std::string_view notes, job::JobSpec& out);

}  // namespace eratos::reader
