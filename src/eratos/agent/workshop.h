// What a tuning session asks of the world outside the core: files are read, devices measured and
// frameworks' files written by whoever implements this (apps/, or a test).
//
// A session never sees a file or a clock; it hands out patches and takes back jobs and figures.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/agent/trial.h"
#include "eratos/base/diagnostic.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/search/method.h"
#include "eratos/search/space.h"

namespace eratos::agent {

// A legal job. Stays where it was made: `checked` points into it.
struct TunedJob {
  job::JobSpec spec;
  job::CheckedJob checked;
  Patch patch;         // against the base job, sorted, without what changes nothing
  std::string digest;  // of the normalised job

  TunedJob() = default;
  TunedJob(const TunedJob&) = delete;
  TunedJob& operator=(const TunedJob&) = delete;
};
using TunedJobPtr = std::shared_ptr<const TunedJob>;

// A file of the winner's.
struct WinnerFile {
  std::string name;  // "winner.yaml"
  std::string text;
  std::vector<std::string> unsaid;  // what the file cannot hold, a line each
};

class Workshop {
 public:
  virtual ~Workshop() = default;

  // The base job with the patch, through the reader and check(). Errors: every fault at once.
  virtual Result<TunedJobPtr> make(const Patch& patch) = 0;
  // The patch that makes the base job into `spec`.
  virtual Patch patch_to(const job::JobSpec& spec) = 0;
  // And back: the patch that makes `spec` into the base job.
  virtual Patch patch_from(const job::JobSpec& spec) = 0;
  // Axes as `eratos search --axes` takes them; "rest=job" pins the others.
  virtual Result<search::Space> space_of(const std::vector<std::string>& words) = 0;
  // The same around another job than the base.
  virtual Result<search::Space> space_around(const job::JobSpec& spec,
                                             const std::vector<std::string>& words) = 0;

  virtual const calibration::Calibration& calibration() = 0;
  virtual const projection::Options& options() = 0;
  // The best of a space by the model, proven unless the user ended it. `space.base` has the
  // profile, `calibration` the part's numbers.
  virtual search::Outcome search(const search::Space& space,
                                 const calibration::Calibration& calibration,
                                 search::Method& method) = 0;

  // On a device; "" where it cannot, with why_not_measured() saying so.
  virtual std::string measures_with() = 0;
  virtual std::string why_not_measured() = 0;
  // Errors: the measurement itself failed (which is no verdict on the job).
  virtual Result<Measured> measure(const TunedJob& job) = 0;

  // A real run, made by the user; "" where none is offered. Nothing where its log is not there yet:
  // what is to be done has been said, and the session goes on when it is resumed.
  virtual std::string runs_with() = 0;
  virtual Result<std::optional<Measured>> run(const TunedJob& job) = 0;

  // Has the user asked to end?
  virtual bool interrupted() = 0;

  virtual Result<std::vector<WinnerFile>> winner_files(const TunedJob& job) = 0;
};

}  // namespace eratos::agent
