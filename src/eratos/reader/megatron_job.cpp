#include "eratos/reader/megatron_job.h"

#include <map>
#include <string>
#include <utility>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/job_yaml.h"

namespace eratos::reader {

Result<JobRead> job_from_megatron(const text::Node& tree, const MegatronSource& source) {
  Diagnostics bad;
  JobRead out;
  out.report.format = source.format;
  out.report.resolved = tree;
  job::JobSpec& job = out.job;
  job.name = source.name;
  job.cluster = {};
  auto profile = load_framework(source.framework);
  if (!profile) return faults(profile.error());
  job.framework = std::move(*profile);

  MegatronKeys keys(out.report.resolved, source.preset_root, out.report, bad);
  read_megatron_model(keys, job);
  read_megatron_parallel(keys, job);
  read_megatron_training(keys, job);
  if (!source.complete) report_unused(keys, out.report, bad);
  if (!bad.empty()) return faults(std::move(bad));
  job.model.name = source.model.empty() ? source.name : source.model;

  // Values as the normalised job writes them; what no key decided is the framework's default, what
  // is not written (the width of dense layers that are not there) needs no origin.
  auto& provenance = out.report.provenance;
  provenance["name"] = {.where = source.name_at, .rule = "the experiment's name"};
  provenance["model.name"] = {.where = source.model_at, .rule = "the model preset's name"};
  std::map<std::string, Provenance> written;
  for_each_value(job_to_node(job, {.model = true}), "",
                 [&](const std::string& path, const text::Node& value) {
                   const auto noted = provenance.find(path);
                   Provenance from;
                   if (noted != provenance.end()) {
                     from = noted->second;
                   } else {
                     from.origin = Origin::framework_default;
                     from.rule = job.framework.name + "@" + job.framework.generation;
                   }
                   if (path == "framework" || path == "framework.profile") {
                     from = {.origin = Origin::derived, .rule = "the profile of " + source.format};
                   } else if (path == "cluster" || path == "lora") {
                     from.rule = "not in the file";
                   }
                   from.value = shown(value);
                   written[path] = std::move(from);
                 });
  provenance = std::move(written);
  return out;
}

}  // namespace eratos::reader
