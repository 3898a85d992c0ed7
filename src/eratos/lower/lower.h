// The only place where shapes are made: a checked job becomes programs, stages and step ops.
//
// Order of the passes over each distinct program: adapters and packing, precision (formats and casts), recompute,
// overlap, sharding (ZeRO-3 gathers). A job has a handful of distinct programs however many layers
// and stages it has; a stage is a list of (program, repeat).
//
// Worked example: Mixtral 8x22B, pp 4: programs embedding, moe layer, output; stage 0 is
// embedding x1, moe layer x14; stage 3 moe layer x14, output x1.
#pragma once

#include "eratos/job/job.h"
#include "eratos/ops/stage.h"

namespace eratos::lower {

// Fills `out`; its buffers are reused, so a warm one allocates nothing. `load`: rows that the rank's
// experts receive against equal shares (ops/load.h).
void lower(const job::CheckedJob& job, ops::LoweredJob& out, double load = 1);

// What a pipeline rank holds: its chunks and, behind them, its share of the vocabulary layers where
// they are cut over all ranks.
int parts_of(const job::CheckedJob& job);
const ops::StageProgram& part_of(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank,
                                 int part);

// The context every layer of the job is lowered in.
layer::LayerContext context_of(const job::CheckedJob& job, double load = 1);

}  // namespace eratos::lower
