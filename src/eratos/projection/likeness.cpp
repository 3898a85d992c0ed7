#include "eratos/projection/likeness.h"

#include <algorithm>

namespace eratos::projection {

namespace {

// measured = projected / (1 + low) must stay finite.
constexpr double kLowest = -0.9;

template <typename Unit>
std::pair<Unit, Unit> band(Unit projected, double low, double high) {
  return {projected / (1 + high), projected / (1 + std::max(low, kLowest))};
}

}  // namespace

calibration::Likeness likeness_of(const job::CheckedJob& job, const Projection& p) {
  const job::JobSpec& spec = *job.spec;
  calibration::Likeness out;
  out.framework = spec.framework.name;
  out.architecture = spec.cluster.accelerator.architecture;
  out.experts = model::is_moe(spec.model);
  out.busy = p.time.step.value > 0 ? p.time.compute / p.time.step : 0;
  out.gpus = job.parallel.world();
  out.parameters = p.parameters.active;
  return out;
}

Confidence confidence_of(const job::CheckedJob& job, const calibration::Calibration& calibration,
                         const Projection& p) {
  using calibration::Quantity;
  const calibration::Likeness like = likeness_of(job, p);
  const double more = calibration.unmeasured.widening;
  Confidence out;
  out.step = {p.time.step, p.time.step};
  out.peak = {p.memory.device_peak, p.memory.device_peak};
  if (const auto* steps = calibration::most_alike(calibration.errors, Quantity::step, like)) {
    out.step = band(p.time.step, steps->low - more, steps->high + more);
    out.basis = "step: " + calibration::basis_of(*steps);
    if (more > 0) out.basis += "; " + calibration.unmeasured.basis;
  }
  if (const auto* peaks = calibration::most_alike(calibration.errors, Quantity::peak, like)) {
    out.peak = band(p.memory.device_peak, peaks->low, peaks->high);
    if (!out.basis.empty()) out.basis += "; ";
    out.basis += "peak: " + calibration::basis_of(*peaks);
  }
  return out;
}

}  // namespace eratos::projection
