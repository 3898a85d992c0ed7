// eratos import-trace TRACE JOB: a step that a profiler recorded, beside what the model says of it.
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/load_job.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "apps/trace_file.h"
#include "eratos/projection/step_account.h"
#include "eratos/projection/step_match.h"
#include "eratos/reader/kineto.h"
#include "eratos/reader/measured.h"
#include "eratos/report/json.h"
#include "eratos/report/page.h"
#include "eratos/report/trace_report.h"
#include "eratos/text/dump.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

Result<projection::TracedStep> read_step(const std::string& path, const Arguments& arguments,
                                         bool& lacks_zlib) {
  reader::TraceOptions options;
  if (arguments.has("--step")) {
    options.step = static_cast<std::int64_t>(number_of(arguments, "--step", 0));
  }
  if (arguments.has("--device")) {
    options.device = static_cast<std::int64_t>(number_of(arguments, "--device", 0));
  }
  const reader::OpenTrace open = [&] { return open_trace(path, true, lacks_zlib); };
  return reader::read_trace_step(open, path, options);
}

// JOB is the second word; what loads jobs takes it from the first.
Arguments of_job(const Arguments& arguments) {
  Arguments out = arguments;
  out.words = {arguments.words[1]};
  return out;
}

calibration::Measured measured_of(const projection::TracedStep& step,
                                  const projection::StepMatch& match, const job::JobSpec& job) {
  calibration::Measured out;
  out.provenance.device = step.device.empty() ? job.cluster.accelerator.name : step.device;
  out.provenance.device_kind = "cuda";
  out.provenance.source = "import-trace";
  out.provenance.ranks = step.world > 0 ? step.world : 1;
  if (step.world > 1) out.provenance.backend = "nccl";
  out.provenance.notes.push_back(
      fmt::format("{}{}: kernels of one step inside a run, other streams beside them",
                  step.file.substr(step.file.rfind('/') + 1),
                  step.number >= 0 ? fmt::format(", step {}", step.number) : std::string()));
  out.job = job.name;
  out.pieces = projection::pieces_of(match);
  return out;
}

}  // namespace

int run_import_trace(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json markdown html");
  if (!format) return report_usage(format.error().front().message);
  const std::string file = arguments.value("--output");
  if (!file.empty()) {
    if (const int code = place_fault(file, arguments); code != kAnswered) return code;
  }
  // The job first: its faults cost nothing to find.
  Result<Projected> projected = project_job(of_job(arguments));
  if (!projected) return report_faults(projected.error());
  const job::CheckedJob& job = projected->job->checked;
  bool lacks_zlib = false;
  const auto step = read_step(arguments.words[0], arguments, lacks_zlib);
  if (!step) {
    report_faults(step.error());
    return lacks_zlib ? kEnvironment : kBadInput;
  }
  const int stage = arguments.has("--stage") ? static_cast<int>(number_of(arguments, "--stage", 0))
                                             : projection::stage_of_rank(job, step->rank);
  if (stage >= job.parallel.pp) {
    return report_usage(fmt::format("`--stage {}`: the job has {} pipeline ranks, counted from 0",
                                    stage, job.parallel.pp));
  }
  const projection::StepAccount account = projection::account_of(*step);
  const projection::StepMatch match = projection::match_step(
      *step, account, job, projected->job->calibration, stage, *projected->job->workspace);
  if (!file.empty()) {
    const calibration::Measured measured = measured_of(*step, match, projected->job->read.job);
    if (measured.pieces.empty()) {
      return report_faults(
          {{.where = {.file = arguments.words[0]},
            .message = "no op of the job was found by its sizes: nothing to write to " + file,
            .cure = "record with record_shapes=True, and check that JOB is the job that ran"}});
    }
    const int written = write_named(file, reader::measured_json(measured), arguments);
    if (written != kAnswered) return written;
  }
  report::TraceAnswer answer;
  answer.step = &*step;
  answer.account = &account;
  answer.match = &match;
  answer.projection = &projected->projection;
  answer.job =
      fmt::format("{} on {}", projected->job->read.job.name, projected->job->read.job.cluster.name);
  answer.part = projected->job->read.job.cluster.accelerator.name;
  answer.version = std::string(kVersion);
  answer.top = static_cast<std::size_t>(number_of(arguments, "--top", 20));
  Arguments to_terminal = arguments;
  to_terminal.flags.erase("--output");
  std::string text;
  switch (*format) {
    case Format::json: {
      text::Node out = report::document(std::string(kVersion));
      report::put_all(out, report::trace_node(answer));
      text = text::to_json(out) + '\n';
      break;
    }
    case Format::markdown:
      text = report::page_markdown(report::trace_page(answer));
      break;
    case Format::html:
      text = report::page_html(report::trace_page(answer));
      break;
    default:
      text = report::page_text(report::trace_page(answer), style_of(to_terminal));
      break;
  }
  return deliver(text, to_terminal, kAnswered);
}

}  // namespace eratos::apps
