// The steps that project(), screen() and explain() share.
#pragma once

#include "eratos/projection/projection.h"
#include "eratos/projection/time.h"
#include "eratos/projection/workspace.h"

namespace eratos::projection {

// Lowers the job and walks each program's lifetimes: fills w.lowered and w.program_memory. `load`: rows
// that a rank's experts receive against equal shares.
void prepare(const job::CheckedJob& job, Workspace& w, double load = 1);

// The worst moment of one pipeline rank, from w.peaks.
void rank_memory(const job::CheckedJob& job, const memory::StateRules& state, int rank, Workspace& w,
                 memory::StageMemory& out);
memory::StageInput rank_input(const job::CheckedJob& job, int rank, Workspace& w);
// Buffers of T x h that the device has not reached when most is held: two a layer's pass.
double lagging_buffers(const job::CheckedJob& job);

struct StepTime {
  double dp_exposed = 0;
  double dp_share = 1;  // of the time of reduction and gather: what is exposed, contention included
  double optimizer = 0;
};
// Once-a-step ops of a rank, given one micro-batch's passes of it.
StepTime step_time(const job::CheckedJob& job, const Pricing& pricing, const Workspace& w, int rank,
                   double forward, double backward);

}  // namespace eratos::projection
