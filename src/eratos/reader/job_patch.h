// What separates two jobs, as --set takes it.
//
// Worked example: from tp 8 and micro-batch 1 to tp 4 and micro-batch 2 is {"batch.micro=2",
// "parallel.etp=1", "parallel.tp=4"}: expert tensor parallelism, which would follow tp, is said.
#pragma once

#include <string>
#include <vector>

#include "eratos/job/job.h"

namespace eratos::reader {

// Sorted by key; apply_sets() of it on a job that is written like `from` gives one that is written
// like `to`. Names, models and clusters are left alone.
std::vector<std::string> patch_between(const job::JobSpec& from, const job::JobSpec& to);

// The written job but for its name, all of it, on one line: equal jobs have equal texts.
std::string job_text(const job::JobSpec& job);

}  // namespace eratos::reader
