// eratos export JOB --to TARGET: the job as another program's file; what it cannot say is named.
#include <string>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/output.h"
#include "apps/winner.h"
#include "eratos/reader/export_job.h"

namespace eratos::apps {

int run_export_(const Arguments& arguments) {
  if (!arguments.has("--to")) {
    std::string known;
    for (const reader::ExportTarget& t : reader::export_targets()) {
      known += (known.empty() ? "" : ", ") + std::string(t.name);
    }
    return report_usage(fmt::format("`export` needs --to; known: {}", known));
  }
  const Result<reader::JobRead> read = read_job_of(arguments);
  if (!read) return report_faults(read.error());
  const Result<reader::Exported> written = reader::export_job(read->job, arguments.value("--to"));
  if (!written) {
    if (written.error().front().field == "--to") {
      const Diagnostic& d = written.error().front();
      return report_usage(d.message + "; " + d.cure);
    }
    return report_faults(written.error());
  }
  tell_unsaid(*written);
  return deliver(written->text, arguments, kAnswered);
}

}  // namespace eratos::apps
