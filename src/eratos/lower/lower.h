// The only place where shapes are made: a checked job becomes programs, stages and step ops.
//
// Order of the passes over each distinct program: adapters and packing, precision (formats and casts), recompute,
// overlap, sharding (ZeRO-3 gathers). A job has a handful of distinct programs however many layers
// and stages it has; a stage is a list of (program, repeat).
//
// Worked example: Mixtral 8x22B, pp 4: programs embedding, moe layer, output; stage 0 is
// embedding x1, moe layer x14; stage 3 moe layer x14, output x1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "eratos/job/job.h"
#include "eratos/lower/program_set.h"
#include "eratos/ops/stage.h"

namespace eratos::lower {

// Fills `out` from the programs of `set`, which are those of the job (ProgramSet::is_of), and lowers
// those that it lacks. The first set.size() programs of `out` are the set's, and stay so while it is used;
// some of them may be no part of this job. Allocation: none when set and `out` are warm.
void lower(const job::CheckedJob& job, ProgramSet& set, ops::LoweredJob& out);
// The same from nothing. `load`: rows that the rank's experts receive against equal shares (ops/load.h).
void lower(const job::CheckedJob& job, ops::LoweredJob& out, double load = 1);

// The halves of it: programs and stages, and once-a-step ops. Those of one rank are those of the rank
// before where steps_as_before().
void lower_stages(const job::CheckedJob& job, ProgramSet& set, ops::LoweredJob& out);
void lower_steps(const job::CheckedJob& job, ops::LoweredJob& out);
void lower_step(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank,
                std::vector<ops::Op>& out);
bool steps_as_before(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank);

// Virtual stage `i` alone, as if it held `at`: the job's own stages need not add up to the model.
// `full[n]`: its n-th layer is recomputed in full. One chunk a rank.
void lower_stage(const job::CheckedJob& job, std::size_t i, const job::VirtualStage& at,
                 std::span<const std::uint8_t> full, ProgramSet& set, ops::LoweredJob& out);

// Does the job recompute a layer in full? `position`: in its virtual stage.
bool recomputed_in_full(const job::RecomputeSpec& r, int layer, int position);

// What a pipeline rank holds: its chunks and, behind them, its share of the vocabulary layers where
// they are cut over all ranks.
int parts_of(const job::CheckedJob& job);
const ops::StageProgram& part_of(const job::CheckedJob& job, const ops::LoweredJob& lowered, int rank,
                                 int part);

// The context every layer of the job is lowered in.
layer::LayerContext context_of(const job::CheckedJob& job, double load = 1);

}  // namespace eratos::lower
