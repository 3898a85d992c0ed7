// eratos project JOB: does it fit, how fast is it, where does the step go.
#include "apps/commands.h"
#include "apps/load_job.h"
#include "apps/output.h"
#include "eratos/report/json.h"
#include "eratos/report/text.h"

namespace eratos::apps {

int run_project(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  const Result<Projected> projected = project_job(arguments);
  if (!projected) return report_faults(projected.error());
  const report::Answer answer = answer_of(*projected);
  const std::string text = *format == Format::json
                               ? report::project_json(answer)
                               : report::project_text(answer, style_of(arguments));
  return deliver(text, arguments, fit_code(arguments, projected->projection.memory.fits));
}

}  // namespace eratos::apps
