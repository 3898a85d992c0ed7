// The knee of curves whose knee is known.
#include <gtest/gtest.h>

#include <vector>

#include "eratos/search/knee.h"

namespace eratos::search {
namespace {

// The header's example.
TEST(Knee, IsWhereSpeedTimesEfficiencyIsHighest) {
  const std::vector<SizePoint> points{{8, 8e3}, {16, 14e3}, {32, 18e3}};
  EXPECT_EQ(knee_of(points), 1U);
}

// Amdahl's law with serial share s: X = W / (1 + s (W - 1)), whose X^2 / W is highest at
// W = (1 - s) / s.
TEST(Knee, OfAmdahlsLaw) {
  for (const int at : {16, 64}) {
    const double serial = 1.0 / (at + 1);
    std::vector<SizePoint> points;
    for (int w = 1; w <= 1024; w *= 2) points.push_back({w, w / (1 + serial * (w - 1))});
    const auto knee = knee_of(points);
    ASSERT_TRUE(knee);
    EXPECT_EQ(points[*knee].gpus, at);
  }
}

TEST(Knee, NoneWhereNothingBends) {
  EXPECT_FALSE(knee_of(std::vector<SizePoint>{{8, 8}, {16, 16}, {32, 32}}));
  EXPECT_FALSE(knee_of(std::vector<SizePoint>{{8, 8}, {16, 9}}));
  EXPECT_FALSE(knee_of({}));
  EXPECT_EQ(knee_of(std::vector<SizePoint>{{8, 8}, {16, 8}, {32, 8}}), 0U);
}

}  // namespace
}  // namespace eratos::search
