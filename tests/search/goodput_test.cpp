// The share of time that counts, against published intervals, a simulation, and limits.
#include <gtest/gtest.h>

#include <cmath>

#include "eratos/base/rng.h"
#include "eratos/base/units.h"
#include "eratos/search/goodput.h"

namespace eratos::search {
namespace {

constexpr double kMinute = 60;
constexpr double kHour = 3600;

// Source: Daly 2006, figures 3 to 5, in minutes: 117, 57 and 9.1 for failures every 24 h, 6 h and
// 15 min, checkpoints of 5 min.
TEST(Goodput, IntervalsAreDalys) {
  const Seconds write{5 * kMinute};
  EXPECT_EQ(std::round(best_interval(Seconds{24 * kHour}, write).value / kMinute), 117);
  EXPECT_EQ(std::round(best_interval(Seconds{6 * kHour}, write).value / kMinute), 57);
  EXPECT_NEAR(best_interval(Seconds{15 * kMinute}, write).value / kMinute, 9.1, 0.05);
  EXPECT_EQ(best_interval(Seconds{100}, Seconds{200}).value, 100);
}

// Work in intervals with failures at exponential distances, restarts that may fail as well.
double simulated_useful(double m, double write, double restart, double tau, Rng& rng) {
  const auto next_failure = [&] {
    return -m * std::log((static_cast<double>(rng.below(1U << 30)) + 0.5) / (1U << 30));
  };
  double wall = 0;
  constexpr int kIntervals = 40'000;
  double left = next_failure();
  for (int i = 0; i < kIntervals;) {
    if (left >= tau + write) {
      left -= tau + write;
      wall += tau + write;
      ++i;
      continue;
    }
    wall += left;
    left = next_failure();
    while (left < restart) {  // the restart fails, too
      wall += left;
      left = next_failure();
    }
    left -= restart;
    wall += restart;
  }
  return kIntervals * tau / wall;
}

TEST(Goodput, IsWhatASimulationFinds) {
  Rng rng(7);
  for (const double m : {2 * kHour, 8 * kHour, 48 * kHour}) {
    for (const double write : {20.0, 5 * kMinute}) {
      const Failures f{m / kHour * 16, false, Seconds{write}, Seconds{10 * kMinute}, Seconds{0}};
      const Goodput g = goodput_of(f, 16, 128);
      EXPECT_NEAR(g.between_failures.value, m, 1e-6 * m);
      const double found = simulated_useful(m, write, 10 * kMinute, g.interval.value, rng);
      EXPECT_NEAR(g.useful, found, 0.01) << m << " " << write;
      EXPECT_NEAR(g.useful + g.writing + g.redone + g.restarting, 1, 1e-12);
      for (const double other : {0.7, 1.4}) {
        Failures elsewhere = f;
        elsewhere.every = g.interval * other;
        EXPECT_LT(goodput_of(elsewhere, 16, 128).useful, g.useful);
      }
    }
  }
}

// Source: arXiv 2407.21783, section 3.3.4: 419 unexpected interruptions in 54 days of 16,384 GPUs,
// more than 90 % of the time effective: so within ten minutes a restart and half a minute a
// checkpoint, and reached with five minutes and ten seconds.
TEST(Goodput, LlamaThreeWasEffectiveNineTenthsOfTheTime) {
  const double hours_of_gpu = 54.0 * 24 * 16384 / 419;
  const auto at = [&](double write, double restart) {
    return goodput_of({hours_of_gpu, true, Seconds{write}, Seconds{restart}, Seconds{0}}, 2048,
                      16384);
  };
  EXPECT_NEAR(at(30, 600).between_failures.value / kHour, 3.09, 0.01);
  EXPECT_GT(at(10, 5 * kMinute).useful, 0.9);
  EXPECT_LT(at(30, 10 * kMinute).useful, 0.9);
}

TEST(Goodput, NothingFails) {
  EXPECT_EQ(goodput_of({}, 16, 128).useful, 1);
  Failures f;
  f.write = Seconds{60};
  f.every = Seconds{540};
  EXPECT_EQ(goodput_of(f, 16, 128).useful, 0.9);
}

}  // namespace
}  // namespace eratos::search
