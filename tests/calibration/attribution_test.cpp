// How a residual is shared, on figures worked by hand.
#include "eratos/calibration/attribution.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

namespace eratos::calibration {
namespace {

constexpr Parameter kProducts{.path = "products", .least = 0.4, .most = 2, .spread = 0.1};
constexpr Parameter kLaunches{.path = "launches", .least = 1e-6, .most = 1e-3, .spread = 0.35};
constexpr Parameter kNetwork{.path = "network", .least = 0.1, .most = 1, .spread = 0.25};

std::vector<Attributed> step() {
  return {{.parameter = &kProducts, .before = 1, .after = 1, .slope = 0.6},
          {.parameter = &kLaunches, .before = 1e-5, .after = 1e-5, .slope = 0.1},
          {.parameter = &kNetwork, .before = 0.9, .after = 0.9, .slope = 0}};
}

double u(const Attributed& c) { return std::log(c.after / c.before); }

// The header's example: s^2 J^2 0.0036 and 0.001225, noise^2 0.0016, together 0.006425.
TEST(Attribution, SharesByVarianceTimesShare) {
  const double r = std::log(1.1);
  std::vector<Attributed> all = step();
  attribute(r, all);
  EXPECT_NEAR(0.6 * u(all[0]), r * 0.0036 / 0.006425, 1e-12);
  EXPECT_NEAR(0.1 * u(all[1]), r * 0.001225 / 0.006425, 1e-12);
  EXPECT_EQ(all[2].after, 0.9) << "a constant that the figure does not read keeps its value";
  EXPECT_NEAR(0.6 * u(all[0]), 0.0534, 5e-5);
  EXPECT_NEAR(0.1 * u(all[1]), 0.0182, 5e-5);
}

// A linear figure is explained in one step: asked again where it then is, nothing moves.
TEST(Attribution, StaysWhereItIsLeast) {
  const double r = std::log(1.1);
  std::vector<Attributed> all = step();
  attribute(r, all);
  const std::vector<Attributed> once = all;
  attribute(r - 0.6 * u(all[0]) - 0.1 * u(all[1]), all);
  EXPECT_NEAR(u(all[0]), u(once[0]), 1e-12);
  EXPECT_NEAR(u(all[1]), u(once[1]), 1e-12);
}

// Products may grow by 2% only, so launches explain what is left: r - 0.6 ln 1.02, of which
// 0.001225 / (0.001225 + 0.0016).
TEST(Attribution, AnEndOfARangeLeavesTheRestToOthers) {
  constexpr Parameter kNarrow{.path = "products", .least = 0.4, .most = 1.02, .spread = 0.1};
  std::vector<Attributed> all = step();
  all[0].parameter = &kNarrow;
  const double r = std::log(1.1);
  attribute(r, all);
  EXPECT_DOUBLE_EQ(all[0].after, 1.02);
  EXPECT_TRUE(all[0].held);
  EXPECT_NEAR(0.1 * u(all[1]), (r - 0.6 * std::log(1.02)) * 0.001225 / 0.002825, 1e-12);
}

// Slopes that changed on the way: in proportion to their means times u, and all of it.
TEST(Attribution, DealsWhatWasExplained) {
  std::vector<Attributed> all = step();
  all[0].after = std::exp(0.1);
  all[1].after = 1e-5 * std::exp(0.2);
  const std::array<double, 3> first{0.8, 0.1, 0};
  deal(0.1, first, all);
  EXPECT_NEAR(all[0].explains, 0.1 * 0.07 / 0.09, 1e-12);  // (0.8 + 0.6) / 2 * 0.1
  EXPECT_NEAR(all[1].explains, 0.1 * 0.02 / 0.09, 1e-12);
  EXPECT_EQ(all[2].explains, 0);
}

}  // namespace
}  // namespace eratos::calibration
