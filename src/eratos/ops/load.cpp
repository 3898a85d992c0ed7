#include "eratos/ops/load.h"

#include <algorithm>
#include <cmath>

namespace eratos::ops {

namespace {

// Integrals over a normal variable: beyond these nothing that counts is left, also of the largest of
// 10,000. The trapezoid rule converges faster than any power on such functions.
constexpr double kLeast = -8;
constexpr double kMost = 8;
constexpr int kSteps = 96;

// Mean of `f` under the density `weight`, scaled to 1.
template <class Weight, class Function>
double mean_over(const Weight& weight, const Function& f) {
  double all = 0;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double z = kLeast + (kMost - kLeast) * i / kSteps;
    const double w = weight(z);
    all += w;
    sum += w * f(z);
  }
  return sum / all;
}

// One expert's load, cut at `capacity`: its mean and variance.
LoadSpread cut_expert(double popularity, double chance, double capacity) {
  const double variance = popularity + chance;
  const auto cut = [&](double z) { return std::min(capacity, load_at(variance, z)); };
  LoadSpread out;
  out.mean = mean_over(normal_density, cut);
  const double left = mean_over(normal_density, [&](double z) {
    const double off = cut(z) - out.mean;
    return off * off;
  });
  out.popularity = variance > 0 ? left * popularity / variance : 0;
  out.chance = left - out.popularity;
  return out;
}

}  // namespace

double normal_density(double z) {
  constexpr double kInverseRoot = 0.3989422804014327;  // 1 / sqrt(2 pi)
  return kInverseRoot * std::exp(-0.5 * z * z);
}

double normal_below(double z) { return 0.5 * std::erfc(-z * 0.7071067811865476); }

double load_at(double variance, double z) {
  const double root = 1 - variance / 9 + z * std::sqrt(variance) / 3;
  return root > 0 ? root * root * root : 0;
}

Largest largest_of_normals(double n) {
  if (n <= 1) return {};
  const double tail = (0.625) / (n + 0.25);  // 1 - (n - 3/8) / (n + 1/4)
  const double t = std::sqrt(-2 * std::log(tail));
  Largest out;
  out.mean = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                     (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  constexpr double kGumbel = 12 / 9.869604401089358;  // 12 / pi^2
  out.variance = 1 / (1 + kGumbel * std::log(n));
  return out;
}

double largest_skew(int experts, int chosen) {
  return std::sqrt(std::max(0.0, static_cast<double>(experts) / chosen - 1));
}

LoadSpread load_spread(const Routing& routing) {
  LoadSpread out;
  const double experts = routing.experts;
  const double others = experts - 1;
  if (routing.ranks <= 1 || others <= 0) return out;
  const double of_expert = routing.skew * routing.skew;
  const double chance = (experts - routing.chosen) / (routing.tokens * routing.chosen);
  // Of a rank's mean over its E/e experts, against one expert's.
  const double share = (routing.ranks - 1) / others;
  if (routing.capacity <= 0) {
    out.popularity = of_expert * share;
    out.chance = chance * share;
    out.largest = std::min<double>(routing.ranks, experts / routing.chosen);
    return out;
  }
  out = cut_expert(of_expert, chance, routing.capacity);
  out.popularity *= share;
  out.chance *= share;
  // Against the rows that equal shares would keep.
  const double kept = std::min(1.0, routing.capacity);
  out.mean /= kept;
  out.popularity /= kept * kept;
  out.chance /= kept * kept;
  out.largest = routing.capacity / kept;
  out.cut = true;
  return out;
}

double mean_of_most(const LoadSpread& spread, int ranks) {
  if (ranks <= 1 || spread.even()) return spread.mean;
  // Of independent ranks whose loads, less their mean, vary as these do.
  const double relative = spread.variance() / (spread.mean * spread.mean);
  const double alone = ranks * relative / (ranks - 1.0);
  const double shape = std::max(1e-6, (ranks - 1) / relative - 1) / ranks;
  const auto largest_of_ranks = [&](double z) {
    return normal_density(z) * std::pow(normal_below(z), ranks - 1);
  };
  return mean_over(largest_of_ranks, [&](double z) {
    const double load = spread.cut ? 1 + z * std::sqrt(alone) : load_at(1 / shape, z);
    const double rows = spread.mean * load;
    return spread.largest > 0 ? std::min(rows, spread.largest) : rows;
  });
}

}  // namespace eratos::ops
