// Nothing is legal: which rule stands in the way, and from which job do cures start?
//
// Worked example: `gbs=7 tp=1 pp=1 cp=1` on 8 accelerators: sequence parallelism at tp 1 and chunks
// without a pipeline refuse more candidates than the batch does, but without them nothing would be
// legal either; without `global-batch` something would.
#pragma once

#include <vector>

#include "eratos/job/job.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"

namespace eratos::search {

// Those of which each alone decides: without it the space has a legal candidate. Empty where
// several rules contradict the space at once, or something is legal.
std::vector<const Rule*> deciding_rules(const Space& space);

// The job with what the user pinned: its own value on an axis that has it, else the axis's first.
job::JobSpec pinned_job(const Space& space);

}  // namespace eratos::search
