// What each action of the schedule takes and holds, from the rank's own programs: the tables that
// room `schedule` is asked with.
#pragma once

#include <vector>

#include "eratos/job/job.h"
#include "eratos/projection/time.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::projection {

struct Workspace;

// One chunk of one rank, one micro-batch.
struct PartTime {
  ChunkTime forward;
  ChunkTime backward;
  ChunkTime input_gradient;  // zero unless the schedule splits backward
  ChunkTime weight_gradient;
};

// Fills w.chunks' bytes (and w.outputs'), nothing else of them.
void fill_held(const job::CheckedJob& job, Workspace& w);

// Fills w.parts, w.part_at ([rank * parts + part], lower::part_of) and the times of w.chunks, w.links,
// w.outputs and w.output_links.
void fill_times(const job::CheckedJob& job, const Pricing& pricing, Workspace& w);

// What leaves each chunk, by the link between its rank and the neighbour's: w.links alone.
void fill_links(const job::CheckedJob& job, const Pricing& pricing, Workspace& w);

// One rank alone, where ranks are one chunk each, with whole backwards, and the output layer is not cut:
// the bytes of its chunk in w.chunks; and its times there, with w.parts for one_pass() of this rank.
void hold_rank(int rank, Workspace& w);
void time_rank(const job::CheckedJob& job, const Pricing& pricing, const ProgramTime* times, int rank,
               Workspace& w);

// What each pass of a pipeline rank waits where its sends block.
double gap_of(const job::CheckedJob& job);

// Everything the schedule is told; views into `w`.
schedule::Costs costs_of(const job::CheckedJob& job, Workspace& w);

// One micro-batch through all parts of a rank.
struct OnePass {
  double forward = 0;
  double backward = 0;
};
OnePass one_pass(const job::CheckedJob& job, const Workspace& w, int rank);
// The same with nothing hidden and sends that block (Pricing::any_overlap): no switch makes it longer.
OnePass longest_pass(const job::CheckedJob& job, const Workspace& w, int rank);

// Seconds of a step in which an accelerator runs the kernels of its passes, in the mean over pipeline
// ranks, whole backwards. Overlap does not change it: what communication beside them costs is left out.
double kernels_of_step(const job::CheckedJob& job, const Pricing& pricing, const Workspace& w);

// How often a step of a rank runs each pass of one of its parts. Of a schedule that mixes whole and split
// backwards it needs w.order.
struct PassCounts {
  double forward = 0;
  double backward = 0;
  double input_gradient = 0;
  double weight_gradient = 0;
};
PassCounts counts_of(const job::CheckedJob& job, const Workspace& w, int rank, int part);

// A rank's whole step by streams and modules, and its passes' time without waiting. Needs w.parts and,
// for a schedule that mixes whole and split backwards, w.order.
struct RankTotal {
  PassTime sum;
  double duration = 0;
  double launch() const { return duration > sum.device() ? duration - sum.device() : 0; }
};
RankTotal total_of(const job::CheckedJob& job, const Workspace& w, int rank);

}  // namespace eratos::projection
