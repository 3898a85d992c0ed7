// Loads of ranks against a Monte-Carlo oracle that draws tokens one by one.
#include "eratos/ops/load.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "eratos/base/rng.h"

namespace eratos::ops {
namespace {

double normal(Rng& rng) {
  const double u = 1 - rng.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * rng.uniform());
}

// Source: G. Marsaglia, W. W. Tsang, "A Simple Method for Generating Gamma Variables", 2000.
double gamma(Rng& rng, double shape) {
  if (shape < 1) return gamma(rng, shape + 1) * std::pow(1 - rng.uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  for (;;) {
    const double x = normal(rng);
    const double v = std::pow(1 + x / std::sqrt(9 * d), 3);
    if (v > 0 && std::log(1 - rng.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

// Popularities of a Dirichlet whose deviation is `skew`.
std::vector<double> popularity(Rng& rng, int experts, double skew) {
  std::vector<double> p(static_cast<std::size_t>(experts), 1.0);
  if (skew > 0) {
    const double shape = ((experts - 1) / (skew * skew) - 1) / experts;
    for (double& x : p) x = gamma(rng, shape);
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& x : p) x /= sum;
  return p;
}

// Rows of each expert: every token draws `chosen` different ones where all are alike, else one.
std::vector<double> rows(Rng& rng, const Routing& r, const std::vector<double>& p) {
  std::vector<double> counts(p.size(), 0.0);
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<double> below(p.size());
  std::partial_sum(p.begin(), p.end(), below.begin());
  for (int token = 0; token < r.tokens; ++token) {
    if (r.chosen == 1) {
      const auto at = std::lower_bound(below.begin(), below.end(), rng.uniform() * below.back());
      counts[static_cast<std::size_t>(std::min(at, below.end() - 1) - below.begin())] += 1;
      continue;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(r.chosen); ++i) {
      std::swap(order[i], order[i + rng.below(order.size() - i)]);
      counts[order[i]] += 1;
    }
  }
  return counts;
}

// Mean of the most loaded rank, against the rows that equal shares keep.
double drawn_most(const Routing& r, int draws) {
  Rng rng(7);
  const double share = r.tokens * r.chosen / r.experts;
  const double kept = r.capacity > 0 ? std::min(1.0, r.capacity) : 1.0;
  double sum = 0;
  for (int draw = 0; draw < draws; ++draw) {
    const std::vector<double> all = rows(rng, r, popularity(rng, r.experts, r.skew));
    double most = 0;
    const int each = r.experts / r.ranks;
    for (int rank = 0; rank < r.ranks; ++rank) {
      double load = 0;
      for (int i = 0; i < each; ++i) {
        const double x = all[static_cast<std::size_t>(rank * each + i)] / share;
        load += (r.capacity > 0 ? std::min(x, r.capacity) : x) / each;
      }
      most = std::max(most, load / kept);
    }
    sum += most;
  }
  return sum / draws;
}

double modelled_most(const Routing& r) { return mean_of_most(load_spread(r), r.ranks); }

TEST(Load, VarianceWorkedByHand) {
  const LoadSpread s = load_spread({128, 8, 8, 32768, 0.5, 0});
  EXPECT_NEAR(s.popularity, 0.25 * 7 / 127, 1e-12);
  EXPECT_NEAR(s.chance, 7.0 * 120 / (32768.0 * 8 * 127), 1e-15);
  EXPECT_DOUBLE_EQ(s.mean, 1);
}

TEST(Load, OneRankIsEven) {
  EXPECT_TRUE(load_spread({64, 4, 1, 4096, 1, 0}).even());
  EXPECT_DOUBLE_EQ(mean_of_most({}, 8), 1);
}

// Every expert chosen by every token: nothing is left to chance.
TEST(Load, AllExpertsChosenLeaveNoChance) { EXPECT_TRUE(load_spread({8, 8, 4, 100, 0, 0}).even()); }

TEST(Load, ALoadHasItsMeanAndVariance) {
  for (const double variance : {1e-4, 0.04, 0.5}) {
    double all = 0;
    double mean = 0;
    double square = 0;
    for (double z = -9; z < 9; z += 0.01) {
      const double w = normal_density(z);
      const double x = load_at(variance, z);
      all += w;
      mean += w * x;
      square += w * x * x;
    }
    mean /= all;
    EXPECT_NEAR(mean, 1, 0.003) << variance;
    EXPECT_NEAR(square / all - mean * mean, variance, 0.03 * variance) << variance;
  }
}

TEST(Load, ChanceAloneAgreesWithDrawnTokens) {
  for (const Routing& r : {Routing{64, 6, 8, 2048, 0, 0}, Routing{32, 2, 4, 512, 0, 0},
                           Routing{128, 8, 64, 1024, 0, 0}}) {
    const double drawn = drawn_most(r, 400);
    // Of what lies above the mean.
    EXPECT_NEAR((modelled_most(r) - 1) / (drawn - 1), 1, 0.06) << r.experts;
  }
}

TEST(Load, SkewAgreesWithDrawnTokens) {
  for (const Routing& r :
       {Routing{64, 1, 8, 4096, 0.3, 0}, Routing{64, 1, 8, 4096, 1, 0},
        Routing{128, 1, 64, 8192, 0.6, 0}, Routing{16, 1, 16, 4096, 0.5, 0}}) {
    const double drawn = drawn_most(r, 600);
    EXPECT_NEAR((modelled_most(r) - 1) / (drawn - 1), 1, 0.05) << r.experts << ' ' << r.skew;
  }
}

TEST(Load, ACapacityCutsWhatComes) {
  for (const Routing& r : {Routing{64, 1, 8, 8192, 0.5, 1.25}, Routing{64, 1, 8, 8192, 0.5, 1},
                           Routing{64, 1, 16, 8192, 1, 2}}) {
    EXPECT_NEAR(modelled_most(r), drawn_most(r, 400), 0.02) << r.capacity;
    EXPECT_LE(modelled_most(r), r.capacity / std::min(1.0, r.capacity));
  }
}

TEST(Load, MoreSkewIsNeverBetter) {
  double last = 1;
  for (const double skew : {0.0, 0.1, 0.2, 0.5, 1.0, 2.0}) {
    const double most = modelled_most({128, 8, 16, 65536, skew, 0});
    EXPECT_GT(most, last);
    last = most;
  }
  // 8 of 128 experts take everything: their ranks have 16 times the mean at most.
  EXPECT_DOUBLE_EQ(largest_skew(128, 8), std::sqrt(15.0));
  EXPECT_LE(modelled_most({128, 8, 128, 65536, largest_skew(128, 8), 0}), 16);
}

}  // namespace
}  // namespace eratos::ops
