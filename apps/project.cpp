// eratos project JOB: does it fit, how fast is it, where does the step go.
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "apps/anchor.h"
#include "apps/commands.h"
#include "apps/compare.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "apps/pictures.h"
#include "eratos/projection/hybrid.h"
#include "eratos/projection/picture.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/measured.h"
#include "eratos/report/anchor.h"
#include "eratos/report/compare.h"
#include "eratos/report/json.h"
#include "eratos/report/page.h"
#include "eratos/report/quantity.h"
#include "eratos/report/text.h"
#include "eratos/report/timeline.h"
#include "eratos/version.h"

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

report::Stream stream_of(ops::Stream s) {
  switch (s) {
    case ops::Stream::tp:
      return report::Stream::tp;
    case ops::Stream::cp:
      return report::Stream::cp;
    case ops::Stream::ep:
      return report::Stream::ep;
    case ops::Stream::dp:
    case ops::Stream::host:
      return report::Stream::dp;
    case ops::Stream::pp:
      return report::Stream::p2p;
    case ops::Stream::compute:
      break;
  }
  return report::Stream::compute;
}

// The step of a projected job; `p` and `picture` outlive it.
report::Timeline timeline_of(const Projected& p, const projection::StepPicture& picture) {
  report::Timeline t;
  t.order = &picture.order;
  t.costs = picture.costs();
  t.intervals = picture.intervals;
  const job::CheckedJob& job = p.job->checked;
  t.title =
      fmt::format("{} on {}, {}: {} ranks, {} micro-batches", job.spec->name,
                  job.spec->cluster.name, picture.schedule, job.parallel.pp, job.micro_batches);
  const projection::TimeAnswer& time = p.projection.time;
  t.facts.push_back(fmt::format("step {:.4g} s", time.step.value));
  t.facts.push_back("bubble " + report::percent(time.bubble_ratio()));
  t.facts.push_back(fmt::format("peak {:.1f} GiB of {:.1f}",
                                p.projection.memory.device_peak.value / kGiB,
                                p.projection.memory.capacity.value / kGiB));
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    const projection::RankPicture& r = picture.ranks[static_cast<std::size_t>(rank)];
    report::RankLabel& label = t.ranks.emplace_back();
    label.base = r.base;
    label.capacity = static_cast<std::int64_t>(p.projection.memory.capacity.value);
    for (const projection::OpSpan& op : r.ops) {
      label.spans.push_back({op.name, stream_of(op.stream), op.start, op.duration, op.micro_batch});
    }
  }
  t.version = kVersion;
  return t;
}

// Draws before the answer is printed, so that a picture that cannot be is told alone.
int draw(const Projected& p, const Arguments& arguments) {
  const int micro_batch = static_cast<int>(number_of(arguments, "--micro-batch", 0));
  const Result<projection::StepPicture> picture =
      projection::picture(p.job->checked, p.job->calibration, micro_batch, *p.job->workspace);
  if (!picture) return report_faults(picture.error());
  const report::Timeline timeline = timeline_of(p, *picture);
  const Result<report::View> view = view_of(timeline, arguments);
  if (!view) {
    report_faults(view.error());
    return kUsage;
  }
  return write_pictures(timeline, *view, arguments);
}

enum class Mode { simulate, hybrid, both };

// --mode; without it, hybrid where there are measurements. Errors: wrong use, in words.
Result<Mode> mode_of(const Arguments& arguments) {
  const bool measured = arguments.has("--measured");
  const std::string word = arguments.value("--mode", measured ? "hybrid" : "simulate");
  if (word == "simulate") return Mode::simulate;
  if (word != "hybrid" && word != "both") {
    return fault({.message = fmt::format("--mode is simulate, hybrid or both, not `{}`", word)});
  }
  if (!measured) {
    return fault(
        {.message = fmt::format(
             "`--mode {}` needs measurements: add --measured FILE, or `eratos measure` first",
             word)});
  }
  if (is_drawn(arguments) || arguments.value("--schedule") == "all") {
    return fault(
        {.message = "pictures and --schedule all are of simulations: add --mode simulate"});
  }
  if (arguments.has("--anchor")) {
    return fault({.message = "--anchor and --measured correct the model twice: give one of them"});
  }
  return word == "both" ? Mode::both : Mode::hybrid;
}

// The job with measured pieces in it.
int run_measured(Projected& p, Mode mode, Format format, const Arguments& arguments) {
  const Result<calibration::Measured> measured =
      reader::read_measured(arguments.value("--measured"));
  if (!measured) return report_faults(measured.error());
  const projection::HybridProjection hybrid = projection::project(
      p.job->checked, p.job->calibration, *measured, p.job->options, *p.job->workspace);
  p.projection = hybrid.projection;
  report::Answer answer = answer_of(p);
  answer.hybrid = &hybrid.hybrid;
  if (mode == Mode::both) answer.simulated = &hybrid.simulated;
  const std::string text = render_project(answer, format, arguments);
  return deliver(text, arguments, fit_code(arguments, p.projection.memory.fits));
}

}  // namespace

int run_project(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, kAnswerFormats);
  if (!format) return report_usage(format.error().front().message);
  const Result<Mode> mode = mode_of(arguments);
  if (!mode) return report_usage(mode.error().front().message);
  if (*mode != Mode::simulate && arguments.has("--anchor")) {
    return report_usage(
        "measured pieces and an anchor both move what the model says of kernels: give one of "
        "--measured and --anchor, or add --mode simulate");
  }
  const bool drawn = is_drawn(arguments);
  if (arguments.has("--micro-batch") && !arguments.has("--trace")) {
    return report_usage("`--micro-batch` says what --trace draws op by op");
  }
  if (const std::string flag = view_flag(arguments); !flag.empty() && !drawn) {
    return report_usage(
        fmt::format("`{}` says what a picture shows: add --trace, --svg or --html", flag));
  }
  if (const std::string same = same_file(arguments); !same.empty()) return report_usage(same);
  if (arguments.value("--schedule") == "all") {
    if (arguments.has("--anchor")) {
      return report_usage("an anchor changes one answer: name one schedule with --schedule");
    }
    if (drawn) return report_usage("pictures are of one schedule: name it with --schedule");
    return compare_schedules(arguments, *format);
  }
  Result<Projected> projected = project_job(arguments);
  if (!projected) return report_faults(projected.error());
  if (*mode != Mode::simulate) return run_measured(*projected, *mode, *format, arguments);
  const text::Node asked = reader::job_to_node(projected->job->read.job);
  std::optional<report::AnchorAnswer> anchored;
  if (arguments.has("--anchor")) {
    Result<report::AnchorAnswer> found = anchor(arguments, *projected);
    if (!found) return report_faults(found.error());
    anchored = *std::move(found);
  }
  if (drawn) {
    if (const int code = draw(*projected, arguments); code != kAnswered) return code;
  }
  report::Answer answer = answer_of(*projected);
  if (anchored) {
    answer.anchor = &*anchored;
    answer.job = asked;  // as the user wrote it, without what was carried
  }
  const std::string text = render_project(answer, *format, arguments);
  return deliver(text, arguments, fit_code(arguments, projected->projection.memory.fits));
}

}  // namespace eratos::apps
