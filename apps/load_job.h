// From JOB and the flags around it to a job that can be projected.
#pragma once

#include <memory>
#include <string>

#include "apps/arguments.h"
#include "eratos/base/diagnostic.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/import_report.h"
#include "eratos/reader/overlay.h"
#include "eratos/report/answer.h"

namespace eratos::apps {

// JOB as --cluster, --nodes, --set and --env change it; not checked yet.
Result<reader::JobRead> read_job_of(const Arguments& arguments);

// --calibration; without it, one that says nothing.
Result<reader::Overlay> overlay_of(const Arguments& arguments);

// Legal, on a cluster, with the calibration of its part. `checked` points into `read`, so a Job
// stays where it was made.
struct Job {
  reader::JobRead read;
  job::CheckedJob checked;
  calibration::Calibration calibration;
  projection::Options options;
  projection::WorkspacePtr workspace;

  Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
};

// Read and on a cluster; not yet checked.
Result<std::unique_ptr<Job>> prepare_job(const Arguments& arguments);
// Fills job.checked, or says why the job is not legal, with the places of the user's file (those
// that have none stand at `file`).
Diagnostics check_job(Job& job, const std::string& file);
// Both.
Result<std::unique_ptr<Job>> load_job(const Arguments& arguments);

struct Projected {
  std::unique_ptr<Job> job;
  projection::Projection projection;
};
Projected project_job(std::unique_ptr<Job> checked);
Result<Projected> project_job(const Arguments& arguments);

// What the reports take. Points into `p`.
report::Answer answer_of(const Projected& p);

// kDoesNotFit when --require-fit asks for it, else kAnswered.
int fit_code(const Arguments& arguments, bool fits);

}  // namespace eratos::apps
