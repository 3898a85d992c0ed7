// The fit against problems whose answer is known: synthetic rows with noise, outliers, bounds, and
// constants that nothing informs.
#include "eratos/calibration/fit.h"

#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/base/rng.h"

namespace eratos::calibration {
namespace {

// A row's time is the sum of shares / x over its constants: rates that a step divides its work by.
struct Synthetic {
  struct Row {
    std::vector<double> shares;  // by constant; 0: does not read it
    double noise = 0;            // ln measured
  };
  std::vector<double> truth;
  std::vector<Row> rows;
  FitProblem problem;

  double time(const Row& row, const std::vector<double>& x) const {
    double t = 0;
    for (std::size_t i = 0; i < x.size(); ++i) t += row.shares[i] / x[i];
    return t;
  }

  void finish() {
    for (std::size_t i = 0; i < truth.size(); ++i) {
      problem.parameters.push_back({.prior = 0.8, .spread = 0.3, .least = 0.2, .most = 1.0});
    }
    int source = 0;
    for (const Row& row : rows) {
      FitRow out;
      out.source = source++;  // each its own: all weigh 1
      for (std::size_t i = 0; i < row.shares.size(); ++i) {
        if (row.shares[i] > 0) out.parameters.push_back(static_cast<int>(i));
      }
      problem.rows.push_back(out);
    }
    // Speed is the inverse of time.
    problem.evaluate = [this](std::span<const double> x, std::span<const Probe> probes,
                              std::span<double> out) {
      for (std::size_t i = 0; i < probes.size(); ++i) {
        std::vector<double> at(x.begin(), x.end());
        if (probes[i].parameter >= 0) at[static_cast<std::size_t>(probes[i].parameter)] = probes[i].value;
        const Row& row = rows[static_cast<std::size_t>(probes[i].row)];
        out[i] = std::log(time(row, truth) / time(row, at)) - row.noise;
      }
    };
  }
};

std::vector<Synthetic::Row> random_rows(int n, double noise, Rng& rng) {
  std::vector<Synthetic::Row> out;
  for (int i = 0; i < n; ++i) {
    Synthetic::Row row;
    for (int j = 0; j < 3; ++j) row.shares.push_back(0.1 + rng.uniform());
    row.noise = noise * (rng.uniform() - 0.5);
    out.push_back(row);
  }
  return out;
}

TEST(Fit, RecoversConstantsFromNoisyRows) {
  Rng rng(1);
  Synthetic s;
  s.truth = {0.7, 0.5, 0.95};
  s.rows = random_rows(200, 0.04, rng);
  s.finish();
  const Fit fit(s.problem);
  EXPECT_TRUE(fit.answer().converged);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(fit.answer().values[i], s.truth[i], 0.03 * s.truth[i]) << i;
    EXPECT_EQ(fit.answer().informing[i], 200);
    EXPECT_LT(fit.answer().uncertainty[i], 0.05);
  }
}

TEST(Fit, OutliersHardlyMoveIt) {
  Rng rng(2);
  Synthetic s;
  s.truth = {0.7, 0.5, 0.9};
  s.rows = random_rows(200, 0.02, rng);
  for (std::size_t i = 0; i < 20; ++i) s.rows[10 * i].noise = -2.0;  // a tenth, 7 times too slow
  s.finish();
  const Fit fit(s.problem);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_NEAR(fit.answer().values[i], s.truth[i], 0.1 * s.truth[i]) << i;
  }
}

TEST(Fit, StopsAtABound) {
  Synthetic s;
  s.truth = {1.3};  // no share is above 1
  for (int i = 0; i < 20; ++i) s.rows.push_back({.shares = {1.0}});
  s.finish();
  const Fit fit(s.problem);
  EXPECT_DOUBLE_EQ(fit.answer().values[0], 1.0);
  EXPECT_TRUE(fit.answer().at_bound[0]);
}

TEST(Fit, WhatNoRowInformsStaysAtItsPrior) {
  Synthetic s;
  s.truth = {0.6, 0.6};
  for (int i = 0; i < 20; ++i) s.rows.push_back({.shares = {1.0, 0.0}});
  s.finish();
  const Fit fit(s.problem);
  EXPECT_NEAR(fit.answer().values[0], 0.6, 0.01);
  EXPECT_NEAR(fit.answer().values[1], 0.8, 1e-12);
  EXPECT_EQ(fit.answer().informing[1], 0);
  EXPECT_NEAR(fit.answer().uncertainty[1], 0.3, 1e-9);  // the prior's own spread
}

// The worked example of fit.h.
TEST(Fit, OneRowAgainstThePrior) {
  FitProblem problem;
  problem.parameters.push_back({.prior = 1.0, .spread = 0.1, .least = 0.1, .most = 10});
  problem.rows.push_back({.source = 0, .parameters = {0}});
  problem.evaluate = [](std::span<const double> x, std::span<const Probe> probes,
                        std::span<double> out) {
    for (std::size_t i = 0; i < probes.size(); ++i) {
      out[i] = std::log((probes[i].parameter < 0 ? x[0] : probes[i].value) / 1.1);
    }
  };
  const Fit fit(problem);
  EXPECT_NEAR(fit.answer().values[0], 1.0897, 0.002);
}

