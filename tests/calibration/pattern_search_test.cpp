#include "eratos/calibration/pattern_search.h"

#include <gtest/gtest.h>

#include <cmath>

namespace eratos::calibration {
namespace {

TEST(PatternSearch, FindsTheLeastOfABowl) {
  const auto at = pattern_search({{1, 0.1, 10}, {1, 0.1, 10}}, [](const std::vector<double>& x) {
    return (x[0] - 3) * (x[0] - 3) + (x[1] - 5) * (x[1] - 5);
  });
  EXPECT_NEAR(at[0], 3, 0.01);
  EXPECT_NEAR(at[1], 5, 0.01);
}

TEST(PatternSearch, StaysInsideItsBounds) {
  const auto at = pattern_search({{1, 0.5, 2}}, [](const std::vector<double>& x) { return -x[0]; });
  EXPECT_EQ(at[0], 2);
}

// 0.1 too slow: 0.1 and 0.3 of the square of ln 1.1. A price that is none costs more than any that is.
TEST(Misfit, IsTheRelativeErrorAndMore) {
  EXPECT_NEAR(misfit(1.1, 1), 0.1 + 0.3 * std::log(1.1) * std::log(1.1), 1e-12);
  EXPECT_GT(misfit(0.01, 1), misfit(0.5, 1));
  EXPECT_GT(misfit(0, 1), misfit(50, 1));
}

}  // namespace
}  // namespace eratos::calibration
