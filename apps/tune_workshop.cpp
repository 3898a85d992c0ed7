#include "apps/tune_workshop.h"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "apps/run_log.h"
#include "apps/search_run.h"
#include "eratos/reader/export_job.h"
#include "eratos/reader/job_patch.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/sayable.h"
#include "eratos/reader/set_value.h"
#include "eratos/search/legality.h"
#include "eratos/store/digest.h"
#include "eratos/text/dump.h"
#include "eratos/text/file.h"

namespace eratos::apps {

namespace {

constexpr std::size_t kMostLog = 256'000'000;
constexpr const char* kMeasurements = "measurements";

}  // namespace

std::string digest_text(const job::JobSpec& spec) {
  const store::Digest d = store::digest_of(reader::job_text(spec));
  return fmt::format("{:016x}{:016x}", d.word[0], d.word[1]);
}

TuneWorkshop::TuneWorkshop(const Job& job, Settings settings)
    : job_(job), settings_(std::move(settings)) {}

Result<agent::TunedJobPtr> TuneWorkshop::make(const agent::Patch& patch) {
  reader::JobRead read = job_.read;
  if (const Result<void> done = reader::apply_sets(read, patch); !done) {
    return faults(done.error());
  }
  auto job = std::make_shared<agent::TunedJob>();
  job->spec = std::move(read.job);
  Diagnostics bad = job::check(job->spec, job->checked);
  if (bad.empty()) bad = projection::schedule_faults(job->checked);
  if (!bad.empty()) return faults(std::move(bad));
  job->patch = patch_to(job->spec);
  job->digest = digest_text(job->spec);
  return agent::TunedJobPtr(std::move(job));
}

agent::Patch TuneWorkshop::patch_to(const job::JobSpec& spec) {
  return reader::patch_between(job_.read.job, spec);
}

agent::Patch TuneWorkshop::patch_from(const job::JobSpec& spec) {
  return reader::patch_between(spec, job_.read.job);
}

Result<search::Space> TuneWorkshop::space_of(const std::vector<std::string>& words) {
  return space_around(job_.read.job, words);
}

Result<search::Space> TuneWorkshop::space_around(const job::JobSpec& spec,
                                                 const std::vector<std::string>& words) {
  Result<search::Space> space = search::space_of(spec, words);
  if (!space) return space;
  reader::keep_sayable(*space);
  return space;
}

search::Outcome TuneWorkshop::search(const search::Space& space,
                                     const calibration::Calibration& calibration,
                                     search::Method& method) {
  const search::Aim aim;
  run_method(method, {space, calibration, job_.options, aim, settings_.threads});
  return method.outcome();
}

std::string TuneWorkshop::measures_with() { return settings_.measure_command; }

std::string TuneWorkshop::why_not_measured() {
  return "nothing measures here: name a program with --measure-command";
}

MeasureRequest TuneWorkshop::request_of(const agent::TunedJob& job, const char* folder) const {
  MeasureRequest request;
  request.command = settings_.measure_command;
  request.folder = (std::filesystem::path(settings_.folder) / folder).string();
  request.digest = job.digest;
  request.job = text::to_yaml(reader::job_to_node(job.spec));
  if (const std::string_view target = reader::target_of(job.spec.framework); !target.empty()) {
    if (const auto written = reader::export_job(job.spec, target)) request.config = written->text;
  }
  request.tokens_per_step = static_cast<double>(job.spec.batch.global) * job.spec.batch.sequence;
  request.gpus = job.spec.cluster.gpus();
  request.benchmark_gpus = settings_.benchmark_gpus;
  request.benchmark_arch = settings_.benchmark_arch;
  return request;
}

void TuneWorkshop::forget_measurements() {
  std::error_code failed;
  std::filesystem::remove_all(std::filesystem::path(settings_.folder) / kMeasurements, failed);
}

Result<agent::Measured> TuneWorkshop::measure(const agent::TunedJob& job) {
  return measure_by_command(request_of(job, kMeasurements), [this] { return interrupted(); });
}

std::string TuneWorkshop::runs_with() {
  return !settings_.runs    ? ""
         : awaited_.empty() ? "you"
                            : "put its log at " + awaited_ + ", then --resume";
}

Result<std::optional<agent::Measured>> TuneWorkshop::run(const agent::TunedJob& job) {
  const MeasureRequest request = request_of(job, "runs");
  const std::string stem = (std::filesystem::path(request.folder) / job.digest).string();
  const std::string log = stem + ".log";
  std::error_code failed;
  std::filesystem::create_directories(request.folder, failed);
  if (!std::filesystem::exists(log, failed)) {
    const std::string file = request.config.empty() ? stem + ".yaml" : stem + ".config";
    const Result<void> written = text::write_file(
        file, request.config.empty() ? request.job : request.config, text::Overwrite::yes);
    if (!written) return faults(written.error());
    awaited_ = log;
    std::fprintf(stderr, "run the job of %s on %d accelerators and put its log at %s\n",
                 file.c_str(), request.gpus, log.c_str());
    return std::optional<agent::Measured>{};
  }
  const Result<std::string> read = text::read_file(log, kMostLog);
  if (!read) return faults(read.error());
  Result<agent::Measured> measured = measured_from_log(*read, request);
  if (!measured) {
    Diagnostics bad = measured.error();
    for (Diagnostic& d : bad) d.where.file = log;
    return faults(std::move(bad));
  }
  measured->source = "log of a run";
  return std::optional<agent::Measured>(*std::move(measured));
}

Result<std::vector<agent::WinnerFile>> TuneWorkshop::winner_files(const agent::TunedJob& job) {
  std::vector<agent::WinnerFile> out;
  out.push_back({"winner.yaml", text::to_yaml(reader::job_to_node(job.spec)), {}});
  const std::string target(reader::target_of(job.spec.framework));
  if (target.empty()) return out;
  const Result<reader::Exported> written = reader::export_job(job.spec, target);
  if (!written) {  // the answer stands without it: winner.yaml says the job
    for (const Diagnostic& d : written.error()) {
      out.front().unsaid.push_back(
          fmt::format("no file of {} can say the winner: {}", target, to_text(d)));
    }
    return out;
  }
  agent::WinnerFile file{
      "winner." + target + (target == "torchtitan" ? ".toml" : ".yaml"), written->text, {}};
  for (const reader::Unsaid& u : written->unsaid) {
    file.unsaid.push_back(fmt::format("`{}: {}` cannot be said there{}", u.path, u.value,
                                      u.read.empty() ? "" : "; it is read as " + u.read));
  }
  out.push_back(std::move(file));
  return out;
}

}  // namespace eratos::apps
