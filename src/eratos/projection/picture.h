// A step of the real job on the clock: every action of every rank, and inside one micro-batch every op.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/memory/memory.h"
#include "eratos/projection/projection.h"
#include "eratos/schedule/simulate.h"

namespace eratos::projection {

// One op of one action, or the step's own work after the last action.
struct OpSpan {
  std::string name;  // "mlp_in", "combine": module of the op; with the pass where it is not plain
  ops::Stream stream = ops::Stream::compute;
  Picoseconds start = 0;  // from the start of the step
  Picoseconds duration = 0;
  int micro_batch = -1;
};

struct RankPicture {
  std::vector<OpSpan> ops;
  std::int64_t base = 0;  // bytes of weights, gradients and optimizer state
};

// Owns all that schedule::simulate() was given and said.
struct StepPicture {
  std::string schedule;
  schedule::Order order;
  std::vector<schedule::ChunkCost> chunks;
  std::vector<schedule::LinkCost> links;
  std::vector<schedule::OutputCost> outputs;
  schedule::OutputLinks output_links;
  schedule::Sends sends = schedule::Sends::overlapped;
  std::vector<schedule::Interval> intervals;
  schedule::Timing timing;
  std::vector<RankPicture> ranks;

  schedule::Costs costs() const;
};

// Ops are drawn for micro-batch `micro_batch` (0-based; of each chunk), one after another in program
// order, stretched evenly to the action's length: contention and late launches are amounts, not places
// (docs/model/time.md). A collective lies on its stream beside the compute it hides behind.
// Errors: a schedule that cannot run; a micro-batch that the job does not have.
Result<StepPicture> picture(const job::CheckedJob& job, const calibration::Calibration& calibration,
                            int micro_batch, Workspace& w);

}  // namespace eratos::projection
