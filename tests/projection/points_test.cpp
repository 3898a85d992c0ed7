#include "eratos/projection/points.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "eratos/projection/fit_points.h"

namespace eratos::projection {
namespace {

// 10 units; a 256x128 tile takes 1 us for every 1024 of K; 1 TB/s.
hardware::AcceleratorSpec toy() {
  hardware::AcceleratorSpec part;
  part.compute_units = 10;
  part.peak[static_cast<std::size_t>(DType::bf16)] =
      FlopsPerSecond{10 * 2.0 * 256 * 128 * 1024 * 1e6};
  part.memory_bandwidth = BytesPerSecond{1e12};
  return part;
}

calibration::PartCalibration perfect() {
  calibration::PartCalibration c;
  calibration::GemmCurve& gemm = c.gemm[static_cast<std::size_t>(DType::bf16)];
  gemm.peak_fraction = 1;
  gemm.in_training = 0.5;
  gemm.tile = {1, 0.5, 0.5, 0.5};
  gemm.memory = 1;
  gemm.split_launch = Seconds{1};
  c.elementwise.share = {0.5, 0.8, 0.4, 0.5, 0.25, 0.5};
  c.elementwise.launch = microseconds(2);
  c.casts = {{"cast", 0.5, microseconds(3), ""}};
  c.attention.default_kernel = "flash2";
  c.attention.curves = {
      {"flash2", false, true, 128, DType::bf16, FlopsPerSecond{1e14}, 1000, 0, ""},
      {"flash2", true, true, 128, DType::bf16, FlopsPerSecond{1e14}, 1000, 0, ""},
      {"flash2", false, true, 128, DType::fp8, FlopsPerSecond{2e14}, 0, 0, ""}};
  return c;
}

GemmPoint product(double m, double n, double k, double groups = 1) {
  GemmPoint point;
  point.product.m = m;
  point.product.n = n;
  point.product.k = k;
  point.product.groups = groups;
  return point;
}

double us(Seconds s) { return s.value * 1e6; }

// 160 tiles of 256x128 on 10 units: 16 waves of K 8192, 8 us each. Twice that in a step.
TEST(Points, AProductAloneAndAtThePowerLimit) {
  const auto part = toy();
  const auto calibration = perfect();
  const PointPricer pricer(part, calibration);
  GemmPoint point = product(2560, 2048, 8192);
  EXPECT_NEAR(us(pricer.price(point)), 128, 1e-6);
  point.setting = kernel::Setting::in_training;
  EXPECT_NEAR(us(pricer.price(point)), 256, 1e-6);
}

// The cast moves 6 MB at half of 1 TB/s, 12 us, and starts in 3; the call from Python takes 20.
TEST(Points, ACastAndACallStandBesideTheProduct) {
  const auto part = toy();
  const auto calibration = perfect();
  const PointPricer pricer(part, calibration);
  GemmPoint point = product(2560, 2048, 8192);
  point.cast = "cast";
  point.cast_traffic = Bytes{6e6};
  point.fixed = microseconds(20);
  EXPECT_NEAR(us(pricer.price(point)), 128 + 15 + 20, 1e-6);
}

// 16 groups launched one by one, 9 us each, are slower than the product itself.
TEST(Points, GroupsThatAreLaunchedOneByOne) {
  const auto part = toy();
  const auto calibration = perfect();
  const PointPricer pricer(part, calibration);
  GemmPoint point = product(2560, 256, 1024, 16);
  const double together = us(pricer.price(point));
  point.per_group = microseconds(9);
  EXPECT_LT(together, 144);
  EXPECT_NEAR(us(pricer.price(point)), 144, 1e-9);
}

TEST(Points, WhatTheCalibrationLacksHasNoPrice) {
  const auto part = toy();
  const auto calibration = perfect();
  const PointPricer pricer(part, calibration);
  GemmPoint point = product(2560, 2048, 8192);
  point.library = "another";
  EXPECT_EQ(pricer.price(point).value, 0);
  point.library.clear();
  point.cast = "another";
  EXPECT_EQ(pricer.price(point).value, 0);
  AttentionPoint attention;
  attention.kernel = "flash9";
  EXPECT_EQ(pricer.price(attention).value, 0);
}

// 2 * 1 * 32 * 4096 * 2048 * 256 FLOP = 137.4 GFLOP forward. Times 1 + 1000/4096 at 100 TFLOP/s and
// 2 us: 1,711.9 us; both passes 1 + 2.5 times the work. In fp8 its own row: 687.2 + 2 us.
TEST(Points, AttentionForwardAndBothPasses) {
  const auto part = toy();
  const auto calibration = perfect();
  const PointPricer pricer(part, calibration);
  AttentionPoint point;
  point.kernel = "flash2";
  point.work.batch = 1;
  point.work.heads = point.work.kv_heads = 32;
  point.work.seq_q = point.work.seq_kv = 4096;
  point.work.head_dim = point.work.v_head_dim = 128;
  const double work = 137.438953472e9 / 1e14 * (1 + 1000.0 / 4096) * 1e6;
  EXPECT_NEAR(us(pricer.price(point)), work + 2, 1e-6);
  point.both_passes = true;
  EXPECT_NEAR(us(pricer.price(point)), 3.5 * work + 4, 1e-6);
  point.both_passes = false;
  point.work.dtype = DType::fp8;
  EXPECT_NEAR(us(pricer.price(point)), 137.438953472e9 / 2e14 * 1e6 + 2, 1e-6);
  // 4 MB beside it at half of 1 TB/s: 8 us and a launch.
  point.beside = Bytes{4e6};
  EXPECT_NEAR(us(pricer.price(point)), 137.438953472e9 / 2e14 * 1e6 + 2 + 8 + 2, 1e-6);
}

// Products priced with known constants give them back, in the rate of a large product at least.
TEST(FitPoints, FindsTheRateThatMadeThePoints) {
  const auto part = toy();
  calibration::PartCalibration truth = perfect();
  calibration::GemmCurve& curve = truth.gemm[static_cast<std::size_t>(DType::bf16)];
  curve.peak_fraction = 0.6;
  curve.tile = {1, 0.9, 0.8, 0.7};
  const PointPricer pricer(part, truth);
  std::vector<Sample<GemmPoint>> samples;
  for (const double m : {512, 1024, 4096}) {
    for (const double n : {1024, 2048, 8192}) {
      for (const double k : {1024, 4096}) {
        const GemmPoint point = product(m, n, k);
        samples.push_back({point, pricer.price(point)});
      }
    }
  }
  const auto fit = fit_gemm(part, truth, samples);
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->curve.peak_fraction, 0.6, 0.05);
  // What a step takes does not move.
  calibration::PartCalibration fitted;
  fitted.gemm[static_cast<std::size_t>(DType::bf16)] = fit->curve;
  GemmPoint large = product(8192, 8192, 8192);
  large.setting = kernel::Setting::in_training;
  EXPECT_NEAR(PointPricer(part, fitted).price(large) / pricer.price(large), 1, 1e-6);
  // Again: the same bytes.
  EXPECT_EQ(fit_gemm(part, truth, samples)->curve.peak_fraction, fit->curve.peak_fraction);
}

// 0.1 ms at 10 us, 400 GB/s and 5 ns for each root of a byte.
TEST(FitPoints, FindsTheCurveOfACollective) {
  std::vector<Sample<CollectivePoint>> samples;
  for (double b = 4096; b < 1e9; b *= 8) {
    CollectivePoint point;
    point.kind = ops::CollectiveKind::all_gather;
    point.bytes = Bytes{b};
    point.group = {8, 1};
    hardware::NetworkLevel node;
    node.gpus = 8;
    point.cluster.levels.push_back(node);
    samples.push_back({point, Seconds{10e-6 + 7.0 / 8 * b / 400e9 + 5e-9 * std::sqrt(b)}});
  }
  const auto curve = fit_collective("ring", samples);
  ASSERT_TRUE(curve.has_value());
  EXPECT_NEAR(curve->alpha.value * 1e6, 10, 0.5);
  EXPECT_NEAR(curve->busbw.value * 1e-9, 400, 10);
  EXPECT_NEAR(curve->gamma * 1e9, 5, 0.5);
}

}  // namespace
}  // namespace eratos::projection
