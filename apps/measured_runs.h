// Runs that were measured, read for `validate` and `calibrate`: rows of CSV files with the job that
// each of them is.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "apps/arguments.h"
#include "eratos/base/diagnostic.h"
#include "eratos/calibration/calibration.h"
#include "eratos/reader/truth.h"
#include "eratos/report/accuracy.h"

namespace eratos::apps {

// A row that is ready to be projected, and where its answer goes.
struct MeasuredRun {
  reader::Run run;
  std::size_t row = 0;
};

struct MeasuredRuns {
  std::vector<report::AccuracyRow> rows;  // one a line of the files; names and reasons, no answers
  std::vector<MeasuredRun> runs;          // those that can be projected
  std::map<std::string, calibration::Calibration> calibrations;  // by part

  const calibration::Calibration& calibration_of(const reader::Run& run) const {
    return calibrations.at(run.spec.cluster.accelerator.name);
  }
};

// The files of the words, architectures of --models, constants of --calibration. Errors: of all of
// them at once.
Result<MeasuredRuns> read_measured_runs(const Arguments& arguments);

// Speed in the unit of the figure that the row states: tokens/s/GPU, MFU or TFLOPS.
double projected_speed(const reader::Run& run, double tokens_per_s_per_gpu);
double measured_speed(const reader::Measured& measured);

// Calls what `worker` makes, once a thread, with each index below n; an exception of one thread is
// thrown here.
using Take = std::function<void(std::size_t)>;
void in_parallel(std::size_t n, const std::function<Take()>& worker);

}  // namespace eratos::apps
