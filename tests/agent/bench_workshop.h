// A workshop without files, whose device is another calibration: the truth that a session does not
// see. Searches run on the caller's thread.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eratos/agent/session.h"
#include "eratos/agent/workshop.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/job_patch.h"
#include "eratos/reader/set_value.h"
#include "eratos/search/evaluate.h"
#include "eratos/store/digest.h"

namespace eratos::agent {

// What is true of the machine.
struct Truth {
  calibration::Calibration calibration;
  framework::FrameworkProfile framework;
};

class BenchWorkshop final : public Workshop {
 public:
  explicit BenchWorkshop(const job::JobSpec& base, double margin = 0.0) {
    read_.job = base;
    read_.has_cluster = true;
    calibration_ = *reader::load_calibration(base.cluster.accelerator);
    options_.memory_margin = margin;
    truth_ = {calibration_, base.framework};
  }

  Result<TunedJobPtr> make(const Patch& patch) override {
    reader::JobRead read = read_;
    if (Result<void> done = reader::apply_sets(read, patch); !done) return faults(done.error());
    auto job = std::make_shared<TunedJob>();
    job->spec = read.job;
    Diagnostics bad = job::check(job->spec, job->checked);
    if (bad.empty()) bad = projection::schedule_faults(job->checked);
    if (!bad.empty()) return faults(std::move(bad));
    job->patch = patch_to(job->spec);
    const store::Digest d = store::digest_of(reader::job_text(job->spec));
    char text[40];
    std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(d.word[0]),
                  static_cast<unsigned long long>(d.word[1]));
    job->digest = text;
    return TunedJobPtr(job);
  }
  Patch patch_to(const job::JobSpec& spec) override {
    return reader::patch_between(read_.job, spec);
  }
  Patch patch_from(const job::JobSpec& spec) override {
    return reader::patch_between(spec, read_.job);
  }
  Result<search::Space> space_of(const std::vector<std::string>& words) override {
    return search::space_of(read_.job, words);
  }
  Result<search::Space> space_around(const job::JobSpec& spec,
                                     const std::vector<std::string>& words) override {
    return search::space_of(spec, words);
  }
  const calibration::Calibration& calibration() override { return calibration_; }
  const projection::Options& options() override { return options_; }
  search::Outcome search(const search::Space& space, const calibration::Calibration& calibration,
                         search::Method& method) override {
    search::Evaluator evaluator(space, calibration, options_);
    std::vector<search::Tell> tells;
    for (;;) {
      const std::span<const search::Ask> asks = method.ask();
      if (asks.empty()) return method.outcome();
      tells.clear();
      for (const search::Ask& ask : asks) tells.push_back(evaluator.answer(ask));
      method.tell(tells);
    }
  }
  std::string measures_with() override { return measures ? "the truth" : ""; }
  std::string why_not_measured() override { return "this bench has no device"; }
  Result<Measured> measure(const TunedJob& job) override {
    ++measurements;
    return true_of(job.spec);
  }
  std::string runs_with() override { return runs ? "the user" : ""; }
  Result<std::optional<Measured>> run(const TunedJob& job) override {
    if (!logged) return std::optional<Measured>{};
    return std::optional<Measured>(true_of(job.spec));
  }
  bool interrupted() override { return false; }
  Result<std::vector<WinnerFile>> winner_files(const TunedJob&) override {
    return std::vector<WinnerFile>{};
  }

  void set_truth(Truth truth) { truth_ = std::move(truth); }
  const Truth& truth() const { return truth_; }
  // What the device does with a job.
  Measured true_of(const job::JobSpec& job) {
    job::JobSpec real = job;
    real.framework = truth_.framework;
    auto checked = std::make_unique<job::CheckedJob>();
    if (!job::check(real, *checked).empty()) return {};
    const projection::Projection p =
        projection::project(*checked, truth_.calibration, {0.0}, *workspace_);
    Measured out;
    out.out_of_memory = !p.memory.fits;
    out.step_s = p.time.step.value;
    out.tokens_per_s_per_gpu = p.throughput.tokens_per_s_per_gpu;
    out.device_peak_bytes = p.memory.device_peak.value;
    out.source = "the truth";
    return out;
  }

  bool measures = true;
  bool runs = false;
  bool logged = false;  // the user has made the run
  int measurements = 0;

 private:
  reader::JobRead read_;
  calibration::Calibration calibration_;
  projection::Options options_;
  Truth truth_;
  projection::WorkspacePtr workspace_ = projection::make_workspace();
};

}  // namespace eratos::agent
