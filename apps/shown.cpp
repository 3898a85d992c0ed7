#include "apps/shown.h"

#include <string>

#include "eratos/reader/job_yaml.h"
#include "eratos/version.h"

namespace eratos::apps {

std::unique_ptr<Shown> show(const Job& job, const job::JobSpec& spec) {
  auto out = std::make_unique<Shown>();
  out->spec = spec;
  if (!job::check(out->spec, out->checked).empty()) return nullptr;
  if (!projection::schedule_faults(out->checked).empty()) return nullptr;
  out->projection = projection::project(out->checked, job.calibration, job.options, *job.workspace);
  out->answer = {.spec = &out->spec,
                 .checked = &out->checked,
                 .projection = &out->projection,
                 .job = reader::job_to_node(out->spec),
                 .version = std::string(kVersion)};
  return out;
}

}  // namespace eratos::apps
