// The workshop of `eratos tune`: patches go through the reader, searches over all threads, files
// through the writers, measurements to the user's command.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/interrupt.h"
#include "apps/load_job.h"
#include "apps/measure_command.h"
#include "eratos/agent/workshop.h"
#include "eratos/search/objective.h"

namespace eratos::apps {

class TuneWorkshop : public agent::Workshop {
 public:
  struct Settings {
    int threads = 0;
    std::string measure_command;  // "": no device
    std::string folder;           // measurements and runs go below it
    bool runs = false;            // the user makes real runs
    int benchmark_gpus = 0;       // of a target file
    std::string benchmark_arch;
  };
  // `job` stays where it is.
  TuneWorkshop(const Job& job, Settings settings);

  Result<agent::TunedJobPtr> make(const agent::Patch& patch) override;
  agent::Patch patch_to(const job::JobSpec& spec) override;
  agent::Patch patch_from(const job::JobSpec& spec) override;
  Result<search::Space> space_of(const std::vector<std::string>& words) override;
  Result<search::Space> space_around(const job::JobSpec& spec,
                                     const std::vector<std::string>& words) override;
  const calibration::Calibration& calibration() override { return job_.calibration; }
  const projection::Options& options() override { return job_.options; }
  search::Outcome search(const search::Space& space, const calibration::Calibration& calibration,
                         search::Method& method) override;
  std::string measures_with() override;
  std::string why_not_measured() override;
  Result<agent::Measured> measure(const agent::TunedJob& job) override;
  std::string runs_with() override;
  Result<std::optional<agent::Measured>> run(const agent::TunedJob& job) override;
  // What --force replaces: another command, or a device that was mended, must not be answered from
  // what an earlier one printed. The logs in runs/ are the user's and stay.
  void forget_measurements();
  bool interrupted() override { return apps::interrupted(); }
  Result<std::vector<agent::WinnerFile>> winner_files(const agent::TunedJob& job) override;

 private:
  MeasureRequest request_of(const agent::TunedJob& job, const char* folder) const;

  const Job& job_;
  Settings settings_;
  std::string awaited_;  // log of the run that was asked for last
  Interruptible guard_;  // Ctrl-C ends the run with the best so far
};

// 32 hexadecimal digits of a job's written form.
std::string digest_text(const job::JobSpec& spec);

}  // namespace eratos::apps
