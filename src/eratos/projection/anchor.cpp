#include "eratos/projection/anchor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <span>

#include "eratos/base/check.h"
#include "eratos/projection/likeness.h"
#include "eratos/projection/steps.h"

namespace eratos::projection {

namespace {

using calibration::Attributed;
using calibration::Owner;
using calibration::Parameter;
using framework::FrameworkProfile;

constexpr double kStride = 0.04;  // of ln(value): kinks of the model are smoothed, as in a fit
constexpr double kLeastSlope = 1e-6;
constexpr int kMostSteps = 4;
constexpr double kSettled = 1e-5;  // of ln(figure) between two steps

constexpr std::string_view kHeldSource =
    "context 0.6 to 1.5 GB, reserved beyond allocated 0.047 to 0.16 over the profiles of "
    "data/frameworks, and 0.028 to 0.093 over 15 peaks of one of them: a factor of 2.5 to 3.4 "
    "between "
    "the ends";

constexpr Parameter held(std::string_view path, double least, double most,
                         double& (*field)(FrameworkProfile&)) {
  return {.path = path,
          .least = least,
          .most = most,
          .spread = 0.5,
          .why = "drivers, libraries and allocators of its own version",
          .source = kHeldSource,
          .in_framework = field};
}

// What is held outside live tensors. No fit of steps reads these, so they are no part of
// calibration::parameters().
constexpr Parameter kHeld[] = {
    held("memory.context_bytes", 1e7, 2e10,
         [](FrameworkProfile& p) -> double& { return p.memory.context.value; }),
    held("memory.communicator_bytes", 1e6, 1e10,
         [](FrameworkProfile& p) -> double& { return p.memory.communicator.value; }),
    held("memory.all_to_all_peer_bytes", 1e6, 2e10,
         [](FrameworkProfile& p) -> double& { return p.memory.all_to_all_peer.value; }),
    held("memory.reserve_fraction", 1e-3, 1,
         [](FrameworkProfile& p) -> double& { return p.memory.reserve_fraction; }),
    held("memory.expandable_fraction", 1e-3, 1,
         [](FrameworkProfile& p) -> double& { return p.memory.expandable_fraction; }),
    held("memory.pressed_fraction", 1e-3, 1,
         [](FrameworkProfile& p) -> double& { return p.memory.pressed_fraction; }),
};

std::string profile_of(const job::JobSpec& job) {
  return job.framework.name + "@" + job.framework.generation;
}

double& field_of(const Parameter& p, job::JobSpec& job, calibration::Calibration& calibration) {
  return p.owner == Owner::framework ? p.in_framework(job.framework) : p.in_part(calibration.part);
}

// The anchor run with constants of its own.
struct Trial {
  job::JobSpec job;
  calibration::Calibration calibration;
  job::CheckedJob checked;

  Trial(const job::JobSpec& run, const calibration::Calibration& known)
      : job(run), calibration(known) {
    ERATOS_CHECK(job::check(job, checked).empty());
  }
  Trial(const Trial&) = delete;  // `checked` points to `job`
  Trial& operator=(const Trial&) = delete;

