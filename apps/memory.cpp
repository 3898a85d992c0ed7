// eratos memory JOB: the memory half of a projection, a line a stage and a line a module.
#include <string>

#include "apps/commands.h"
#include "apps/load_job.h"
#include "apps/output.h"
#include "eratos/report/compare.h"
#include "eratos/report/json.h"
#include "eratos/report/page.h"
#include "eratos/report/text.h"

namespace eratos::apps {

namespace {

std::string render_memory(const report::Answer& answer, Format format, const Arguments& arguments) {
  switch (format) {
    case Format::text:
      return report::memory_text(answer, style_of(arguments));
    case Format::json:
      return report::memory_json(answer);
    case Format::csv:
      return report::memory_csv(answer);
    case Format::markdown:
      return report::page_markdown(report::memory_page(answer));
    case Format::html:
      return report::page_html(report::memory_page(answer));
  }
  return "";
}

}  // namespace

int run_memory(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, kAnswerFormats);
  if (!format) return report_usage(format.error().front().message);
  const Result<Projected> projected = project_job(arguments);
  if (!projected) return report_faults(projected.error());
  const report::Answer answer = answer_of(*projected);
  const std::string text = render_memory(answer, *format, arguments);
  return deliver(text, arguments, fit_code(arguments, projected->projection.memory.fits));
}

}  // namespace eratos::apps
