#include <gtest/gtest.h>

#include <utility>

#include "toy_part.h"

namespace eratos::kernel {
namespace {

using toy::in_us;

ops::Attention attention(double seq, bool causal = true, bool backward = false) {
  ops::Attention a;
  a.batch = 1;
  a.seq_q = seq;
  a.seq_kv = seq;
  a.heads = 10;
  a.kv_heads = 10;
  a.head_dim = 128;
  a.v_head_dim = 128;
  a.causal = causal;
  a.backward = backward;
  return a;
}

// 2 * 10 * 1000^2 * 0.5 * 256 = 2.56 GFLOP; at 100 TFLOP/s / (1 + 1000/1000): 51.2 us; launch 2 us.
TEST(Attention, SaturatesWithTheSequence) {
  const KernelContext context = toy::context(toy::perfect());
  EXPECT_NEAR(in_us(time_of(attention(1000), context)), 53.2, 1e-9);
  // Four times the sequence: 16 times the FLOPs at 1.6 times the rate.
  EXPECT_NEAR(in_us(time_of(attention(4000), context)), 2 + 512, 1e-9);
}

TEST(Attention, BackwardWithoutRowsRunsAtItsShareOfForward) {
  const KernelContext context = toy::context(toy::perfect());
  EXPECT_NEAR(in_us(time_of(attention(1000, true, true), context)), 2 + 51.2 * 2.5 / 0.87, 1e-6);
}

TEST(Attention, OtherMaskScalesTheFixedWork) {
  const KernelContext context = toy::context(toy::perfect());
  // Full: twice the FLOPs, s0 1000 / 3.3.
  EXPECT_NEAR(in_us(time_of(attention(1000, false), context)), 2 + 51.2 * (1 + 1 / 3.3), 1e-6);
}

TEST(Attention, FewBlocksLeaveUnitsIdle) {
  calibration::PartCalibration c = toy::perfect();
  c.attention.curves[0].fill = 2;
  // 1024 queries are 8 blocks a head, 80 in all; 10 units: 1 + 2 * 10 / 80.
  const KernelContext with = toy::context(c);
  const KernelContext without = toy::context(toy::perfect());
  EXPECT_NEAR(
      (in_us(time_of(attention(1024), with)) - 2) / (in_us(time_of(attention(1024), without)) - 2),
      1.25, 1e-9);
}

TEST(Attention, HeadDimsWithoutRows) {
  const KernelContext context = toy::context(toy::perfect());
  ops::Attention a = attention(1000);
  const double full = in_us(time_of(a, context)) - 2;
  a.head_dim = a.v_head_dim = 64;  // half the FLOPs at 0.8 of the rate
  EXPECT_NEAR(in_us(time_of(a, context)) - 2, full / 2 / 0.8, 1e-9);
  a.head_dim = a.v_head_dim = 96;
  EXPECT_NEAR(in_us(time_of(a, context)) - 2, full * 0.75 / 0.9, 1e-9);
  a.head_dim = a.v_head_dim = 256;
  EXPECT_NEAR(in_us(time_of(a, context)) - 2, full * 2, 1e-9);
}

TEST(Attention, LatentHeadsPayTheirFactor) {
  const KernelContext context = toy::context(toy::perfect());
  ops::Attention a = attention(1000);
  a.head_dim = 192;  // 320/256 of the FLOPs at half the rate
  EXPECT_NEAR(in_us(time_of(a, context)) - 2, 51.2 * 1.25 * 2, 1e-9);
}

TEST(Attention, FrameworkFactorOnlyInTraining) {
  framework::KernelFactors factors;
  factors.attention = 0.8;
  const auto t = [&](Setting s) {
    return in_us(time_of(attention(1000), toy::context(toy::perfect(), s, factors))) - 2;
  };
  EXPECT_NEAR(t(Setting::isolated), 51.2, 1e-9);
  EXPECT_NEAR(t(Setting::in_training), 64.0, 1e-9);
}

TEST(Attention, BoundNeverAboveTime) {
  const KernelContext context = toy::context(toy::perfect());
  for (double s = 64; s < 40000; s *= 1.7) {
    const ops::Attention a = attention(s);
    EXPECT_LE(lower_bound(a, context).value, time_of(a, context).value);
  }
}

TEST(Attention, FormatThePartLacksRunsAtTheWiderOnesRate) {
  hardware::AcceleratorSpec volta = toy::part();  // fp32 at a tenth of the matrix peak
  std::swap(volta.peak[static_cast<std::size_t>(DType::bf16)],
            volta.peak[static_cast<std::size_t>(DType::fp16)]);
  const KernelContext context =
      make_context(volta, toy::perfect(), {}, "flash2", Setting::isolated);
  ops::Attention a = attention(1000);
  a.dtype = DType::fp16;
  EXPECT_NEAR(in_us(time_of(a, context)), 53.2, 1e-9);
  a.dtype = DType::bf16;
  EXPECT_NEAR(in_us(time_of(a, context)), 2 + 512, 1e-9);
}

TEST(Elementwise, EachClassHasItsShare) {
  const KernelContext context = toy::context(toy::perfect());
  // 2 MiB a us at full share, 2 us of launch.
  const auto t = [&](ops::ElementwiseClass kind) {
    return in_us(time_of(ops::Elementwise{mib(20), kind}, context));
  };
  EXPECT_NEAR(t(ops::ElementwiseClass::streaming), 12.0, 1e-9);
  EXPECT_NEAR(t(ops::ElementwiseClass::norm_forward), 14.5, 1e-9);
  EXPECT_NEAR(t(ops::ElementwiseClass::norm_backward), 27.0, 1e-9);
  EXPECT_NEAR(t(ops::ElementwiseClass::cross_entropy), 42.0, 1e-9);
  EXPECT_EQ(time_of(ops::Elementwise{Bytes{0}, ops::ElementwiseClass::permute}, context).value, 0);
}

TEST(Elementwise, FrameworkFactorScalesTheTraffic) {
  framework::KernelFactors factors;
  factors.memory_bound = 0.5;
  const KernelContext context = toy::context(toy::perfect(), Setting::in_training, factors);
  EXPECT_NEAR(in_us(time_of(ops::Elementwise{mib(20), ops::ElementwiseClass::streaming}, context)),
              22.0, 1e-9);
}

TEST(Context, UncalibratedPartHasNumbersForEverything) {
  const KernelContext context = toy::context(calibration::PartCalibration{});
  EXPECT_GT(time_of(toy::gemm(256, 256, 256), context).value, 0.0);
  EXPECT_GT(time_of(attention(1000), context).value, 0.0);
  EXPECT_GT(time_of(ops::Elementwise{mib(1), ops::ElementwiseClass::optimizer}, context).value,
            0.0);
}

// 1000 queries of 101 keys at most: 95.95 on average; beside them s0 1000 / 2 and half a block, 64:
// as a causal kernel of 659.95 keys against 1000 (500 and s0 / 2).
TEST(Attention, AWindowCostsItsKeysItsFixedWorkAndHalfABlock) {
  const KernelContext context = toy::context(toy::perfect());
  ops::Attention a = attention(1000);
  const double full = in_us(time_of(a, context)) - 2;
  a.window = 101;
  const double keys = 101 - 101 * 100 / 2000.0;
  EXPECT_NEAR((in_us(time_of(a, context)) - 2) / full, (keys + 500 + 64) / 1000, 1e-9);
  a.window = 1000;
  EXPECT_NEAR(in_us(time_of(a, context)) - 2, full, 1e-9);
}

TEST(Attention, SinksRunAtTheFrameworksShare) {
  KernelContext context = toy::context(toy::perfect());
  context.sinks_seconds_factor = 1 / 0.25;
  ops::Attention a = attention(1000);
  const double plain = in_us(time_of(a, context)) - 2;
  a.sinks = true;
  EXPECT_NEAR(in_us(time_of(a, context)) - 2, 4 * plain, 1e-9);
}

}  // namespace
}  // namespace eratos::kernel
