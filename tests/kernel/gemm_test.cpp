#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "eratos/base/rng.h"
#include "toy_part.h"

namespace eratos::kernel {
namespace {

using toy::gemm;
using toy::in_us;

calibration::GemmCurve& bf16(calibration::PartCalibration& c) {
  return c.gemm[static_cast<std::size_t>(DType::bf16)];
}

TEST(Gemm, FullWaveTakesOneTileTime) {
  // 10 tiles of 256x128 on 10 units; K 1024 is 1 us.
  EXPECT_NEAR(in_us(time_of(gemm(2560, 128, 1024), toy::compute_context(toy::perfect()))), 1.0,
              1e-9);
}

TEST(Gemm, OneTileMoreIsAWaveMore) {
  // 11 tiles: 2 waves. 64x64 at half rate: 88 tiles, 9 waves of 0.25 us, is no better.
  EXPECT_NEAR(in_us(time_of(gemm(2816, 128, 1024), toy::compute_context(toy::perfect()))), 2.0,
              1e-9);
}

TEST(Gemm, SmallTilesWinWhereTheyFillTheWave) {
  calibration::PartCalibration c = toy::perfect();
  bf16(c).tile = {1, 1, 1, 1};
  // 88 tiles of 64x64: 9 waves of 0.125 us.
  EXPECT_NEAR(in_us(time_of(gemm(2816, 128, 1024), toy::compute_context(c))), 1.125, 1e-9);
}

TEST(Gemm, PartialTilesPayForWholeOnes) {
  // 65 x 65 needs four 64x64 tiles (one wave, 0.25 us) as 128 x 128 does; K rounds up to 64.
  const KernelContext context = toy::compute_context(toy::perfect());
  EXPECT_EQ(in_us(time_of(gemm(65, 65, 1024), context)),
            in_us(time_of(gemm(128, 128, 1000), context)));
}

TEST(Gemm, SplitsKWhenOneTileIsAlone) {
  calibration::PartCalibration c = toy::perfect();
  bf16(c).split_launch = microseconds(0.5);
  bf16(c).tile = {1, 0.01, 0.01, 0.01};
  // One tile of K 8192: 8 us alone. Bytes: (256*8192 + 8192*128 + 256*128)*2 = 6,356,992, 3.03125
  // us. Split in 4: max(2, 3.03125) + 4*8*256*128 B (0.5 us) + 0.5 us = 4.03125 us; in 2: 4.75; in
  // 8: 4.53125.
  EXPECT_NEAR(in_us(time_of(gemm(256, 128, 8192), toy::context(c))), 4.03125, 1e-9);
}

// 108 elements of 2 bytes are 13.5 times 16 bytes.
TEST(Gemm, BatchedProductsOfBrokenRowsRunWithoutTensorCores) {
  const KernelContext context = toy::compute_context(toy::perfect());
  ops::Gemm attention = toy::gemm(16 * 2048, 2048, 108, 16);
  ops::Gemm wide = attention;
  wide.dtype = DType::fp32;
  EXPECT_EQ(time_of(attention, context).value, time_of(wide, context).value);
  EXPECT_EQ(lower_bound(attention, context).value, lower_bound(wide, context).value);
  attention.k = 112;
  EXPECT_LT(time_of(attention, context).value, 0.5 * time_of(wide, context).value);
  // Rows of experts are whatever the router sends; single products have kernels for any row.
  ops::Gemm experts = toy::gemm(16 * 2048, 2044, 1024, 16);
  experts.experts = true;
  wide = experts;
  wide.dtype = DType::fp32;
  EXPECT_LT(time_of(experts, context).value, 0.5 * time_of(wide, context).value);
  EXPECT_LT(time_of(toy::gemm(2048, 50257, 1024), context).value,
            2 * time_of(toy::gemm(2048, 50304, 1024), context).value);
}

TEST(Gemm, MemoryBoundByItsBytes) {
  // (64*8192 + 8192*8192 + 64*8192) * 2 B = 136,314,880 B at 2 MiB a us: 65 us. Compute: 128 tiles
  // of 64x64 in 13 waves of 2 us = 26 us.
  EXPECT_NEAR(in_us(time_of(gemm(64, 8192, 8192), toy::context(toy::perfect()))), 65.0, 1e-9);
}

TEST(Gemm, AccumulationIntoFp32MovesFourTimesTheOutput) {
  ops::Gemm g = gemm(8192, 8192, 64);
  const KernelContext context = toy::context(toy::perfect());
  // Output 64 Mi elements: 2 B each 64 us, 8 B each 256 us; inputs 1 us.
  EXPECT_NEAR(in_us(time_of(g, context)), 65.0, 1e-9);
  g.accumulate_fp32 = true;
  EXPECT_NEAR(in_us(time_of(g, context)), 257.0, 1e-9);
}

TEST(Gemm, GroupsOfFewRowsPayForWholeTiles) {
  const KernelContext context = toy::context(toy::perfect());
  // 20 groups of 8 rows, n 64: 20 tiles of 64x64 in 2 waves of 0.25 us; weights 20*1024*64*2 B are
  // 1.25 us and decide. As one product of 160 rows: 3 tiles, 0.25 us.
  const double bytes = (160.0 * 1024 + 20 * 1024 * 64 + 160 * 64) * 2;
  EXPECT_NEAR(in_us(time_of(gemm(160, 64, 1024, 20), context)), bytes / (2 * 1024 * 1024), 1e-9);
  EXPECT_NEAR(in_us(time_of(gemm(160, 64, 1024), context)), 0.25, 0.02);
  // Where bytes cost nothing the two waves decide.
  EXPECT_NEAR(in_us(time_of(gemm(160, 64, 1024, 20), toy::compute_context(toy::perfect()))), 0.5,
              1e-6);
}

TEST(Gemm, GroupsAtEvenStridesRunAtAPlainProductsRate) {
  KernelContext context = toy::compute_context(toy::perfect());
  for (GemmConstants& c : context.gemm) {
    for (double& t : c.grouped_seconds_per_k) t *= 1.25;
    c.grouped_seconds_per_flop *= 1.25;
  }
  ops::Gemm experts = gemm(4096, 1024, 1024, 4);
  const double uneven = in_us(time_of(experts, context));
  experts.strided = true;
  const double even = in_us(time_of(experts, context));
  EXPECT_NEAR(uneven / even, 1.25, 1e-9);
  EXPECT_LE(lower_bound(experts, context).value, time_of(experts, context).value);
}

TEST(Gemm, ExpertsTakeAtLeastTheFrameworksTimeAGroup) {
  KernelContext context = toy::context(toy::perfect());
  for (GemmConstants& c : context.gemm) c.per_group = 9e-6;
  ops::Gemm experts = gemm(160, 64, 1024, 20);
  EXPECT_LT(in_us(time_of(experts, context)), 2);  // a batched product of heads is one launch
  experts.experts = true;
  EXPECT_NEAR(in_us(time_of(experts, context)), 180, 1e-9);
  EXPECT_LE(lower_bound(experts, context).value, time_of(experts, context).value);
}

TEST(Gemm, FixedCostsAreAdded) {
  calibration::PartCalibration c = toy::perfect();
  bf16(c).launch = microseconds(3);
  bf16(c).tile_overhead = microseconds(0.5);
  EXPECT_NEAR(in_us(time_of(gemm(2560, 128, 1024), toy::compute_context(c))), 4.5, 1e-9);
}

TEST(Gemm, InTrainingRateAppliesToMatricesOnly) {
  calibration::PartCalibration c = toy::perfect();
  bf16(c).in_training = 0.5;
  framework::KernelFactors factors;
  factors.matrix = 0.5;
  const ops::Gemm full = gemm(2560, 128, 1024);
  EXPECT_NEAR(in_us(time_of(full, toy::compute_context(c, Setting::in_training, factors))), 4.0,
              1e-9);
  EXPECT_NEAR(in_us(time_of(full, toy::compute_context(c, Setting::isolated, factors))), 1.0, 1e-9);
  // Bytes keep their rate: 65 us of traffic stay, 26 us of compute at a quarter become 104.
  const ops::Gemm thin = gemm(64, 8192, 8192);
  EXPECT_NEAR(in_us(time_of(thin, toy::context(c, Setting::isolated, factors))), 65.0, 1e-9);
  EXPECT_NEAR(in_us(time_of(thin, toy::context(c, Setting::in_training, factors))), 104.0, 1e-9);
}

TEST(Gemm, MissingFormatRunsAsTheNextWiderOne) {
  ops::Gemm g = gemm(2560, 128, 1024);
  g.dtype = DType::fp32;  // a tenth of the matrix peak, the bf16 curve
  EXPECT_NEAR(in_us(time_of(g, toy::compute_context(toy::perfect()))), 10.0, 1e-9);
  g.dtype = DType::fp16;
  EXPECT_NEAR(in_us(time_of(g, toy::compute_context(toy::perfect()))), 1.0, 1e-9);
}

TEST(Gemm, EmptyCostsNothing) {
  EXPECT_EQ(time_of(gemm(0, 128, 64), toy::context(toy::perfect())).value, 0.0);
  EXPECT_EQ(lower_bound(gemm(0, 128, 64), toy::context(toy::perfect())).value, 0.0);
}

// An H100 as its calibration has it.
hardware::AcceleratorSpec h100() {
  hardware::AcceleratorSpec spec = toy::part();
  spec.compute_units = 132;
  spec.peak[static_cast<std::size_t>(DType::bf16)] = FlopsPerSecond{989.4e12};
  spec.memory_bandwidth = BytesPerSecond{3.35e12};
  return spec;
}
calibration::PartCalibration h100_curve() {
  calibration::PartCalibration c = toy::perfect();
  calibration::GemmCurve& curve = bf16(c);
  curve = {};
  curve.peak_fraction = 0.84;
  curve.in_training = 0.77;
  curve.tile = {1, 0.99, 0.97, 0.97};
  curve.grouped = 0.85;
  curve.memory = 0.79;
  curve.tile_overhead = microseconds(1.64);
  curve.launch = microseconds(2.51);
  curve.split_launch = microseconds(2.10);
  return c;
}

// The formula written out, every candidate tried: slow, obvious, and the judge of the fast path.
double oracle(const ops::Gemm& g, const hardware::AcceleratorSpec& part,
              const calibration::GemmCurve& c, bool training) {
  struct Tile {
    double m, n;
    int rated;
  };
  std::vector<Tile> tiles{{256, 128, 0}, {128, 256, 0}, {128, 128, 1},
                          {128, 64, 2},  {64, 128, 2},  {64, 64, 3}};
  if (c.wide_tile) tiles.push_back({256, 256, 0});
  const double peak = part.peak_of(DType::bf16).value;
  const double bw = part.memory_bandwidth.value;
  const double bytes =
      (g.m * g.k + g.groups * g.k * g.n) * 2 + g.m * g.n * (g.accumulate_fp32 ? 8 : 2);
  double best = 1e300;
  for (const Tile& t : tiles) {
    for (const double s : {1.0, 2.0, 4.0, 8.0, 16.0, 32.0}) {
      const double count = g.groups * std::ceil(g.m / g.groups / t.m) * std::ceil(g.n / t.n) * s;
      const double waves = static_cast<double>(
          (static_cast<long long>(count) + static_cast<long long>(part.compute_units) - 1) /
          static_cast<long long>(part.compute_units));
      double rate = peak * c.peak_fraction * c.tile[t.rated] / part.compute_units;
      if (training) rate *= c.in_training;
      if (g.groups > 1) rate *= c.grouped;
      const double k = std::ceil(std::ceil(g.k / s) / 64) * 64;
      const double compute =
          waves * (2 * t.m * t.n * k / rate + c.tile_overhead.value * t.m * t.n / 32768);
      double time = c.launch.value + std::max(compute, bytes / (c.memory * bw));
      if (s > 1) time += 8 * s * g.m * g.n / bw + c.split_launch.value;
      best = std::min(best, time);
    }
  }
  return best;
}

ops::Gemm random_gemm(Rng& rng) {
  const auto size = [&rng] { return std::floor(std::exp2(4 + 12 * rng.uniform())); };
  ops::Gemm g = gemm(size(), size(), size());
  if (rng.below(3) == 0) {
    g.groups = static_cast<double>(1 + rng.below(64));
    g.m *= g.groups;
    g.experts = true;  // whose rows may be of any width
  }
  g.accumulate_fp32 = rng.below(2) == 0;
  return g;
}

TEST(Gemm, AgreesWithTheObviousLoopOnRandomShapes) {
  for (const bool wide : {false, true}) {
    calibration::PartCalibration c = h100_curve();
    bf16(c).wide_tile = wide;
    const KernelContext isolated = make_context(h100(), c, {}, "", Setting::isolated);
    const KernelContext training = make_context(h100(), c, {}, "", Setting::in_training);
    Rng rng(1);
    for (int i = 0; i < 20000; ++i) {
      const ops::Gemm g = random_gemm(rng);
      const double slow = oracle(g, h100(), bf16(c), false);
      ASSERT_NEAR(time_of(g, isolated).value / slow, 1.0, 1e-12) << g.m << " " << g.n << " " << g.k;
      ASSERT_LE(lower_bound(g, isolated).value, time_of(g, isolated).value);
      ASSERT_LE(lower_bound(g, training).value, time_of(g, training).value);
      ASSERT_LE(time_of(g, isolated).value, time_of(g, training).value);
    }
  }
}

TEST(Gemm, NeverFasterWhenLargerOrWhenThePartIsSlower) {
  const calibration::PartCalibration c = h100_curve();
  const KernelContext base = make_context(h100(), c, {}, "", Setting::isolated);
  hardware::AcceleratorSpec quick = h100();
  quick.peak[static_cast<std::size_t>(DType::bf16)] *= 1.1;
  hardware::AcceleratorSpec broad = h100();
  broad.memory_bandwidth *= 1.1;
  const KernelContext faster = make_context(quick, c, {}, "", Setting::isolated);
  const KernelContext wider = make_context(broad, c, {}, "", Setting::isolated);
  Rng rng(2);
  for (int i = 0; i < 20000; ++i) {
    const ops::Gemm g = random_gemm(rng);
    const double t = time_of(g, base).value;
    ASSERT_LE(time_of(g, faster).value, t * (1 + 1e-12));
    ASSERT_LE(time_of(g, wider).value, t * (1 + 1e-12));
    for (ops::Gemm more : {g, g, g}) {
      const auto which = rng.below(3);
      (which == 0 ? more.m : which == 1 ? more.n : more.k) += static_cast<double>(rng.below(300));
      ASSERT_GE(time_of(more, base).value, t * (1 - 1e-12));
    }
  }
}

TEST(Gemm, SwappingTheSidesChangesNothing) {
  const KernelContext context = make_context(h100(), h100_curve(), {}, "", Setting::isolated);
  Rng rng(3);
  for (int i = 0; i < 2000; ++i) {
    ops::Gemm g = random_gemm(rng);
    g.groups = 1;
    ops::Gemm swapped = g;
    std::swap(swapped.m, swapped.n);
    ASSERT_NEAR(time_of(g, context).value / time_of(swapped, context).value, 1.0, 1e-12);
  }
}

struct Published {
  double m, n, k, tflops;
};

// Measured on H100 SXM in bf16, ai-dynamo/aiconfigurator@095f58a systems/data/h100_sxm/gemm.
constexpr Published kH100[] = {
    {1024, 2048, 7168, 756.26},  {1024, 8192, 1024, 632.76},  {2048, 1024, 2048, 620.47},
    {2048, 7168, 2048, 767.51},  {2048, 16384, 2048, 733.14}, {4096, 4096, 12288, 814.2},
    {4096, 8192, 7168, 816.75},  {8192, 1024, 8192, 796.51},  {8192, 7168, 8192, 820.28},
    {8192, 16384, 8192, 776.62}, {16384, 5120, 4096, 783.5},  {16384, 12288, 2048, 790.38},
};

TEST(Gemm, PublishedH100RowsWithinAnEighth) {
  const KernelContext context = make_context(h100(), h100_curve(), {}, "", Setting::isolated);
  double total = 0;
  for (const Published& p : kH100) {
    const ops::Gemm g = gemm(p.m, p.n, p.k);
    const double modelled = g.flops().value / time_of(g, context).value / 1e12;
    EXPECT_NEAR(modelled / p.tflops, 1.0, 0.125) << p.m << " " << p.n << " " << p.k;
    total += std::fabs(p.tflops / modelled - 1);
  }
  EXPECT_LT(total / std::size(kH100), 0.07);
}

TEST(Gemm, HeaderExample) {
  const KernelContext context = make_context(h100(), h100_curve(), {}, "", Setting::isolated);
  EXPECT_NEAR(in_us(time_of(gemm(8192, 14336, 4096), context)) / 1000, 1.232, 0.001);
}

}  // namespace
}  // namespace eratos::kernel
