// Curves in pieces: as many as a log asks for, and what no curve can follow.
#include "eratos/projection/fit_pieces.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eratos/reader/catalogue.h"

namespace eratos::projection {
namespace {

using Samples = std::vector<Sample<CollectivePoint>>;

// An all-reduce over 8 (factor 1.75) from 512 B up, by doubling.
template <class Time>
Samples log_of(const Time& seconds, int sizes = 21) {
  Samples out;
  double bytes = 512;
  for (int i = 0; i < sizes; ++i, bytes *= 2) {
    CollectivePoint p;
    p.bytes = Bytes{bytes};
    p.group = {8, 1};
    out.push_back({p, Seconds{seconds(bytes)}});
  }
  return out;
}

TEST(FitPieces, OneCurveGivesItsConstantsBack) {
  const auto fit = fit_pieces(
      "ring", 1, log_of([](double b) { return 12e-6 + 1.75 * b / 300e9 + 5e-9 * std::sqrt(b); }),
      0.05);
  ASSERT_TRUE(fit);
  ASSERT_EQ(fit->rows.size(), 1U);
  EXPECT_NEAR(fit->rows[0].alpha.value, 12e-6, 1e-9);
  EXPECT_NEAR(fit->rows[0].busbw.value / 300e9, 1, 1e-3);
  EXPECT_NEAR(fit->rows[0].gamma, 5e-9, 1e-11);
  EXPECT_LT(fit->worst, 1e-4);
  EXPECT_EQ(fit->beyond, 0);
}

TEST(FitPieces, AJumpAsksForTwo) {
  const auto fit =
      fit_pieces("ring", 1, log_of([](double b) {
                   return b <= 65536 ? 8e-6 + 1.75 * b / 10e9 : 20e-6 + 1.75 * b / 100e9;
                 }),
                 0.05);
  ASSERT_TRUE(fit);
  ASSERT_EQ(fit->rows.size(), 2U);
  EXPECT_EQ(fit->rows[1].from.value, 65537);
  EXPECT_NEAR(fit->rows[0].busbw.value / 10e9, 1, 1e-3);
  EXPECT_NEAR(fit->rows[1].busbw.value / 100e9, 1, 1e-3);
  EXPECT_LT(fit->worst, 1e-3);
}

TEST(FitPieces, ATimeThatFallsIsCountedNotFollowed) {
  // One size in the middle takes three times as long as its neighbours.
  const auto smooth = [](double b) { return 10e-6 + 1.75 * b / 200e9; };
  const auto fit = fit_pieces(
      "ring", 1, log_of([&](double b) { return b == 16384 ? 3 * smooth(b) : smooth(b); }), 0.05);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->beyond, 1);
  EXPECT_EQ(fit->worst_at.value, 16384);
  EXPECT_NEAR(fit->worst, 2.0 / 3, 0.02);
  EXPECT_LT(fit->median, 0.01);
}

TEST(FitPieces, RepeatedSizesCountAsTheirMeanAndFewAreNone) {
  Samples twice = log_of([](double) { return 10e-6; });
  const Samples slower = log_of([](double) { return 12e-6; });
  twice.insert(twice.end(), slower.begin(), slower.end());
  const auto fit = fit_pieces("ring", 1, twice, 0.05);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->rows[0].alpha.value, 11e-6, 1e-10);
  EXPECT_FALSE(fit_pieces("ring", 1, log_of([](double) { return 1e-5; }, 3), 0.05));
  EXPECT_FALSE(fit_pieces("ring", 1, {}, 0.05));
}

TEST(FitNetwork, FindsTheShareThatMadeTheLog) {
  const auto cluster = reader::load_cluster("h100-sxm-2x8");
  const auto calibration = reader::load_calibration("h100-sxm");
  ASSERT_TRUE(cluster && calibration);
  calibration::PartCalibration truth = calibration->part;
  truth.network.share = 0.6;
  truth.network.alpha = microseconds(30);
  truth.network.gamma = 40e-9;
  const PointPricer pricer(cluster->accelerator, truth);
  Samples samples;
  for (double bytes = 65536; bytes < 5e9; bytes *= 4) {
    CollectivePoint p;
    p.bytes = Bytes{bytes};
    p.cluster = *cluster;
    p.group = {16, 1};
    samples.push_back({p, pricer.price(p)});
  }
  const auto found = fit_network(cluster->accelerator, calibration->part, samples);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->share, 0.6, 0.01);
  // A group that stays inside its domain says nothing of the network.
  for (auto& s : samples) s.point.group = {8, 1};
  EXPECT_FALSE(fit_network(cluster->accelerator, calibration->part, samples));
}

}  // namespace
}  // namespace eratos::projection
