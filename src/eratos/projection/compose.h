// The steps that project(), screen() and explain() share.
#pragma once

#include <vector>

#include "eratos/projection/passes.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/time.h"
#include "eratos/projection/workspace.h"

namespace eratos::projection {

// Lowers the job and walks each program's lifetimes: fills w.lowered and w.program_memory. `load`: rows
// that a rank's experts receive against equal shares. Programs that an earlier job had are taken from
// there (lower/program_set.h): the answer is the same bit for bit.
void prepare(const job::CheckedJob& job, Workspace& w, double load = 1);
// The same without once-a-step ops.
void prepare_stages(const job::CheckedJob& job, Workspace& w, double load);
// The prepared job once more, at a load that no other will ask for; programs keep their indices.
void prepare_at(double load, const job::CheckedJob& job, Workspace& w);

// Memory of the prepared job's programs at another load.
const std::vector<memory::ProgramMemory>& memory_at(double load, Workspace& w, LoadedMemory& out);

// Bounds of the prepared job's programs, from below.
const std::vector<ProgramBound>& bounds_of(const kernel::KernelContext& kernels, Workspace& w);

// Times of the prepared job's programs, by index. `split`: the halves of backward too. Those that an
// earlier job had are taken from there where every price is the same.
const ProgramTime* times_of(const job::CheckedJob& job, const Pricing& pricing, bool split,
                            Workspace& w);

// Seconds of kernels alone: never above what time_program() finds, for communication is left out.
double bound_of(const std::vector<ops::Op>& list, const kernel::KernelContext& kernels);

// What stage_memory() is told of every rank alike.
memory::StageInput frame_of(const job::CheckedJob& job);
// The worst moment of one pipeline rank, from w.peaks and the memory of programs.
void rank_memory(const job::CheckedJob& job, const memory::StateRules& state,
                 const memory::StageInput& frame, int rank,
                 const std::vector<memory::ProgramMemory>& programs, Workspace& w,
                 memory::StageMemory& out);
memory::StageInput rank_input(const job::CheckedJob& job, int rank, Workspace& w);
// Buffers of T x h that a rank holds for a device that has not reached them when most is held, from
// w.peaks. A forward pass of a layer reads two of T h (reduce-scatters) and two of T h / t (gathers).
// Without a pipeline the host is `lagging_layers` passes ahead at the end of a forward, half the layers
// of its first one. The ranks of a pipeline launch their warm-up in one go, and the device is by two
// micro-batches behind; or one forward and one backward where it takes longer for a layer than the host.
// Source: pytorch ProcessGroupNCCL.cpp, tensors stashed until a collective is done; one queue of 1,024
// launches (CUDA) is 25 to 30 passes of a layer.
double lagging_buffers(const job::CheckedJob& job, int rank, const Workspace& w);

// Once-a-step ops of a rank in seconds: gradients' reduction and what of it may run beside a
// micro-batch's backward, parameters' gather and its share beside a forward, all else.
struct StepPrice {
  double reduce = 0;
  double may_hide = 0;  // of it
  double reduce_share = 0;
  double gather = 0;
  double gather_share = 0;
  double optimizer = 0;
};
// Of one once-a-step op, as it was measured where it was.
double step_op_price(const ops::Op& op, const Pricing& pricing);
StepPrice step_price(const job::CheckedJob& job, const Pricing& pricing,
                     const std::vector<ops::Op>& ops);

struct StepTime {
  double dp_exposed = 0;
  double dp_share = 1;  // of the time of reduction and gather: what is exposed, contention included
  double optimizer = 0;
};
// The same given one micro-batch's passes of the rank.
StepTime step_time(const job::CheckedJob& job, const StepPrice& price, const OnePass& pass);

// Trained tensors of a rank that its host gathers one by one, once a step.
double gathered_tensors(const job::CheckedJob& job, const Workspace& w, int rank);
// What the host adds to a step once, on the rank that waits longest for it: the one of most tensors.
double host_step(const job::CheckedJob& job, double most_tensors);
double host_step(const job::CheckedJob& job, const Workspace& w);

// project() in its halves: lowers the job as an answer needs it, and answers with these prices.
void prepare_for_answer(const job::CheckedJob& job, Workspace& w);
Projection answer_of(const job::CheckedJob& job, const calibration::Calibration& calibration,
                     const Pricing& pricing, const Options& options, Workspace& w);
// Trained parameters whose state a rank holds.
double owned_parameters(const job::CheckedJob& job, const Workspace& w, int rank);

// Simulates the job's schedule, times being there: w.timing.
Result<void> simulated_step(const job::CheckedJob& job, Workspace& w);

// Fills w.peaks, held bytes (and times, where needs_times()) being there. Those of the job before are
// kept where they are the same. Errors: as schedule::find_peaks().
Result<void> fill_peaks(const job::CheckedJob& job, Workspace& w);

// Memory of the prepared job, whose held bytes (and times, where needs_times()) are there: fills w.peaks
// and all of `out` but the bound. False where the schedule has no order.
bool fit(const job::CheckedJob& job, const Options& options, Workspace& w, Screen& out);
// Does the order of the job's schedule look at times?
bool needs_times(const job::CheckedJob& job);

}  // namespace eratos::projection
