#include "apps/load_job.h"

#include <utility>
#include <vector>

#include <unistd.h>

#include "apps/exit_code.h"
#include "apps/numbers.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/environment.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/read_job.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

reader::Environment environment_of(const Arguments& arguments) {
  reader::Environment env;
  const auto add = [&](const std::string& pair) {
    const std::size_t equals = pair.find('=');
    if (equals != std::string::npos) env[pair.substr(0, equals)] = pair.substr(equals + 1);
  };
  if (arguments.has("--env-from-process")) {
    for (char** at = environ; *at != nullptr; ++at) add(*at);
  }
  for (const std::string& pair : arguments.values("--env")) add(pair);
  return env;
}

// What was measured of the job's part, with the numbers of --calibration in it and in the profile.
Result<void> calibrate(const Arguments& arguments, Job& job) {
  job::JobSpec& spec = job.read.job;
  const Result<reader::Overlay> overlay = overlay_of(arguments);
  if (!overlay) return faults(overlay.error());
  auto calibration = reader::load_calibration(spec.cluster.accelerator, &*overlay);
  if (!calibration) return faults(calibration.error());
  job.calibration = *std::move(calibration);
  if (overlay->file.empty()) return {};
  auto profile = reader::with_overlay(spec.framework, *overlay);
  if (!profile) return faults(profile.error());
  spec.framework = *std::move(profile);
  if (reader::speaks_of(*overlay, spec)) {
    job.calibration.name += ", " + overlay->name();
    return {};
  }
  const std::string name = spec.framework.name + "@" + spec.framework.generation;
  job.read.report.warnings.push_back(
      {"calibration-unused",
       overlay->file + " says nothing of " + spec.cluster.accelerator.name + " or " + name,
       {overlay->file}});
  return {};
}

}  // namespace

Result<reader::Overlay> overlay_of(const Arguments& arguments) {
  const std::string file = arguments.value("--calibration");
  return file.empty() ? reader::Overlay{} : reader::read_overlay(file);
}

Result<reader::JobRead> read_job_of(const Arguments& arguments) {
  reader::ReadOptions options;
  options.environment = environment_of(arguments);
  if (const std::string name = arguments.value("--schedule"); name != "all") options.schedule = name;
  for (const std::string& set : arguments.values("--set")) options.sets.push_back(set);
  options.cluster = arguments.value("--cluster");
  options.nodes = static_cast<int>(number_of(arguments, "--nodes", 0));
  return reader::read_job(arguments.words[0], options);
}

Result<std::unique_ptr<Job>> prepare_job(const Arguments& arguments) {
  Result<reader::JobRead> read = read_job_of(arguments);
  if (!read) return faults(read.error());
  if (!read->has_cluster) {
    const int had = read->follows.accelerators;
    return fault(
        {{arguments.words[0]},
         "the job names no cluster",
         had > 0 ? "its run had " + std::to_string(had) +
                       " accelerators: add --cluster PART-NxM with N x M = " + std::to_string(had)
                 : "add --cluster, e.g. --cluster h100-sxm-4x8 (4 nodes of 8)",
         "cluster"});
  }
  auto job = std::make_unique<Job>();
  job->read = *std::move(read);
  job->options = options_of(arguments);
  const Result<void> calibrated = calibrate(arguments, *job);
  if (!calibrated) return faults(calibrated.error());
  job->workspace = projection::make_workspace();
  return job;
}

Diagnostics check_job(Job& job, const std::string& file) {
  Diagnostics illegal = job::check(job.read.job, job.checked);
  if (illegal.empty()) illegal = projection::schedule_faults(job.checked);
  reader::locate(illegal, job.read.report);
  for (Diagnostic& d : illegal) {
    if (d.where.file.empty()) d.where.file = file;
  }
  return illegal;
}

Result<std::unique_ptr<Job>> load_job(const Arguments& arguments) {
  Result<std::unique_ptr<Job>> job = prepare_job(arguments);
  if (!job) return job;
  Diagnostics illegal = check_job(**job, arguments.words[0]);
  if (!illegal.empty()) return faults(std::move(illegal));
  return job;
}

Projected project_job(std::unique_ptr<Job> job) {
  Projected out;
  out.job = std::move(job);
  out.projection = projection::project(out.job->checked, out.job->calibration, out.job->options,
                                       *out.job->workspace);
  return out;
}

Result<Projected> project_job(const Arguments& arguments) {
  Result<std::unique_ptr<Job>> job = load_job(arguments);
  if (!job) return faults(job.error());
  Projected out = project_job(*std::move(job));
  // No step was found: the reason is a fault of the job, and zeros are no answer.
  if (out.projection.time.stage_forward.empty() && !out.projection.warnings.empty()) {
    return fault({.where = {.file = arguments.words[0]},
                  .message = out.projection.warnings.front().message});
  }
  return out;
}

report::Answer answer_of(const Projected& p) {
  report::Answer answer;
  answer.spec = &p.job->read.job;
  answer.checked = &p.job->checked;
  answer.projection = &p.projection;
  answer.job = reader::job_to_node(p.job->read.job);
  answer.version = std::string(kVersion);
  answer.defaults = p.job->read.report.defaults().size();
  for (const reader::Warning& w : p.job->read.report.warnings) {
    answer.reader_warnings.push_back({w.code, w.message});
  }
  return answer;
}

int fit_code(const Arguments& arguments, bool fits) {
  return !fits && arguments.has("--require-fit") ? kDoesNotFit : kAnswered;
}

}  // namespace eratos::apps
