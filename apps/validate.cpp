// eratos validate RUNS.csv ...: every run projected, and set beside what was measured of it. Tables
// of kernels and collectives (points.h) are priced instead.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/left_out.h"
#include "apps/measured_runs.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "apps/points.h"
#include "eratos/job/job.h"
#include "eratos/projection/hybrid.h"
#include "eratos/projection/likeness.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/measured.h"
#include "eratos/report/accuracy.h"
#include "eratos/text/dump.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using report::AccuracyRow;

Bytes projected_memory(const reader::Measured& m, const projection::MemoryAnswer& p) {
  const bool first = m.first_stage && !p.stages.empty();
  switch (m.memory_kind) {
    case reader::MemoryKind::allocated:
      return first ? p.stages[0].allocated : p.allocated_peak;
    case reader::MemoryKind::reserved:
      return first ? p.stages[0].reserved : p.reserved_peak;
    case reader::MemoryKind::device:
      return first ? p.stages[0].device : p.device_peak;
  }
  return Bytes{};
}

// The job without what its schedule decides, and that. Layers dealt anew belong to the schedule.
void name_schedule(const reader::Run& run, AccuracyRow& row) {
  if (run.spec.parallel.pp == 1) return;
  text::Node job = reader::job_to_node(run.spec);
  text::Node schedule = *job.find("schedule");
  text::Node* parallel = job.find("parallel");
  for (const char* key : {"vpp", "layout"}) {
    if (const text::Node* value = parallel->find(key)) schedule.set(key, *value);
    parallel->erase(key);
  }
  for (const char* key : {"name", "schedule"}) job.erase(key);
  row.but_schedule = run.name.source + '\n' + text::to_json(job, 0);
  row.schedule = text::to_json(schedule, 0);
}

// All but the layout is what the runs of one choice share.
void name_layout(const reader::Run& run, AccuracyRow& row) {
  const job::JobSpec& spec = run.spec;
  text::Node job = reader::job_to_node(spec);
  row.but_layout = fmt::format("{} on {} {}, sequence {}, batch {}, {}\n{}\n{}", run.name.model,
                               spec.cluster.gpus(), run.name.gpu, spec.batch.sequence,
                               spec.batch.global, job::name_of(spec.precision), run.name.source,
                               text::to_json(*job.find("model"), 0));
  job.erase("name");
  row.layout = text::to_json(job, 0);
}

// The ends of a band as multiples of the figure it belongs to.
template <typename Unit>
std::pair<double, double> multiples(const std::pair<Unit, Unit>& band, Unit of) {
  if (of.value <= 0) return {0, 0};
  return {band.first / of, band.second / of};
}

// `pieces`: measurements of --measured, or null.
void project_row(const reader::Run& run, const calibration::Calibration& calibration,
                 const calibration::Measured* pieces, const projection::Options& options,
                 double least_mfu, projection::Workspace& workspace, AccuracyRow& row) {
  job::CheckedJob checked;
  Diagnostics faults = job::check(run.spec, checked);
  if (faults.empty()) faults = projection::schedule_faults(checked);
  if (!faults.empty()) {
    row.skipped = "illegal job";
    for (const Diagnostic& d : faults) row.detail += (row.detail.empty() ? "" : "; ") + d.message;
    return;
  }
  const std::string& part = run.spec.cluster.accelerator.name;
  if (pieces != nullptr && !projection::measured_on(pieces->provenance, part)) {
    row.skipped = "another part";
    row.detail = "measurements are of " + pieces->provenance.device + ", the run is of " + part;
    return;
  }
  const projection::Projection p =
      pieces == nullptr
          ? projection::project(checked, calibration, options, workspace)
          : projection::project(checked, calibration, *pieces, options, workspace).projection;
  row.framework = run.spec.framework.name;
  name_schedule(run, row);
  name_layout(run, row);
  row.like = projection::likeness_of(checked, p);
  row.step_band = multiples(p.confidence.step, p.time.step);
  row.memory_band = multiples(p.confidence.peak, p.memory.device_peak);
  if (run.measured.from != reader::SpeedFrom::none) {
    row.from = reader::name_of(run.measured.from);
    row.measured_speed = measured_speed(run.measured);
    row.projected_speed = projected_speed(run, p.throughput.tokens_per_s_per_gpu);
  }
  row.projected_step_s = p.time.step.value;
  row.projected_tokens = p.throughput.tokens_per_s_per_gpu;
  row.measured_memory = run.measured.memory;
  if (row.measured_memory.value > 0) {
    row.memory_kind = reader::name_of(run.measured.memory_kind);
    row.projected_memory = projected_memory(run.measured, p.memory);
  }
  row.device_peak = p.memory.device_peak;
  row.capacity = p.memory.capacity;
  row.outcome = run.measured.outcome;
  row.fits = p.memory.fits;
  if (run.measured.mfu > 0 && run.measured.mfu < least_mfu) {
    row.excluded = fmt::format("stated MFU below {}", least_mfu);
  }
}

void project_all(const MeasuredRuns& measured, const calibration::Measured* pieces,
                 const projection::Options& options, double least_mfu, std::vector<AccuracyRow>& rows) {
  in_parallel(measured.runs.size(), [&]() -> Take {
    const std::shared_ptr<projection::Workspace> workspace = projection::make_workspace();
    return [&, workspace](std::size_t i) {
      const MeasuredRun& each = measured.runs[i];
      project_row(each.run, measured.calibration_of(each.run), pieces, options, least_mfu,
                  *workspace, rows[each.row]);
    };
  });
}

std::string render(const std::vector<AccuracyRow>& rows, Format format,
                   const report::Style& style) {
  if (format == Format::json) return report::accuracy_json(rows, std::string(kVersion));
  if (format == Format::csv) return report::accuracy_csv(rows);
  return report::accuracy_text(rows, style);
}

}  // namespace

int run_validate(const Arguments& arguments) {
  const Result<Format> format = format_of(arguments, "text json csv");
  if (!format) return report_usage(format.error().front().message);

  if (any_points(arguments.words)) return validate_points(arguments, *format);
  Result<MeasuredRuns> measured = read_measured_runs(arguments);
  if (!measured) return report_faults(measured.error());
  std::optional<calibration::Measured> pieces;
  if (arguments.has("--measured")) {
    Result<calibration::Measured> read = reader::read_measured(arguments.value("--measured"));
    if (!read) return report_faults(read.error());
    pieces = *std::move(read);
  }
  std::vector<AccuracyRow> rows = measured->rows;
  project_all(*measured, pieces ? &*pieces : nullptr, options_of(arguments), number_of(arguments, "--mfu-min", 0), rows);
  if (arguments.has("--left-out")) {
    leave_out(*measured, number_of(arguments, "--mfu-min", 0), rows);
  }
  return deliver(render(rows, *format, style_of(arguments)), arguments, kAnswered);
}

}  // namespace eratos::apps
