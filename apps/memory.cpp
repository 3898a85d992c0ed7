// eratos memory JOB: the memory half of a projection: a line a stage, a line a module, the timeline
// of one stage, and every allocation of it as a snapshot for PyTorch's memory viewer.
#include <cstddef>
#include <string>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "eratos/projection/allocation_trace.h"
#include "eratos/report/compare.h"
#include "eratos/report/json.h"
#include "eratos/report/page.h"
#include "eratos/report/snapshot.h"
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

constexpr std::size_t kTopTensors = 8;

Result<projection::AllocationTrace> trace_of(const Projected& p, int rank) {
  const projection::Projection& answer = p.projection;
  if (answer.time.step.value <= 0) {
    // Why there is no step is among the warnings.
    const bool said = !answer.warnings.empty();
    return fault(
        {.message = "no step to trace" + (said ? ": " + answer.warnings.front().message : ""),
         .cure = "choose a job whose step can be simulated"});
  }
  projection::TraceOptions options;
  options.rank = rank;
  return projection::trace_allocations(p.job->checked, p.job->calibration, options,
                                       *p.job->workspace);
}

}  // namespace

int run_memory(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, kAnswerFormats);
  if (!format) return report_usage(format.error().front().message);
  const Result<Projected> projected = project_job(arguments);
  if (!projected) return report_faults(projected.error());
  const int rank =
      static_cast<int>(number_of(arguments, "--rank", projected->projection.memory.peak_stage));
  report::Answer answer = answer_of(*projected);
  const Result<projection::AllocationTrace> trace = trace_of(*projected, rank);
  const bool asked = arguments.has("--snapshot") || arguments.has("--rank");
  if (!trace && asked) return report_faults(trace.error());
  projection::MemoryTimeline timeline;
  if (trace) {
    timeline = {.rank = trace->rank,
                .expandable = projected->job->checked.spec->framework.memory.expandable_segments,
                .peak = trace->peak,
                .reserved = trace->reserved,
                .reserved_at_peak = trace->reserved_at_peak,
                .held_at_peak = trace->held_at_peak,
                .phases = trace->phases,
                .top = projection::top_at_peak(*trace, kTopTensors)};
    answer.timeline = &timeline;
  }
  if (arguments.has("--snapshot")) {
    const int code = write_named(arguments.value("--snapshot"),
                                 report::memory_snapshot(*trace, answer.version), arguments);
    if (code != kAnswered) return code;
  }
  const std::string text = render_memory(answer, *format, arguments);
  return deliver(text, arguments, fit_code(arguments, projected->projection.memory.fits));
}

}  // namespace eratos::apps
