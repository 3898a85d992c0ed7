// eratos memory JOB: the memory half of a projection, a line a stage and a line a module.
#include "apps/commands.h"
#include "apps/load_job.h"
#include "apps/output.h"
#include "eratos/report/json.h"
#include "eratos/report/text.h"

namespace eratos::apps {

int run_memory(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json");
  if (!format) return report_usage(format.error().front().message);
  const Result<Projected> projected = project_job(arguments);
  if (!projected) return report_faults(projected.error());
  const report::Answer answer = answer_of(*projected);
  const std::string text = *format == Format::json
                               ? report::memory_json(answer)
                               : report::memory_text(answer, style_of(arguments));
  return deliver(text, arguments, fit_code(arguments, projected->projection.memory.fits));
}

}  // namespace eratos::apps
