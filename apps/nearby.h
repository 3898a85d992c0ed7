// What would make a job legal and fit, each tried: settings first, then more nodes.
#pragma once

#include <vector>

#include "apps/load_job.h"
#include "eratos/job/job.h"
#include "eratos/report/check.h"

namespace eratos::apps {

// Around `spec`, on the part and with the constants of `job`.
std::vector<report::Nearby> nearby(const Job& job, const job::JobSpec& spec);

}  // namespace eratos::apps
