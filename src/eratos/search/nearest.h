// Which configurations near a job are legal and fit?
//
// Breadth-first over single changes of one axis, then pairs of changes, from the job as it stands:
// degrees doubled and halved with dp following, micro-batch, recompute, sharding, chunks. A
// neighbour that check() refuses or that does not fit is dropped; the rest are ordered by how many
// changes they need, then by the lower bound of the step.
//
// Worked example: Mixtral 8x22B, pp 4, ep 8, micro-batch 2 on mi355x-8x8 does not fit; its
// neighbours with micro-batch 1 or full recomputation do.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"

namespace eratos::search {

struct Neighbour {
  job::JobSpec spec;
  std::string change;  // e.g. "batch.micro=1", "recompute.granularity=full, parallel.tp=2"
  int changes = 1;
  projection::Screen screen;
};

// At most `max` neighbours that are legal and fit, best first. Works for an illegal job as well:
// then the nearest legal ones. Errors: none; empty when two changes do not suffice.
std::vector<Neighbour> nearest_that_fit(const job::JobSpec& spec,
                                        const calibration::Calibration& calibration,
                                        const projection::Options& options, std::size_t max,
                                        projection::Workspace& w);

}  // namespace eratos::search
