#include "eratos/reader/default_job.h"

#include <algorithm>
#include <utility>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/job_yaml.h"

namespace eratos::reader {

Result<JobRead> default_job(model::Architecture model, const std::string& name,
                            const std::string& format) {
  auto profile = load_framework(kDefaultFramework);
  if (!profile) return faults(profile.error());
  JobRead out;
  job::JobSpec& job = out.job;
  job.name = name;
  job.model = std::move(model);
  job.framework = std::move(*profile);
  job.cluster = {};
  job.batch = {.micro = 1, .global = kDefaultGlobalBatch, .sequence = kDefaultSequence};
  if (job.model.position == layer::Position::learned && job.model.max_positions > 0) {
    job.batch.sequence = std::min(job.batch.sequence, static_cast<int>(job.model.max_positions));
  }
  job.parallel.sharding = parallel::Sharding::zero1;
  job.optimizer.main_gradient = job.framework.state.gradient;
  job.gradient_reduce_bf16 = !job.framework.state.gradient_reduce_fp32;
  job.loss_fused = job.framework.loss.fused_by_default;
  out.report.format = format;
  for_each_value(job_to_node(job), "", [&](const std::string& path, const text::Node& value) {
    if (path == "model" || path.rfind("model.", 0) == 0) return;
    out.report.provenance[path] = {.value = shown(value),
                                   .origin = Origin::framework_default,
                                   .rule = "a model alone says nothing of it"};
  });
  out.report.warnings.push_back(
      {.code = "defaults",
       .message = "only the model is given: what --set does not say (batch, degrees, precision, "
                  "sharding, framework) is a default"});
  return out;
}

}  // namespace eratos::reader
