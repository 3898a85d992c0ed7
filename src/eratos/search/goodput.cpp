#include "eratos/search/goodput.h"

#include <algorithm>
#include <cmath>

namespace eratos::search {

Seconds best_interval(Seconds between_failures, Seconds write) {
  const double m = between_failures.value;
  const double d = write.value;
  if (d >= 2 * m) return between_failures;
  const double x = d / (2 * m);
  return Seconds{std::sqrt(2 * d * m) * (1 + std::sqrt(x) / 3 + x / 9) - d};
}

Goodput goodput_of(const Failures& failures, int nodes, int gpus) {
  Goodput out;
  const double write = failures.write.value;
  if (failures.mtbf_hours <= 0) {
    out.interval = failures.every;
    if (failures.every.value <= 0) return out;
    out.useful = failures.every.value / (failures.every.value + write);
    out.writing = 1 - out.useful;
    return out;
  }
  const double m = failures.mtbf_hours * 3600 / (failures.of_gpu ? gpus : nodes);
  out.between_failures = Seconds{m};
  out.interval = failures.every.value > 0 ? failures.every
                                          : best_interval(out.between_failures, failures.write);
  const double tau = out.interval.value;
  out.restarting = -std::expm1(-failures.restart.value / m);
  out.useful = tau / (m * std::exp(failures.restart.value / m) * std::expm1((tau + write) / m));
  out.writing = out.useful * write / tau;
  out.redone = std::max(0.0, 1 - out.useful - out.writing - out.restarting);
  return out;
}

}  // namespace eratos::search
