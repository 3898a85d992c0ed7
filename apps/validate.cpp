// eratos validate RUNS.csv ...: every run projected, and set beside what was measured of it.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "apps/commands.h"
#include "apps/exit_code.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "eratos/job/job.h"
#include "eratos/projection/likeness.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/truth.h"
#include "eratos/report/accuracy.h"
#include "eratos/text/csv.h"
#include "eratos/text/dump.h"
#include "eratos/text/yaml.h"
#include "eratos/version.h"

namespace eratos::apps {

namespace {

using report::AccuracyRow;

// A row that is ready to be projected, and where its answer goes.
struct Work {
  reader::Run run;
  std::size_t row = 0;
};

AccuracyRow row_of(const reader::RunName& name, const std::string& file) {
  AccuracyRow row;
  row.file = file;
  row.line = name.line;
  row.id = name.id;
  row.family = name.family;
  row.gpu = name.gpu;
  row.source = name.source;
  row.model = name.model;
  row.suspect = name.suspect;
  return row;
}

// What the source would have printed for the projected step: its FLOPs of a token by its own count.
double flops_per_token(const job::JobSpec& spec, const reader::FlopCount& count) {
  const model::Architecture& a = spec.model;
  const double model_flops =
      projection::model_flops_per_token(a, spec.batch.sequence, count.attention, a.vocab);
  double flops = model_flops;
  if (count.recompute && spec.recompute.granularity == job::Granularity::full) {
    const double head = 6 * a.hidden * a.vocab;
    flops += (model_flops - head) / 3;  // one more forward pass of the layers
  }
  if (count.embeddings && !a.tie_embeddings) flops += 6 * a.hidden * a.vocab;
  return flops;
}

double projected_speed(const reader::Run& run, const projection::Projection& p) {
  const double tokens = p.throughput.tokens_per_s_per_gpu;
  const double flops_per_s = tokens * flops_per_token(run.spec, run.measured.flops);
  switch (run.measured.from) {
    case reader::SpeedFrom::none:
      return 0;
    case reader::SpeedFrom::tokens_per_s_per_gpu:
    case reader::SpeedFrom::step_time_s:
      return tokens;
    case reader::SpeedFrom::mfu:
      return flops_per_s /
             run.spec.cluster.accelerator.peak_of(job::gemm_dtype(run.spec.precision)).value;
    case reader::SpeedFrom::tflops_per_gpu:
      return flops_per_s / 1e12;
  }
  return 0;
}

double measured_speed(const reader::Measured& m) {
  switch (m.from) {
    case reader::SpeedFrom::none:
      return 0;
    case reader::SpeedFrom::tokens_per_s_per_gpu:
    case reader::SpeedFrom::step_time_s:
      return m.tokens_per_s_per_gpu;
    case reader::SpeedFrom::mfu:
      return m.mfu;
    case reader::SpeedFrom::tflops_per_gpu:
      return m.tflops_per_gpu;
  }
  return 0;
}

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

void project_row(const reader::Run& run, const calibration::Calibration& calibration,
                 const projection::Options& options, double least_mfu,
                 projection::Workspace& workspace, AccuracyRow& row) {
  job::CheckedJob checked;
  Diagnostics faults = job::check(run.spec, checked);
  if (faults.empty()) faults = projection::schedule_faults(checked);
  if (!faults.empty()) {
    row.skipped = "illegal job";
    for (const Diagnostic& d : faults) row.detail += (row.detail.empty() ? "" : "; ") + d.message;
    return;
  }
  const projection::Projection p = projection::project(checked, calibration, options, workspace);
  row.framework = run.spec.framework.name;
  name_schedule(run, row);
  name_layout(run, row);
  row.like = projection::likeness_of(checked, p);
  row.step_band = multiples(p.confidence.step, p.time.step);
  row.memory_band = multiples(p.confidence.peak, p.memory.device_peak);
  if (run.measured.from != reader::SpeedFrom::none) {
    row.from = reader::name_of(run.measured.from);
    row.measured_speed = measured_speed(run.measured);
    row.projected_speed = projected_speed(run, p);
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

// Rows of one file that can be projected go to `work`, the others get their reason at once.
Result<void> read_runs(const std::string& path, const std::vector<text::Node>& models,
                       std::vector<AccuracyRow>& rows, std::vector<Work>& work) {
  const Result<text::CsvTable> table = text::parse_csv_file(path);
  if (!table) return faults(table.error());
  Result<reader::RunReader> runs = reader::RunReader::make(*table, models);
  if (!runs) return faults(runs.error());
  for (std::size_t i = 0; i < table->rows(); ++i) {
    auto run = runs->read(i);
    const reader::RunName& name = run ? run->name : run.error().name;
    rows.push_back(row_of(name, path));
    if (run) {
      work.push_back({*std::move(run), rows.size() - 1});
    } else {
      rows.back().skipped = run.error().reason;
      rows.back().detail = run.error().detail;
    }
  }
  return {};
}

Result<std::map<std::string, calibration::Calibration>> load_calibrations(
    const std::vector<Work>& work) {
  std::map<std::string, calibration::Calibration> out;
  for (const Work& w : work) {
    const std::string& part = w.run.spec.cluster.accelerator.name;
    if (out.count(part) > 0) continue;
    Result<calibration::Calibration> loaded = reader::load_calibration(part);
    if (!loaded) return faults(loaded.error());
    out.emplace(part, *std::move(loaded));
  }
  return out;
}

// Rows share nothing but constants, so threads take them in any order; each answer has its place.
void project_all(const std::vector<Work>& work,
                 const std::map<std::string, calibration::Calibration>& calibrations,
                 const projection::Options& options, double least_mfu,
                 std::vector<AccuracyRow>& rows) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_guard;
  const auto take_rows = [&] {
    try {
      const projection::WorkspacePtr workspace = projection::make_workspace();
      for (std::size_t i = next++; i < work.size(); i = next++) {
        const Work& w = work[i];
        project_row(w.run, calibrations.at(w.run.spec.cluster.accelerator.name), options, least_mfu,
                    *workspace, rows[w.row]);
      }
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_guard);
      failure = std::current_exception();
    }
  };
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, 16);
  std::vector<std::thread> pool;
  for (std::size_t i = 1; i < threads; ++i) pool.emplace_back(take_rows);
  take_rows();
  for (std::thread& t : pool) t.join();
  if (failure) std::rethrow_exception(failure);
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

  Diagnostics all;
  const auto keep = [&](const Diagnostics& d) { all.insert(all.end(), d.begin(), d.end()); };
  std::vector<text::Node> models;
  for (const std::string& path : arguments.values("--models")) {
    Result<text::Node> tree = text::parse_yaml_file(path);
    if (tree) {
      models.push_back(*std::move(tree));
    } else {
      keep(tree.error());
    }
  }
  std::vector<AccuracyRow> rows;
  std::vector<Work> work;
  for (const std::string& path : arguments.words) {
    const Result<void> read = read_runs(path, models, rows, work);
    if (!read) keep(read.error());
  }
  if (!all.empty()) return report_faults(all);
  const auto calibrations = load_calibrations(work);
  if (!calibrations) return report_faults(calibrations.error());

  project_all(work, *calibrations, options_of(arguments), number_of(arguments, "--mfu-min", 0),
              rows);
  return deliver(render(rows, *format, style_of(arguments)), arguments, kAnswered);
}

}  // namespace eratos::apps