// Three rows ask for 1.05, one for 2. There r = -ln(2 / 1.05) = -0.644 pulls with 6 r / (2 0.04^2 + r^2)
// = 9.2, the three hold with 3 x 6 r / (2 0.04^2): u is 9.2 / 5,625 = 0.0016 above ln 1.05.
TEST(Fit, AWrongRowHardlyPulls) {
  FitProblem problem;
  problem.parameters.push_back({.prior = 1.0, .spread = 10, .least = 0.1, .most = 10});
  const std::vector<double> wanted{1.05, 1.05, 1.05, 2.0};
  for (int i = 0; i < 4; ++i) problem.rows.push_back({.source = i, .parameters = {0}});
  problem.evaluate = [&](std::span<const double> x, std::span<const Probe> probes,
                         std::span<double> out) {
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const double value = probes[i].parameter < 0 ? x[0] : probes[i].value;
      out[i] = std::log(value / wanted[static_cast<std::size_t>(probes[i].row)]);
    }
  };
  const Fit fit(problem);
  EXPECT_NEAR(fit.answer().values[0], 1.0517, 0.003);
}

// A source of 100 rows weighs as much as 10 of their own, so two sources that disagree meet at the
// weighted mean.
TEST(Fit, ManyRowsOfOneSourceDoNotDrownAnother) {
  FitProblem problem;
  problem.parameters.push_back({.prior = 1.0, .spread = 10, .least = 0.1, .most = 10});
  std::vector<double> wanted;
  for (int i = 0; i < 100; ++i) {
    problem.rows.push_back({.source = 7, .parameters = {0}});
    wanted.push_back(0.05);
  }
  for (int i = 0; i < 10; ++i) {
    problem.rows.push_back({.source = 100 + i, .parameters = {0}});
    wanted.push_back(-0.05);
  }
  problem.evaluate = [&](std::span<const double> x, std::span<const Probe> probes,
                         std::span<double> out) {
    for (std::size_t i = 0; i < probes.size(); ++i) {
      const double value = probes[i].parameter < 0 ? x[0] : probes[i].value;
      out[i] = std::log(value) - wanted[static_cast<std::size_t>(probes[i].row)];
    }
  };
  const Fit fit(problem);
  EXPECT_NEAR(std::log(fit.answer().values[0]), 0.0, 1e-3);
}

TEST(Fit, LeavingRowsOutIsNearlyAFitFromScratch) {
  Rng rng(3);
  Synthetic s;
  s.truth = {0.7, 0.5, 0.9};
  s.rows = random_rows(60, 0.05, rng);
  for (std::size_t i = 0; i < 20; ++i) s.rows[i].noise = 0.3;  // they disagree with the rest
  s.finish();
  std::vector<bool> left_out(60, false);
  for (std::size_t i = 0; i < 20; ++i) left_out[i] = true;
  const std::vector<double> without = Fit(s.problem).without(left_out).values;

  Synthetic rest;
  rest.truth = s.truth;
  rest.rows.assign(s.rows.begin() + 20, s.rows.end());
  rest.finish();
  const FitAnswer scratch = Fit(rest.problem).answer();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NEAR(without[i], scratch.values[i], 0.01) << i;
}

TEST(Fit, RowsThatCannotBeProjectedDoNotCount) {
  Synthetic s;
  s.truth = {0.6};
  for (int i = 0; i < 20; ++i) s.rows.push_back({.shares = {1.0}});
  s.finish();
  const Evaluate inner = s.problem.evaluate;
  s.problem.evaluate = [inner](std::span<const double> x, std::span<const Probe> probes,
                               std::span<double> out) {
    inner(x, probes, out);
    for (std::size_t i = 0; i < probes.size(); ++i) {
      if (probes[i].row == 3) out[i] = std::numeric_limits<double>::quiet_NaN();
    }
  };
  const Fit fit(s.problem);
  EXPECT_NEAR(fit.answer().values[0], 0.6, 0.01);
  EXPECT_EQ(fit.answer().informing[0], 19);
}

// Two members of a class say 0.5; the third, which no row reads, follows the class most of the way.
TEST(Fit, AMemberThatNoRowReadsFollowsItsClass) {
  Synthetic s;
  s.truth = {0.5, 0.5, 0.5, 0.5};
  for (int i = 0; i < 40; ++i) {
    s.rows.push_back({.shares = {i % 2 == 0 ? 1.0 : 0.0, i % 2 == 1 ? 1.0 : 0.0, 0.0, 0.0}});
  }
  s.finish();
  for (int i = 0; i < 3; ++i) s.problem.parameters[static_cast<std::size_t>(i)].under = 3;
  const std::vector<double> x = Fit(s.problem).answer().values;
  EXPECT_NEAR(x[0], 0.5, 0.01);
  // The class: prior 0.8 and two members' 0.5 weigh alike, so ln x = (ln 0.8 + 2 ln 0.5) / 3.
  EXPECT_NEAR(x[3], 0.585, 0.01);
  EXPECT_NEAR(x[2], x[3], 1e-9);
}

TEST(Fit, RowsThatAreOnlyJudgedMoveNothing) {
  Synthetic s;
  s.truth = {0.6};
  for (int i = 0; i < 40; ++i) s.rows.push_back({.shares = {1.0}, .noise = i < 20 ? 0.0 : 0.4});
  s.finish();
  for (std::size_t i = 20; i < 40; ++i) s.problem.rows[i].counts = false;
  const Fit fit(s.problem);
  EXPECT_NEAR(fit.answer().values[0], 0.6, 0.01);
  EXPECT_EQ(fit.answer().informing[0], 20);
  EXPECT_NEAR(fit.answer().residuals[30], -0.4, 0.02);
}

TEST(Fit, IsTheSameEveryTime) {
  Rng rng(4);
  Synthetic s;
  s.truth = {0.7, 0.5, 0.95};
  s.rows = random_rows(50, 0.1, rng);
  s.finish();
  EXPECT_EQ(Fit(s.problem).answer().values, Fit(s.problem).answer().values);
}

}  // namespace
}  // namespace eratos::calibration
