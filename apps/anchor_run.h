// The run that --anchor names: its job and what was measured of it (apps/anchor.h has the words).
#pragma once

#include <string>
#include <vector>

#include "apps/arguments.h"
#include "apps/load_job.h"
#include "eratos/base/diagnostic.h"
#include "eratos/job/job.h"
#include "eratos/reader/truth.h"

namespace eratos::apps {

struct AnchorRun {
  job::JobSpec spec;          // legal
  reader::Measured measured;  // step_time_s in tokens_per_s_per_gpu, as rows have it
  std::vector<std::string> notes;
};

// `target` is JOB, checked. Errors: every fault of the words, the row or the run's job, at
// "--anchor RUN" or the row's line.
Result<AnchorRun> read_anchor_run(const Arguments& arguments, const Job& target);

}  // namespace eratos::apps
