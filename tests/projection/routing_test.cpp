// Uneven routing: the probability of running out against draws, and the answers that follow from it.
#include "eratos/projection/routing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "eratos/base/rng.h"

namespace eratos::projection {
namespace {

double normal(Rng& rng) {
  const double u = 1 - rng.uniform();
  return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * rng.uniform());
}

// Ranks drawn layer by layer, window by window.
double drawn(Bytes limit, const StageLoad& stage, const ops::LoadSpread& s, int ranks, int windows) {
  Rng rng(11);
  constexpr int kRuns = 2000;
  const int layers = static_cast<int>(stage.layers);
  const int flight = static_cast<int>(stage.in_flight);
  int inside = 0;
  for (int run = 0; run < kRuns; ++run) {
    bool all = true;
    for (int rank = 0; rank < ranks && all; ++rank) {
      std::vector<double> popular(static_cast<std::size_t>(layers));
      for (double& x : popular) x = ops::load_at(s.popularity, normal(rng));
      for (int window = 0; window < windows && all; ++window) {
        double kept = 0;
        double last = 0;
        for (int i = 0; i < layers * flight; ++i) {
          last = popular[static_cast<std::size_t>(i % layers)] + std::sqrt(s.chance) * normal(rng);
          kept += last / (layers * flight);
        }
        all = stage.even + stage.kept * (kept - 1) + stage.transient * (last - 1) <= limit;
      }
    }
    inside += all ? 1 : 0;
  }
  return static_cast<double>(inside) / kRuns;
}

TEST(Routing, ProbabilityAgreesWithDraws) {
  const StageLoad stage{Bytes{60e9}, Bytes{20e9}, Bytes{3e9}, 6, 2};
  ops::LoadSpread spread;
  spread.popularity = 0.02;
  spread.chance = 0.002;
  for (const double limit : {62e9, 63e9, 64e9, 66e9}) {
    const double modelled = stays_below(Bytes{limit}, stage, spread, 4, 20);
    EXPECT_NEAR(modelled, drawn(Bytes{limit}, stage, spread, 4, 20), 0.05) << limit;
  }
}

TEST(Routing, ChanceAloneAgreesWithDraws) {
  const StageLoad stage{Bytes{60e9}, Bytes{20e9}, Bytes{0}, 4, 1};
  ops::LoadSpread spread;
  spread.chance = 0.004;
  for (const double limit : {61e9, 61.5e9, 62e9}) {
    const double modelled = stays_below(Bytes{limit}, stage, spread, 8, 10);
    EXPECT_NEAR(modelled, drawn(Bytes{limit}, stage, spread, 8, 10), 0.03) << limit;
  }
}

TEST(Routing, MoreRoomOrFewerWindowsNeverHurt) {
  const StageLoad stage{Bytes{60e9}, Bytes{20e9}, Bytes{3e9}, 6, 2};
  ops::LoadSpread spread;
  spread.popularity = 0.02;
  spread.chance = 0.002;
  double last = 0;
  for (double limit = 58e9; limit < 75e9; limit += 0.5e9) {
    const double p = stays_below(Bytes{limit}, stage, spread, 8, 1000);
    EXPECT_GE(p, last - 1e-9);
    EXPECT_LE(p, stays_below(Bytes{limit}, stage, spread, 8, 10) + 1e-9);
    last = p;
  }
  EXPECT_GT(last, 0.99);
}

}  // namespace
}  // namespace eratos::projection
