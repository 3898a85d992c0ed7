// A configuration that a search found, projected for a report.
#pragma once

#include <memory>

#include "apps/load_job.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/report/answer.h"

namespace eratos::apps {

// What the reports point into; stays where it was made.
struct Shown {
  job::JobSpec spec;
  job::CheckedJob checked;
  projection::Projection projection;
  report::Answer answer;
};

// Null where it is not legal: then there is nothing to show.
std::unique_ptr<Shown> show(const Job& job, const job::JobSpec& spec);

}  // namespace eratos::apps
