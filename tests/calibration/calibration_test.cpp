#include <gtest/gtest.h>

#include "eratos/calibration/borrow.h"
#include "eratos/calibration/curves.h"

namespace eratos::calibration {
namespace {

AttentionTable one_row() {
  AttentionTable table;
  table.default_kernel = "flash2";
  table.curves = {{"flash2", false, false, 128, DType::bf16, FlopsPerSecond{372e12}, 92, 0.5, ""}};
  return table;
}

TEST(AttentionCurves, ExactRowsComeByRisingHeadDim) {
  AttentionTable table = one_row();
  AttentionCurve narrow = table.curves[0];
  narrow.head_dim = 64;
  table.curves.push_back(narrow);
  const auto rows = attention_curves(table, "flash2", false, false, DType::bf16);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].head_dim, 64);
  EXPECT_EQ(rows[1].head_dim, 128);
  EXPECT_EQ(rows[1].s0, 92);
}

TEST(AttentionCurves, FallsBackByKernelMaskAndPass) {
  // The header's example: backward causal of a kernel the part does not list.
  const auto rows = attention_curves(one_row(), "flash9", true, true, DType::bf16);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_NEAR(rows[0].rate.value / 1e12, 323.64, 0.01);
  EXPECT_NEAR(rows[0].s0, 303.6, 0.01);
  EXPECT_TRUE(rows[0].backward);
  EXPECT_TRUE(rows[0].causal);
}

TEST(AttentionCurves, BackwardOfTheSameMaskBeatsForwardOfTheSamePass) {
  AttentionTable table = one_row();
  table.curves.push_back(
      {"flash2", true, false, 128, DType::bf16, FlopsPerSecond{300e12}, 200, 0, ""});
  const auto rows = attention_curves(table, "flash2", true, true, DType::bf16);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].rate.value, 300e12);
  EXPECT_NEAR(rows[0].s0, 660, 1e-9);
}

TEST(AttentionCurves, NoRowsOfTheFormatIsEmpty) {
  EXPECT_TRUE(attention_curves(one_row(), "flash2", false, false, DType::fp8).empty());
}

TEST(GemmCurve, SixteenBitsStandForTheRest) {
  PartCalibration part;
  part.gemm[static_cast<std::size_t>(DType::fp16)].peak_fraction = 0.6;
  EXPECT_EQ(gemm_curve(part, DType::bf16).peak_fraction, 0.6);
  EXPECT_EQ(gemm_curve(part, DType::fp8).peak_fraction, 0.6);
  part.gemm[static_cast<std::size_t>(DType::bf16)].peak_fraction = 0.7;
  EXPECT_EQ(gemm_curve(part, DType::fp8).peak_fraction, 0.7);
  EXPECT_EQ(gemm_curve(part, DType::fp16).peak_fraction, 0.6);
  EXPECT_EQ(gemm_curve({}, DType::bf16).peak_fraction, 0.0);
}

hardware::AcceleratorSpec spec(double bf16_peak, double link) {
  hardware::AcceleratorSpec s;
  s.peak[static_cast<std::size_t>(DType::bf16)] = FlopsPerSecond{bf16_peak};
  s.scale_up.bandwidth = BytesPerSecond{link};
  return s;
}

PartCalibration kin() {
  PartCalibration c;
  c.part = "h100-sxm";
  c.gemm[static_cast<std::size_t>(DType::bf16)].peak_fraction = 0.84;
  c.gemm[static_cast<std::size_t>(DType::fp8)].peak_fraction = 0.7;
  c.attention = one_row();
  c.elementwise.share = {0.87, 0.8, 0.4, 0.5, 0.5, 0.6};
  c.collectives = {{"all_reduce", "ring", 4, microseconds(9), BytesPerSecond{369e9}, 5e-9, ""},
                   {"all_reduce", "ring", 8, microseconds(15), BytesPerSecond{366e9}, 5e-9, ""},
                   {"all_gather", "ring", 8, microseconds(10), BytesPerSecond{369e9}, 5e-9, ""}};
  c.network = {0.95, microseconds(0), 2e-8, ""};
  return c;
}

TEST(Borrow, FillsOnlyWhatIsMissingAndSaysSo) {
  PartCalibration part;
  part.part = "h800";
  part.gemm[static_cast<std::size_t>(DType::bf16)].peak_fraction = 0.5;
  part.collectives = {{"all_gather", "ring", 8, microseconds(12), BytesPerSecond{150e9}, 0, ""}};
  borrow_from(part, spec(500e12, 200e9), kin(), spec(1000e12, 450e9));

  EXPECT_EQ(part.gemm_of(DType::bf16).peak_fraction, 0.5);
  EXPECT_EQ(part.gemm_of(DType::fp8).peak_fraction, 0.0);  // the part has no fp8 at all
  EXPECT_EQ(part.attention.curves[0].rate.value, 186e12);  // half the matrix peak
  EXPECT_EQ(part.elementwise.share[0], 0.87);
  EXPECT_EQ(part.network.share, 0.95);
  ASSERT_EQ(part.collectives.size(), 3u);  // its own all_gather, both all_reduce rows
  EXPECT_EQ(part.collectives[0].busbw.value, 150e9);
  EXPECT_NEAR(part.collectives[2].busbw.value / 1e9, 366 * 200.0 / 450, 1e-9);
  EXPECT_DOUBLE_EQ(part.collectives[2].alpha.value, 15e-6);

  ASSERT_EQ(part.statements.size(), 4u);
  EXPECT_EQ(part.statements[0].text,
            "h800: attention rates borrowed from h100-sxm, scaled by the matrix peak");
}

TEST(Borrow, AttentionScalesByTheSixteenBitPeakOfEitherFormat) {
  hardware::AcceleratorSpec volta;
  volta.peak[static_cast<std::size_t>(DType::fp16)] = FlopsPerSecond{125e12};
  PartCalibration part;
  borrow_from(part, volta, kin(), spec(1000e12, 450e9));
  EXPECT_DOUBLE_EQ(part.attention.curves[0].rate.value, 372e12 / 8);
}

TEST(Borrow, CompletePartIsUntouched) {
  PartCalibration part = kin();
  PartCalibration better = kin();
  better.elementwise.share[0] = 0.99;
  better.network.share = 0.5;
  borrow_from(part, spec(1000e12, 450e9), better, spec(1000e12, 450e9));
  EXPECT_TRUE(part.statements.empty());
  EXPECT_EQ(part.elementwise.share[0], 0.87);
  EXPECT_EQ(part.network.share, 0.95);
  EXPECT_EQ(part.collectives.size(), 3u);
}

}  // namespace
}  // namespace eratos::calibration
