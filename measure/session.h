// A whole measurement: every group of the plan in its order, within the budget, kept as it goes.
#pragma once

#include "options.h"
#include "plan.h"
#include "work.h"

namespace eratos::device {

// Measures what the journal of an earlier run lacks, writes the file, says on standard error what
// was left out. Returns kAnswered, kInterrupted, or kEnvironment where a result was wrong. Errors:
// Fault.
int measure(const Options& options, const Plan& plan, Device& device, int ranks);

}  // namespace eratos::device
