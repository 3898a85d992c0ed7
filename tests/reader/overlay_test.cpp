#include "eratos/reader/overlay.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "eratos/reader/catalogue.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {
namespace {

Result<Overlay> overlay(const std::string& text) {
  return overlay_of(*text::parse_yaml(text, "own.yaml"), "own.yaml");
}

std::string faults_of(const std::string& text) {
  const auto read = overlay(text);
  std::string out;
  if (read) return out;
  for (const Diagnostic& d : read.error()) out += to_text(d) + '\n';
  return out;
}

calibration::PartCalibration part_of(const char* name, const Overlay& o) {
  return load_calibration(*load_accelerator(name), &o)->part;
}

TEST(Overlay, ReplacesTheNumbersOfAPart) {
  const auto o = overlay("parts: {h100-sxm: {gemm: {bf16: {in_training: 0.7}}, network: {share: 0.6}}}");
  ASSERT_TRUE(o) << to_text(o.error()[0]);
  const auto part = part_of("h100-sxm", *o);
  EXPECT_EQ(part.gemm_of(DType::bf16).in_training, 0.7);
  EXPECT_EQ(part.network.share, 0.6);
  const auto plain = load_calibration("h100-sxm")->part;
  EXPECT_EQ(part.gemm_of(DType::bf16).peak_fraction, plain.gemm_of(DType::bf16).peak_fraction);
  EXPECT_EQ(part.gemm_of(DType::fp8).in_training, plain.gemm_of(DType::fp8).in_training);
}

// h800 takes its bf16 products from h100-sxm: what is said of it is of it alone.
TEST(Overlay, ReplacesWhatAPartBorrows) {
  const auto o = overlay("parts: {h800: {gemm: {bf16: {in_training: 0.6}}}}");
  ASSERT_TRUE(o) << to_text(o.error()[0]);
  EXPECT_EQ(part_of("h800", *o).gemm_of(DType::bf16).in_training, 0.6);
  EXPECT_EQ(part_of("h100-sxm", *o).gemm_of(DType::bf16).in_training,
            load_calibration("h100-sxm")->part.gemm_of(DType::bf16).in_training);
}

TEST(Overlay, ReachesPartsThatBorrowFromIt) {
  const auto o = overlay("parts: {h100-sxm: {gemm: {bf16: {in_training: 0.6}}}}");
  ASSERT_TRUE(o);
  EXPECT_EQ(part_of("h800", *o).gemm_of(DType::bf16).in_training, 0.6);
}

TEST(Overlay, APartThatTheUserDescribes) {
  const auto o = overlay("parts: {tomorrow-1: {gemm: {bf16: {in_training: 0.66}}}}");
  ASSERT_TRUE(o) << to_text(o.error()[0]);
  hardware::AcceleratorSpec part = *load_accelerator("h100-sxm");
  part.name = "tomorrow-1";
  part.kin = "h100-sxm";
  EXPECT_EQ(load_calibration(part, &*o)->part.gemm_of(DType::bf16).in_training, 0.66);
}

TEST(Overlay, AProfileTakesWhatItsBaseIsGiven) {
  const auto o = overlay("frameworks: {megatron@2026.06: {kernel: {attention: 0.7, attention_sinks: 0.4}}}");
  ASSERT_TRUE(o) << to_text(o.error()[0]);
  const auto newest = with_overlay(*load_framework("megatron@2026.06"), *o);
  EXPECT_EQ(newest->kernel.attention, 0.7);
  const auto older = with_overlay(*load_framework("megatron@2026.04"), *o);
  EXPECT_EQ(older->kernel.attention, 0.7);
  // Its own file states this one.
  EXPECT_EQ(older->kernel.attention_sinks, load_framework("megatron@2026.04")->kernel.attention_sinks);
  EXPECT_EQ(with_overlay(*load_framework("nanotron"), *o)->kernel.attention,
            load_framework("nanotron")->kernel.attention);
}

TEST(Overlay, TheJobsOwnWordsWin) {
  const auto o = overlay("frameworks: {megatron@2026.06: {kernel: {attention: 0.7, memory_bound: 0.6}}}");
  framework::FrameworkProfile mine = *load_framework("megatron@2026.06");
  mine.kernel.attention = 0.5;
  const auto both = with_overlay(mine, *o);
  EXPECT_EQ(both->kernel.attention, 0.5);
  EXPECT_EQ(both->kernel.memory_bound, 0.6);
}

TEST(Overlay, NamesItself) {
  EXPECT_EQ(overlay("parts: {h100-sxm: {network: {share: 0.6}}}\nfit: {rows: 12}")->name(),
            "calibrated (own.yaml, 12 rows)");
  EXPECT_EQ(overlay("parts: {h100-sxm: {network: {share: 0.6}}}")->name(), "calibrated (own.yaml)");
}

TEST(Overlay, EveryFaultHasAPlace) {
  const std::string text =
      "parts:\n"
      "  mi355:\n"
      "    gemm: {bf16: {in_training: 0.7}}\n"
      "  h100-sxm:\n"
      "    gemm: {bf16: {in_trainin: 0.7}}\n"
      "frameworks:\n"
      "  megatro@2026.06: {kernel: {attention: 0.7}}\n"
      "  nanotron: {kernel: {atention: 0.7}}\n";
  const std::string faults = faults_of(text);
  EXPECT_THAT(faults, testing::HasSubstr("own.yaml:2:3: error: unknown accelerator `mi355`; did you mean `mi355x`?"));
  EXPECT_THAT(faults, testing::HasSubstr("own.yaml:5:"));
  EXPECT_THAT(faults, testing::HasSubstr("in_training"));
  EXPECT_THAT(faults, testing::HasSubstr("own.yaml:7:3: error: unknown framework `megatro@2026.06`"));
  EXPECT_THAT(faults, testing::HasSubstr("own.yaml:8:"));
}

TEST(Overlay, WhatIsNoCalibrationsBusinessIsRefused) {
  EXPECT_THAT(faults_of("frameworks: {nanotron: {state: {gradient: bf16}}}"),
              testing::HasSubstr("own.yaml:1:25: error: a calibration does not change `frameworks.nanotron.state`"));
  EXPECT_THAT(faults_of("frameworks: {nanotron: {loss: {keeps_logits: false}}}"),
              testing::HasSubstr("a calibration does not change"));
  EXPECT_THAT(faults_of("parts: {h100-sxm: {gemm: {bf16: {in_training: 1.7}}}}"),
              testing::HasSubstr("is 1.7, no number from 0.4 to 1"));
  EXPECT_THAT(faults_of("rows: 3"), testing::HasSubstr("unknown key `rows`"));
  EXPECT_THAT(faults_of("fit: {rows: many}"), testing::HasSubstr("own.yaml:1:13"));
}

}  // namespace
}  // namespace eratos::reader
