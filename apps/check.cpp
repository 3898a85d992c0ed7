// eratos check JOB: is it legal, does it fit, and if not, what near it does.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/nearby.h"
#include "apps/output.h"
#include "eratos/report/check.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

// The faults go to standard error as for every command; what would be legal is the answer.
int deliver_illegal(const Job& job, const Diagnostics& faults, const Arguments& arguments,
                    Format format) {
  report_faults(faults);
  const std::vector<report::Nearby> near = nearby(job, job.read.job);
  return deliver(format == Format::json ? report::illegal_json(faults, near, std::string(kVersion))
                                        : report::illegal_text(near, style_of(arguments)),
                 arguments, kBadInput);
}

}  // namespace

int run_check(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  Result<std::unique_ptr<Job>> job = prepare_job(arguments);
  if (!job) return report_faults(job.error());
  const Diagnostics illegal = check_job(**job, arguments.words[0]);
  if (!illegal.empty()) return deliver_illegal(**job, illegal, arguments, *format);

  const Projected projected = project_job(*std::move(job));
  const bool fits = projected.projection.memory.fits;
  const std::vector<report::Nearby> near =
      fits ? std::vector<report::Nearby>{} : nearby(*projected.job, projected.job->read.job);
  const report::Answer answer = answer_of(projected);
  return deliver(*format == Format::json ? report::check_json(answer, near)
                                         : report::check_text(answer, near, style_of(arguments)),
                 arguments, fit_code(arguments, fits));
}

}  // namespace eratos::apps
