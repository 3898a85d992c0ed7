// eratos project JOB: does it fit, how fast is it, where does the step go.
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

std::string render_project(const report::Answer& answer, Format format,
                           const Arguments& arguments) {
  switch (format) {
    case Format::text:
      return report::project_text(answer, style_of(arguments));
    case Format::json:
      return report::project_json(answer);
    case Format::csv:
      return report::answers_csv({{"", answer, {}}});
    case Format::markdown:
      return report::page_markdown(report::project_page(answer));
    case Format::html:
      return report::page_html(report::project_page(answer));
  }
  return "";
}

}  // namespace

int run_project(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, kAnswerFormats);
  if (!format) return report_usage(format.error().front().message);
  const Result<Projected> projected = project_job(arguments);
  if (!projected) return report_faults(projected.error());
  const report::Answer answer = answer_of(*projected);
  const std::string text = render_project(answer, *format, arguments);
  return deliver(text, arguments, fit_code(arguments, projected->projection.memory.fits));
}

}  // namespace eratos::apps
