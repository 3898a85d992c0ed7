#include "eratos/calibration/residuals.h"

#include <algorithm>
#include <cmath>

namespace eratos::calibration {

namespace {

std::string percent(double share) { return std::to_string(std::lround(share * 100)); }

bool holds_mixture(Mixture mixture, bool experts) {
  return mixture == Mixture::any || (mixture == Mixture::experts) == experts;
}

}  // namespace

bool ErrorClass::holds(const Likeness& job) const {
  return (framework.empty() || framework == job.framework) &&
         (architecture.empty() || architecture == job.architecture) &&
         holds_mixture(mixture, job.experts) && busy.holds(std::clamp(job.busy, 0.0, 1.0)) &&
         gpus.holds(job.gpus) && parameters.holds(job.parameters);
}

const ErrorClass* most_alike(const std::vector<ErrorClass>& classes, Quantity quantity,
                             const Likeness& job) {
  const auto at = std::find_if(classes.begin(), classes.end(), [&](const ErrorClass& c) {
    return c.quantity == quantity && c.holds(job);
  });
  return at == classes.end() ? nullptr : &*at;
}

std::string basis_of(const ErrorClass& c) {
  std::string out = std::to_string(c.rows) + (c.rows == 1 ? " run" : " runs");
  if (!c.framework.empty()) out += " of " + c.framework;
  if (!c.architecture.empty()) out += " on " + c.architecture;
  if (c.mixture == Mixture::dense) out += ", dense";
  if (c.mixture == Mixture::experts) out += ", experts";
  if (c.busy.from > 0 || c.busy.to < 1) {
    out += ", computing " + percent(c.busy.from) + " to " + percent(c.busy.to) + "% of the step";
  }
  return out + ", " + std::to_string(c.sources) + (c.sources == 1 ? " source" : " sources");
}

}  // namespace eratos::calibration
