#include "eratos/calibration/pattern_search.h"

#include <algorithm>
#include <cmath>

namespace eratos::calibration {

namespace {

constexpr double kFirstStep = 0.2;  // in the logarithm
constexpr double kLastStep = 1e-3;
constexpr double kGrow = 1.5;
constexpr double kShrink = 0.6;
constexpr int kMostRounds = 400;
constexpr double kGain = 1e-9;  // a smaller one is none

}  // namespace

std::vector<double> pattern_search(const std::vector<Searched>& start,
                                   const std::function<double(const std::vector<double>&)>& cost) {
  std::vector<double> at;
  for (const Searched& s : start) at.push_back(std::clamp(s.value, s.low, s.high));
  std::vector<double> step(at.size(), kFirstStep);
  double best = cost(at);
  for (int round = 0; round < kMostRounds; ++round) {
    bool moved = false;
    for (std::size_t i = 0; i < at.size(); ++i) {
      const double before = at[i];
      bool better = false;
      for (const double sign : {-1.0, 1.0}) {
        at[i] = std::clamp(before * std::exp(sign * step[i]), start[i].low, start[i].high);
        const double now = cost(at);
        if (now < best - kGain) {
          best = now;
          better = true;
          break;
        }
      }
      if (!better) at[i] = before;
      step[i] = better ? std::min(1.0, step[i] * kGrow) : step[i] * kShrink;
      moved = moved || better;
    }
    if (!moved && *std::max_element(step.begin(), step.end()) < kLastStep) break;
  }
  return at;
}

double misfit(double price, double measured) {
  if (price <= 0 || measured <= 0) return 100;
  const double e = std::log(price / measured);
  return std::abs(price / measured - 1) + 0.3 * e * e;
}

}  // namespace eratos::calibration
