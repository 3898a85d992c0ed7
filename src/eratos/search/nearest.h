// Which configurations near a job are legal and fit?
//
// Single changes of one setting, then pairs of them, then a third behind the pairs that come
// nearest: degrees that divide, smaller micro-batches, recomputation, sharding, the optimizer on
// the host, schedules and chunks, a batch that divides, stages that take what is left over; dp
// follows. A neighbour that check() refuses or that does not fit is dropped. Of those that change
// the same settings the one with fewest changes stays, then the fastest by its lower bound; fewer
// changes come first, then the lower bound. More nodes come last: of the larger clusters that are
// offered the first on which the job, or it with one or two changes, fits.
//
// Worked example: Mixtral 8x22B, pp 4, ep 8, micro-batch 2 on mi355x-8x8 does not fit; its
// neighbours with micro-batch 1 or full recomputation do.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"

namespace eratos::search {

struct Neighbour {
  job::JobSpec spec;
  // e.g. "batch.micro=1", "recompute.granularity=full, parallel.tp=2", "--nodes 4"
  std::string change;
  int changes = 1;
  projection::Screen screen;
};

// At most `max` neighbours that are legal and fit, best first. Works for an illegal job as well:
// then the nearest legal ones. `larger`: the same cluster with more nodes, fewest first. `offload`:
// the framework can keep the optimizer on the host. Errors: none; empty when three changes do not
// suffice on any of them.
std::vector<Neighbour> nearest_that_fit(const job::JobSpec& spec,
                                        const calibration::Calibration& calibration,
                                        const projection::Options& options, std::size_t max,
                                        projection::Workspace& w,
                                        std::span<const hardware::ClusterSpec> larger = {},
                                        bool offload = true);

}  // namespace eratos::search
