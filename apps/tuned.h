// eratos validate --tuned: measured rows as the device that `eratos tune` asks.
#pragma once

#include <vector>

#include "apps/measured_runs.h"
#include "eratos/projection/projection.h"
#include "eratos/report/accuracy.h"
#include "eratos/report/accuracy_tuned.h"

namespace eratos::apps {

// `rows` are measured.rows with answers.
std::vector<report::TunedGroup> tune_rows(const MeasuredRuns& measured,
                                          const projection::Options& options,
                                          const std::vector<report::AccuracyRow>& rows);

}  // namespace eratos::apps
