#include "eratos/calibration/attribution.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace eratos::calibration {

void attribute(double residual, std::span<Attributed> constants) {
  for (bool met = true; met;) {
    double wanted = residual;
    double variance = kRunNoise * kRunNoise;
    for (const Attributed& c : constants) {
      if (c.held) continue;
      wanted += c.slope * std::log(c.after / c.before);
      const double pull = c.parameter->spread * c.slope;
      variance += pull * pull;
    }
    const auto wish = [&](const Attributed& c) {
      const double s = c.parameter->spread;
      return c.before * std::exp(s * s * c.slope * wanted / variance);
    };
    // Those that would leave their range are put at its end first; what is then left is dealt anew.
    met = false;
    for (Attributed& c : constants) {
      if (c.held) continue;
      const double least = std::min(c.parameter->least, c.before);
      const double most = std::max(c.parameter->most, c.before);
      const double value = wish(c);
      if (value >= least && value <= most) continue;
      const double end = std::clamp(value, least, most);
      residual -= c.slope * std::log(end / c.after);
      c.after = end;
      c.held = met = true;
    }
    if (met) continue;
    for (Attributed& c : constants) {
      if (!c.held) c.after = wish(c);
    }
  }
}

void deal(double explained, std::span<const double> first, std::span<Attributed> constants) {
  double all = 0;
  for (std::size_t i = 0; i < constants.size(); ++i) {
    Attributed& c = constants[i];
    c.explains = (first[i] + c.slope) / 2 * std::log(c.after / c.before);
    all += c.explains;
  }
  if (all == 0) return;
  for (Attributed& c : constants) c.explains *= explained / all;
}

}  // namespace eratos::calibration
