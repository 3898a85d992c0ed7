// Jobs that tests of measurements share.
#pragma once

#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"

namespace eratos {

struct SmallJob {
  job::JobSpec spec;
  job::CheckedJob checked;
  calibration::Calibration calibration;
  projection::WorkspacePtr w = projection::make_workspace();

  void check() {
    const Diagnostics faults = job::check(spec, checked);
    ASSERT_TRUE(faults.empty()) << to_text(faults.front());
    calibration = *reader::load_calibration(spec.cluster.accelerator.name);
  }
};

inline std::unique_ptr<SmallJob> small_job(const std::string& model, const std::string& cluster,
                                           job::BatchSpec batch, parallel::ParallelSpec parallel) {
  auto out = std::make_unique<SmallJob>();
  out->spec.name = model;
  out->spec.model = *reader::load_model(model);
  out->spec.framework = *reader::load_framework("megatron");
  out->spec.cluster = *reader::load_cluster(cluster);
  out->spec.batch = batch;
  out->spec.parallel = parallel;
  out->check();
  return out;
}

}  // namespace eratos
