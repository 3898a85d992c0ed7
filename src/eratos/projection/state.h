// Plain values that memory and schedule need, worked out from a checked job.
#pragma once

#include "eratos/job/job.h"
#include "eratos/memory/memory.h"
#include "eratos/schedule/registry.h"

namespace eratos::projection {

// Bytes per parameter and shards. Source of the table: arXiv 1910.02054 section 3; Megatron-LM
// docs, distributed optimizer (6 + 12/d for bf16 with fp32 gradients).
memory::StateRules state_rules(const job::CheckedJob& job);

// What a stage sends to the next, where the framework keeps it; none of the model's last stage.
Bytes kept_output(const job::CheckedJob& job, int rank);

// Process groups with buffers of their own on a rank: one for each axis cut, and the world.
int communicators(const job::CheckedJob& job);
// Ranks that a rank exchanges with through the library's all-to-all: each has its channels' buffers.
int all_to_all_peers(const job::CheckedJob& job);

const schedule::Schedule& schedule_of(const job::CheckedJob& job);
schedule::Shape shape_of(const job::CheckedJob& job);

}  // namespace eratos::projection
