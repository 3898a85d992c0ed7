// What `eratos measure JOB --plan` prints, and what a device program is handed.
#pragma once

#include "apps/arguments.h"
#include "eratos/base/diagnostic.h"
#include "eratos/projection/plan.h"

namespace eratos::apps {

// The plan of JOB for the devices of --ranks (1) and --device-memory (the job's own part's).
// Errors: as load_job(); a --device-memory that is no number of bytes.
Result<projection::Plan> plan_of(const Arguments& arguments);

// Prints it: --format text, json or plan (the lines that eratos-device reads). Needs no device.
int print_plan(const Arguments& arguments);

}  // namespace eratos::apps
