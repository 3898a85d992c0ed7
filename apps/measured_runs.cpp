#include "apps/measured_runs.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "apps/load_job.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/overlay.h"
#include "eratos/text/csv.h"
#include "eratos/text/yaml.h"

namespace eratos::apps {

namespace {

using report::AccuracyRow;

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

// "others" of "runs/others.csv".
std::string stem(const std::string& path) {
  const std::string file = path.substr(path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
  return file.substr(0, file.rfind('.'));
}

// Architectures in the order of --models, but models_NAME.yaml first for NAME.csv.
std::vector<text::Node> models_for(const std::string& runs, const std::vector<std::string>& paths,
                                   const std::vector<text::Node>& trees) {
  std::vector<text::Node> out = trees;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (stem(paths[i]) != "models_" + stem(runs)) continue;
    const auto at = out.begin() + static_cast<std::ptrdiff_t>(i);
    std::rotate(out.begin(), at, at + 1);
  }
  return out;
}

// Rows of one file that can be projected go to `runs`, the others get their reason at once.
Result<void> read_runs(const std::string& path, const std::vector<text::Node>& models,
                       MeasuredRuns& out) {
  const Result<text::CsvTable> table = text::parse_csv_file(path);
  if (!table) return faults(table.error());
  Result<reader::RunReader> runs = reader::RunReader::make(*table, models);
  if (!runs) return faults(runs.error());
  for (std::size_t i = 0; i < table->rows(); ++i) {
    auto run = runs->read(i);
    const reader::RunName& name = run ? run->name : run.error().name;
    out.rows.push_back(row_of(name, path));
    if (run) {
      out.runs.push_back({*std::move(run), out.rows.size() - 1});
    } else {
      out.rows.back().skipped = run.error().reason;
      out.rows.back().detail = run.error().detail;
    }
  }
  return {};
}

// The overlay's numbers in profiles that runs share. What a run's own notes changed stays as it is, so
// two runs of one generation need not share one.
class Profiles {
 public:
  explicit Profiles(const reader::Overlay& overlay) : overlay_(overlay) {}

  Result<void> change(framework::FrameworkProfile& profile) {
    text::Node before = reader::framework_to_node(profile);
    auto& known = changed_[profile.name + "@" + profile.generation];
    for (const auto& [from, to] : known) {
      if (from == before) {
        profile = to;
        return {};
      }
    }
    auto after = reader::with_overlay(profile, overlay_);
    if (!after) return faults(after.error());
    profile = *after;
    known.emplace_back(std::move(before), *std::move(after));
    return {};
  }

 private:
  const reader::Overlay& overlay_;
  std::map<std::string, std::vector<std::pair<text::Node, framework::FrameworkProfile>>> changed_;
};

// What was measured of each part, and every run's profile, with the overlay's numbers.
Result<void> load_constants(const reader::Overlay& overlay, MeasuredRuns& out) {
  Profiles profiles(overlay);
  for (MeasuredRun& each : out.runs) {
    job::JobSpec& spec = each.run.spec;
    const std::string& part = spec.cluster.accelerator.name;
    if (out.calibrations.count(part) == 0) {
      auto loaded = reader::load_calibration(spec.cluster.accelerator, &overlay);
      if (!loaded) return faults(loaded.error());
      out.calibrations.emplace(part, *std::move(loaded));
    }
    if (overlay.file.empty()) continue;
    if (auto done = profiles.change(spec.framework); !done) return faults(done.error());
  }
  return {};
}

}  // namespace

Result<MeasuredRuns> read_measured_runs(const Arguments& arguments) {
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
  MeasuredRuns out;
  const bool all_models = all.empty();
  for (const std::string& path : arguments.words) {
    const Result<void> read = read_runs(
        path, all_models ? models_for(path, arguments.values("--models"), models) : models, out);
    if (!read) keep(read.error());
  }
  const Result<reader::Overlay> overlay = overlay_of(arguments);
  if (!overlay) keep(overlay.error());
  if (!all.empty()) return faults(std::move(all));
  const Result<void> loaded = load_constants(*overlay, out);
  if (!loaded) return faults(loaded.error());
  return out;
}

double projected_speed(const reader::Run& run, double tokens) {
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

// Rows share nothing but constants, so threads take them in any order; each answer has its place.
void in_parallel(std::size_t n, const std::function<Take()>& worker) {
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_guard;
  const auto take_all = [&] {
    try {
      const Take take = worker();
      for (std::size_t i = next++; i < n; i = next++) take(i);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(failure_guard);
      failure = std::current_exception();
    }
  };
  const std::size_t most = std::min<std::size_t>(std::max<std::size_t>(n / 8, 1), 16);
  const std::size_t threads = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most);
  std::vector<std::thread> pool;
  for (std::size_t i = 1; i < threads; ++i) pool.emplace_back(take_all);
  take_all();
  for (std::thread& t : pool) t.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace eratos::apps
