// The step of one job many times over, for fits.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "eratos/projection/projection.h"

namespace eratos::projection {

// The step of one job with several settings of its constants: lowered again only where a setting
// changes what the programs say. `set(i)` changes the job's profile or `calibration` for out[i] and
// says so by true: the loss's traffic and shares of overlap stand in the programs, costs of the host
// and rates do not. 0 where the schedule refuses.
void project_steps(const job::CheckedJob& job, const calibration::Calibration& calibration,
                   const std::function<bool(std::size_t)>& set, Workspace& w,
                   std::span<Seconds> out);

}  // namespace eratos::projection