  double& field(const Parameter& p) { return field_of(p, job, calibration); }
};

using Figure = std::function<double(const Trial&)>;

// d ln(figure) / d ln(value) of each constant; a stride that would leave the range goes the other
// way.
void find_slopes(Trial& trial, const Figure& figure, double here, std::vector<Attributed>& of) {
  for (Attributed& c : of) {
    double& field = trial.field(*c.parameter);
    const double value = field;
    const double stride = value * std::exp(kStride) <= c.parameter->most ? kStride : -kStride;
    field = value * std::exp(stride);
    c.slope = (std::log(figure(trial)) - here) / stride;
    field = value;
  }
}

Explained explain(Trial& trial, double measured, std::span<const Parameter> parameters,
                  const Figure& figure) {
  Explained out;
  out.measured = measured;
  out.projected = figure(trial);
  ERATOS_CHECK(measured > 0 && out.projected > 0);
  double here = std::log(out.projected);
  for (const Parameter& p : parameters) {
    const double value = trial.field(p);
    if (calibration::is_neutral(p, value)) continue;
    out.constants.push_back({.parameter = &p, .before = value, .after = value});
  }
  find_slopes(trial, figure, here, out.constants);
  std::erase_if(out.constants, [](const Attributed& c) { return std::abs(c.slope) < kLeastSlope; });
  std::vector<double> first;
  double variance = calibration::kRunNoise * calibration::kRunNoise;
  for (const Attributed& c : out.constants) {
    first.push_back(c.slope);
    variance += c.parameter->spread * c.parameter->spread * c.slope * c.slope;
  }
  out.expected = std::sqrt(variance);
  for (int step = 0; step < kMostSteps; ++step) {
    if (step > 0) find_slopes(trial, figure, here, out.constants);
    calibration::attribute(std::log(measured) - here, out.constants);
    for (const Attributed& c : out.constants) trial.field(*c.parameter) = c.after;
    const double before = here;
    here = std::log(figure(trial));
    if (std::abs(here - before) < kSettled) break;
  }
  out.anchored = std::exp(here);
  calibration::deal(here - std::log(out.projected), first, out.constants);
  return out;
}

template <typename Unit>
std::pair<Unit, Unit> banded(Unit projected, const calibration::ErrorClass& c) {
  return {projected / (1 + c.high), projected / (1 + c.low)};
}

}  // namespace

Bytes peak_of(const MemoryAnswer& memory, PeakKind kind, bool first_stage) {
  const bool first = first_stage && !memory.stages.empty();
  switch (kind) {
    case PeakKind::allocated:
      return first ? memory.stages[0].allocated : memory.allocated_peak;
    case PeakKind::reserved:
      return first ? memory.stages[0].reserved : memory.reserved_peak;
    case PeakKind::device:
      break;
  }
  return first ? memory.stages[0].device : memory.device_peak;
}

std::string_view name_of(CarriedPart part) {
  constexpr std::string_view kNames[] = {"kernels", "launch", "communication", "memory"};
  return kNames[static_cast<std::size_t>(part)];
}

CarriedPart part_of(const Parameter& parameter) {
  const std::string_view path = parameter.path;
  if (path.starts_with("memory.")) return CarriedPart::memory;
  if (path.starts_with("host.")) return CarriedPart::launch;
  if (path == "kernel.collective" || path == "kernel.network_decay" ||
      path.starts_with("network.") || path.starts_with("overlap.")) {
    return CarriedPart::communication;
  }
  return CarriedPart::kernels;
}

double Explained::residual() const { return std::log(measured / projected); }
double Explained::unexplained() const { return std::log(measured / anchored); }

double Explained::explained(CarriedPart part) const {
  double sum = 0;
  for (const Attributed& c : constants) {
    if (part_of(*c.parameter) == part) sum += c.explains;
  }
  return sum;
}

Anchor anchor_on(const job::JobSpec& run, const MeasuredRun& measured,
                 const calibration::Calibration& calibration, Workspace& w) {
  Anchor out;
  out.profile = profile_of(run);
  out.accelerator = run.cluster.accelerator.name;
  {
    const Trial trial(run, calibration);
    out.projection = project(trial.checked, trial.calibration, {}, w);
  }
  if (measured.step.value > 0) {
    const auto step = [&w](const Trial& t) {
      Seconds s;
      project_steps(t.checked, t.calibration, [](std::size_t) { return true; }, w, {&s, 1});
      return s.value;
    };
    Trial trial(run, calibration);
    out.step = explain(trial, measured.step.value, calibration::parameters(), step);
  }
  if (measured.peak.value > 0) {
    const auto peak = [&](const Trial& t) {
      const Projection p = project(t.checked, t.calibration, {}, w);
      return peak_of(p.memory, measured.kind, measured.first_stage).value;
    };
    Trial trial(run, calibration);
    out.peak = explain(trial, measured.peak.value, kHeld, peak);
  }
  return out;
}

bool carries(const Anchor& anchor, const Attributed& constant, const job::JobSpec& job) {
  return constant.parameter->owner == Owner::framework
             ? anchor.profile == profile_of(job)
             : anchor.accelerator == job.cluster.accelerator.name;
}

void carry(const Attributed& constant, job::JobSpec& job, calibration::Calibration& calibration) {
  const Parameter& p = *constant.parameter;
  double& field = field_of(p, job, calibration);
  // A run may say more of its software than its profile does: the ratio is what carries.
  if (calibration::is_neutral(p, field)) return;
  field = std::clamp(field * constant.after / constant.before, std::min(p.least, field),
                     std::max(p.most, field));
}

void carry_all(const Anchor& anchor, job::JobSpec& job, calibration::Calibration& calibration) {
  for (const std::optional<Explained>* figure : {&anchor.step, &anchor.peak}) {
    if (!*figure) continue;
    for (const Attributed& c : (*figure)->constants) {
      if (carries(anchor, c, job)) carry(c, job, calibration);
    }
  }
}

Confidence anchored_confidence(const job::CheckedJob& job, const Anchor& anchor,
                               const std::vector<calibration::ErrorClass>& classes,
                               const Projection& p) {
  using calibration::Quantity;
  const calibration::Likeness like = likeness_of(job, p);
  Confidence out = p.confidence;
  const auto* steps =
      anchor.step ? calibration::most_alike(classes, Quantity::step, like) : nullptr;
  // A peak that nothing outside live tensors enters says nothing of them.
  const bool has_peak = anchor.peak && !anchor.peak->constants.empty();
  const auto* peaks = has_peak ? calibration::most_alike(classes, Quantity::peak, like) : nullptr;
  if (steps == nullptr && peaks == nullptr) return out;
  std::string basis;
  if (steps != nullptr) {
    out.step = banded(p.time.step, *steps);
    basis = "step: anchored, " + calibration::basis_of(*steps);
  }
  if (peaks != nullptr) {
    out.peak = banded(p.memory.device_peak, *peaks);
    basis += (basis.empty() ? "" : "; ") + ("peak: anchored, " + calibration::basis_of(*peaks));
  }
  if (steps == nullptr || peaks == nullptr) {
    basis += std::string("; the ") + (steps == nullptr ? "step's" : "peak's") +
             " band is that without an anchor";
  }
  out.basis = basis;
  return out;
}

}  // namespace eratos::projection
