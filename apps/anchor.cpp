#include "apps/anchor.h"

#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "apps/anchor_run.h"
#include "apps/measured_runs.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/import_report.h"
#include "eratos/reader/job_yaml.h"

namespace eratos::apps {

namespace {

using report::AnchorAnswer;
using report::CarriedConstant;
using text::Node;

std::map<std::string, std::string> values_of(const Node& job) {
  std::map<std::string, std::string> out;
  reader::for_each_value(job, "", [&](const std::string& path, const Node& value) {
    out[path] = reader::shown(value);
  });
  return out;
}

bool is_size(const std::string& path) {
  return path == "name" || path == "batch.global" || path == "cluster" ||
         path.rfind("cluster.", 0) == 0;
}

// Of a cluster that is written out, its size says enough.
bool is_detail(const std::string& path) {
  return path == "name" || (path.rfind("cluster.", 0) == 0 && path != "cluster.nodes" &&
                            path != "cluster.gpus_per_node");
}

// "parallel.tp 4, here 8", sizes too.
std::vector<std::string> differences(const job::JobSpec& run, const job::JobSpec& job) {
  // A model under its name on one side, spelled out on the other: field by field.
  const auto names_model = [](const job::JobSpec& spec) {
    return reader::job_to_node(spec).find("model")->is_scalar();
  };
  const reader::Expand expand{.model = names_model(run) != names_model(job)};
  const auto theirs = values_of(reader::job_to_node(run, expand));
  const auto ours = values_of(reader::job_to_node(job, expand));
  std::vector<std::string> out;
  for (const auto& [path, value] : theirs) {
    const auto at = ours.find(path);
    if (is_detail(path) || (at != ours.end() && at->second == value)) continue;
    out.push_back(
        fmt::format("{} {}, here {}", path, value, at == ours.end() ? "none" : at->second));
  }
  for (const auto& [path, value] : ours) {
    if (!is_detail(path) && theirs.count(path) == 0) {
      out.push_back(fmt::format("{} none, here {}", path, value));
    }
  }
  return out;
}

Seconds measured_step(const reader::Measured& m, Seconds projected, double projected_figure) {
  return m.from == reader::SpeedFrom::none ? Seconds{0}
                                           : projected * (projected_figure / measured_speed(m));
}

projection::MeasuredRun run_of(const reader::Measured& m, Seconds step) {
  return {step, m.memory, peak_kind(m.memory_kind), m.first_stage};
}

// What no accelerator of the run's can have done.
Diagnostics impossible(const reader::Measured& m, Seconds step, const job::JobSpec& run,
                       const projection::Projection& first, const Location& where) {
  Diagnostics out;
  const hardware::AcceleratorSpec& part = run.cluster.accelerator;
  const double of_peak =
      step.value > 0 ? first.throughput.hfu * (first.time.step / step) : first.throughput.hfu;
  if (of_peak > 1) {
    out.push_back(
        {.where = where,
         .message = fmt::format("the run's step of {:.3g} s would need {:.3g} times the "
                                "peak rate of {}",
                                step.value, of_peak, part.name),
         .cure = "check the figure and its unit, and that the batch is the run's (gbs=)"});
  }
  if (const Bytes most = max(part.memory_nominal, part.memory_visible); m.memory > most) {
    out.push_back(
        {.where = where,
         .message = fmt::format("the run's peak of {:.1f} GiB is more than the {:.1f} "
                                "GiB of {}",
                                m.memory.value / kGiB, most.value / kGiB, part.name),
         .cure = "check the figure and its unit: peak_gb or peak_gib, of one accelerator"});
  }
  return out;
}

// The job's step or peak with one constant changed.
double effect_of(const CarriedConstant& c, const Job& job, const projection::Projection& alone) {
  job::JobSpec spec = job.read.job;
  calibration::Calibration calibration = job.calibration;
  projection::carry(c.constant, spec, calibration);
  job::CheckedJob checked;
  if (!job::check(spec, checked).empty()) return 0;  // a changed rate makes no job illegal
  const projection::Projection p =
      projection::project(checked, calibration, job.options, *job.workspace);
  return c.of_step ? std::log(p.time.step / alone.time.step)
                   : std::log(p.memory.device_peak / alone.memory.device_peak);
}

void list_constants(const Job& job, AnchorAnswer& out) {
  const auto list = [&](const std::optional<projection::Explained>& figure, bool of_step) {
    if (!figure) return;
    for (const calibration::Attributed& each : figure->constants) {
      CarriedConstant c{.constant = each, .of_step = of_step};
      c.carried = projection::carries(out.anchor, each, job.read.job);
      if (c.carried) {
        c.effect = effect_of(c, job, out.alone);
      } else if (each.parameter->owner == calibration::Owner::framework) {
        c.why_not = fmt::format("{} is other software than {}@{}", out.anchor.profile,
                                job.read.job.framework.name, job.read.job.framework.generation);
      } else {
        c.why_not = fmt::format("{} is another part than {}", out.anchor.accelerator,
                                job.read.job.cluster.accelerator.name);
      }
      out.constants.push_back(std::move(c));
    }
  };
  list(out.anchor.step, true);
  list(out.anchor.peak, false);
}

}  // namespace

projection::PeakKind peak_kind(reader::MemoryKind kind) {
  switch (kind) {
    case reader::MemoryKind::allocated:
      return projection::PeakKind::allocated;
    case reader::MemoryKind::reserved:
      return projection::PeakKind::reserved;
    case reader::MemoryKind::device:
      break;
  }
  return projection::PeakKind::device;
}

projection::MeasuredRun measured_run(const reader::Run& run, const report::AccuracyRow& row) {
  return run_of(run.measured,
                measured_step(run.measured, Seconds{row.projected_step_s}, row.projected_speed));
}

std::vector<std::string> differing_fields(const Node& a, const Node& b) {
  const auto left = values_of(a);
  const auto right = values_of(b);
  std::vector<std::string> out;
  for (const auto& [path, value] : left) {
    const auto at = right.find(path);
    if (!is_size(path) && (at == right.end() || at->second != value)) out.push_back(path);
  }
  for (const auto& [path, value] : right) {
    if (!is_size(path) && left.count(path) == 0) out.push_back(path);
  }
  return out;
}

Result<AnchorAnswer> anchor(const Arguments& arguments, Projected& projected) {
  Job& job = *projected.job;
  Result<AnchorRun> run = read_anchor_run(arguments, job);
  if (!run) return faults(run.error());
  const bool same_layout =
      differing_fields(reader::job_to_node(run->spec), reader::job_to_node(job.read.job)).empty();
  const auto classes = reader::load_anchored_classes(same_layout);
  if (!classes) return faults(classes.error());
  const Result<reader::Overlay> overlay = overlay_of(arguments);
  if (!overlay) return faults(overlay.error());
  auto calibration = reader::load_calibration(run->spec.cluster.accelerator, &*overlay);
  if (!calibration) return faults(calibration.error());

  AnchorAnswer out;
  out.run = arguments.value("--anchor");
  out.alone = projected.projection;
  out.notes = run->notes;
  out.differs = differences(run->spec, job.read.job);
  job::CheckedJob checked;
  if (Diagnostics illegal = job::check(run->spec, checked); !illegal.empty()) {
    return faults(std::move(illegal));
  }
  const reader::Run as_row{.spec = run->spec, .measured = run->measured};
  const projection::Projection first =
      projection::project(checked, *calibration, job.options, *job.workspace);
  if (first.time.step.value <= 0) {
    return fault(
        {.where = {.file = "--anchor " + out.run},
         .message = "the anchor's run has no step" +
                    (first.warnings.empty() ? "" : ": " + first.warnings.front().message)});
  }
  const Seconds step =
      measured_step(run->measured, first.time.step,
                    projected_speed(as_row, first.throughput.tokens_per_s_per_gpu));
  if (Diagnostics never =
          impossible(run->measured, step, run->spec, first, {.file = "--anchor " + out.run});
      !never.empty()) {
    return faults(std::move(never));
  }
  out.anchor =
      projection::anchor_on(run->spec, run_of(run->measured, step), *calibration, *job.workspace);
  out.what = fmt::format("{} x {}, {}", run->spec.cluster.gpus(), out.anchor.accelerator,
                         out.anchor.profile);
  if (step.value > 0) {
    out.tokens_per_s_per_gpu = static_cast<double>(run->spec.batch.global) *
                               run->spec.batch.sequence / step.value / run->spec.cluster.gpus();
  }
  out.peak_kind = std::string(reader::name_of(run->measured.memory_kind));
  list_constants(job, out);

  projection::carry_all(out.anchor, job.read.job, job.calibration);
  if (Diagnostics illegal = job::check(job.read.job, job.checked); !illegal.empty()) {
    return faults(std::move(illegal));
  }
  projected.projection =
      projection::project(job.checked, job.calibration, job.options, *job.workspace);
  projected.projection.confidence =
      projection::anchored_confidence(job.checked, out.anchor, *classes, projected.projection);
  if (!same_layout)
    out.notes.emplace_back("its layout is another one: the band is that of such runs");
  if (out.differs.empty()) {
    out.notes.emplace_back(
        "it is a run of this very job: the run's own share is not carried, so the projection lies "
        "between the model's step and the measured one");
  }
  projected.projection.calibration += ", anchored on " + out.run;
  return out;
}

}  // namespace eratos::apps
