// One candidate of a search: does it fit, and how long is its step, from below or exactly?
//
// Both calls answer what project() does, without the rest of its answer. They are given a Pricing that
// was made once for the search: candidates share part, cluster, framework and calibration. The times of
// programs that several candidates have are worked out once (workspace.h).
//
// The bound is the projection's own sum with three things left open: the order of the pipeline, whose
// makespan is taken from below (schedule/bounds.h); which rank ends the step; and the overlap switches.
// It holds for every job whose switches are this one's or off, since hiding less is never faster.
// Worked example: 1F1B over equal stages has a closed form, so the bound of a dense job at tp 1 is the
// step itself where every rank reduces as much as the last.
#pragma once

#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/time.h"

namespace eratos::projection {

// screen() with the closer bound, and 0 for a job that does not fit. An order that looks at times holds
// other bytes under other switches: a job that has one fits, as far as this can say, and holds nothing.
// Allocation: none when `w` is warm and `pricing` another candidate's.
Screen screen_closely(const job::CheckedJob& job, const calibration::Calibration& calibration,
                      Pricing& pricing, const Options& options, Workspace& w);

struct Simulated {
  bool fits = false;
  Bytes device_peak;
  Bytes least_peak;
  // project()'s, bit for bit; 0 for a job that does not fit.
  Seconds step;
  Seconds busy;
};
Simulated simulate(const job::CheckedJob& job, Pricing& pricing, const Options& options,
                   Workspace& w);

// Seconds that one micro-batch takes of all pipeline ranks together, from below, whatever the pipeline,
// its schedule, the sharding and the overlap switches (as above) are: the job's own, which has neither
// pipeline nor sharding. 0, which always holds, where nothing better is known.
// Worked example: 60 layers of 10 ms forward and 20 ms backward: 1.8 s, so that a step of 16 micro-batches
// on pp 4 is no shorter than 7.2 s.
struct LeastWork {
  Seconds all;
  Seconds kernels;  // of it, as TimeAnswer::busy counts them
};
LeastWork least_work(const job::CheckedJob& job, Pricing& pricing, Workspace& w);

}  // namespace eratos::projection
