#include "eratos/reader/measured.h"

#include <string>

#include <gtest/gtest.h>

#include "eratos/base/rng.h"

namespace eratos {
namespace {

using calibration::GemmPiece;
using calibration::Measured;
using calibration::MeasuredPiece;

constexpr const char* kRow =
    R"({"id": "gemm/forward/m4096/n11008/k4096/bf16", "kind": "gemm", "dtype": "bf16",
        "pass": "forward", "m": 4096, "n": 11008, "k": 4096, "groups": 1, "accumulate": 0,
        "median_s": 6.1e-4, "minimum_s": 6.0e-4, "spread": 0.016,
        "samples_s": [6.2e-4, 6.0e-4, 6.1e-4, 6.5e-4, 6.1e-4], "checked": 1e-3})";

std::string file_of(const std::string& rows) {
  return R"({"eratos_measured": 1, "provenance": {"device": "NVIDIA H200", "device_kind": "cuda"},
 "job": {"name": "x", "digest": "d"}, "pieces": [)" +
         rows + "]}";
}

std::string message_of(const std::string& text) {
  const auto m = reader::parse_measured(text, "m.json");
  if (m) return "";
  std::string all;
  for (const Diagnostic& d : m.error()) all += to_text(d) + "\n";
  return all;
}

TEST(Measured, ARowIsReadWithItsSamples) {
  const auto m = reader::parse_measured(file_of(kRow), "m.json");
  ASSERT_TRUE(m) << message_of(file_of(kRow));
  ASSERT_EQ(m->pieces.size(), 1U);
  const MeasuredPiece& p = m->pieces[0];
  EXPECT_EQ(calibration::id_of(p.piece), "gemm/forward/m4096/n11008/k4096/bf16");
  EXPECT_DOUBLE_EQ(p.median.value, 6.1e-4);
  EXPECT_DOUBLE_EQ(p.minimum.value, 6.0e-4);
  EXPECT_EQ(p.samples.size(), 5U);
  EXPECT_DOUBLE_EQ(p.checked, 1e-3);
  EXPECT_EQ(m->provenance.device, "NVIDIA H200");
}

TEST(Measured, IndicesAreAFormatOfPiecesToo) {
  const std::string row =
      R"({"id":"elementwise/copy/forward/b28672/r512/w2/int64","kind":"elementwise","dtype":"int64",)"
      R"("what":"copy","pass":"forward","bytes":28672,"rows":512,"width":2,)"
      R"("median_s":2e-6,"minimum_s":2e-6,"spread":0,"samples_s":[2e-6],"warmup":3,"checked":0})";
  const auto m = reader::parse_measured(file_of(row), "m.json");
  ASSERT_TRUE(m) << message_of(file_of(row));
  EXPECT_EQ(m->pieces[0].piece.dtype, DType::int64);
}

TEST(Measured, WhatIsWrittenIsReadBack) {
  Measured m;
  m.provenance.device = "cpu";
  m.provenance.notes = {"a note"};
  m.provenance.noisy = true;
  m.job = "small";
  m.digest = "00ff";
  MeasuredPiece gemm;
  gemm.piece = {GemmPiece{.pass = calibration::PiecePass::wgrad,
                          .m = 8,
                          .n = 16,
                          .k = 32,
                          .groups = 2,
                          .accumulate = true,
                          .experts = true,
                          .rows = {3, 5}},
                DType::fp32};
  const double samples[] = {0.25, 0.125, 0.5};
  calibration::summarise(samples, gemm);
  gemm.warmup = 3;
  m.pieces.push_back(gemm);
  MeasuredPiece memory;
  calibration::MemoryPiece phase;
  phase.layer.tokens = 64;
  phase.layer.sequence = 64;
  phase.layer.hidden = 32;
  phase.layer.norm = "rmsnorm";
  memory.piece = {phase, DType::fp32};
  memory.peak = Bytes{1e6};
  memory.reserved = Bytes{2e6};
  m.pieces.push_back(memory);
  m.unmeasured.push_back({"gemm/forward/m1/n1/k1/fp8", "no fp8 here"});
  const std::string text = reader::measured_json(m);
  auto again = reader::parse_measured(text, "m.json");
  ASSERT_TRUE(again) << message_of(text);
  for (MeasuredPiece& p : again->pieces) p.line = 0;
  EXPECT_EQ(*again, m);
}

TEST(Measured, AllFaultsAreSaidAtOnceWithTheirPlaces) {
  const std::string text = file_of(
      R"({"id": "a", "kind": "gem", "dtype": "bf16"},
{"id": "gemm/forward/m1/n2/k3/bf16", "kind": "gemm", "dtype": "bf16", "pass": "forward", "m": 1, "n": 2, "k": 4, "median_s": 1},
{"id": "gemm/forward/m1/n2/k5/bf16", "kind": "gemm", "dtype": "bf16", "pass": "forward", "m": 1, "n": 2, "k": 5, "median_s": -1},
{"id": "gemm/forward/m1/n2/k5/bf16", "kind": "gemm", "dtype": "bf16", "pass": "forward", "m": 1, "n": 2, "k": 5, "median_s": 0.5, "samples_s": [1, 2]},
{"id": "gemm/forward/m1/n2/k6/bf16", "kind": "gemm", "dtype": "bf16", "pass": "forward", "m": 1, "n": 2, "k": 6},
{"id": "gemm/forward/m1/n2/k7/bf16", "kind": "gemm", "dtype": "bf16", "pass": "forward", "m": 1, "n": 2, "k": 7, "median_s": 1, "samples_s": "1, 2"},
{"id": "gemm/forward/m1/n2/k8/bf16", "kind": "gemm", "dtype": "bf16", "pass": "forward", "m": 1, "n": 2, "k": 8, "median_s": 1, "minimum_s": 2},
{"id": "gemm/forward/m1/n2/k9/g0/bf16", "kind": "gemm", "dtype": "bf16", "pass": "forward", "m": 1, "n": 2, "k": 9, "groups": 0, "median_s": 1},
{"id": "memory/forward/layers1/t1/s1/h1/fp32", "kind": "memory", "dtype": "fp32", "phase": "forward", "layers": 1, "tokens": 1, "sequence": 1, "hidden": 1, "bytes_peak": 3, "bytes_reserved": 2, "bytes_context": 1e16})");
  const std::string said = message_of(text);
  EXPECT_NE(said.find("did you mean `gemm`?"), std::string::npos) << said;
  EXPECT_NE(
      said.find("m.json:3:8: error: `pieces.1.id` is `gemm/forward/m1/n2/k3/bf16`, its fields say "
                "`gemm/forward/m1/n2/k4/bf16`"),
      std::string::npos)
      << said;
  EXPECT_NE(said.find("m.json:4:126: error: `pieces.2.median_s` is -1; a duration is above 0"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("is measured twice, first on line 4"), std::string::npos) << said;
  EXPECT_NE(said.find("lies outside its samples"), std::string::npos) << said;
  EXPECT_NE(said.find("`pieces.4.median_s` is missing"), std::string::npos) << said;
  EXPECT_NE(said.find("`pieces.5.samples_s` must be a list"), std::string::npos) << said;
  EXPECT_NE(said.find("`pieces.6.minimum_s` is 2, above the median"), std::string::npos) << said;
  EXPECT_NE(said.find("`pieces.7.groups` is 0; it must be 1 or more"), std::string::npos) << said;
  EXPECT_NE(said.find("`pieces.8.bytes_reserved` is 2, less than what was allocated"),
            std::string::npos)
      << said;
  EXPECT_NE(said.find("`pieces.8.bytes_context` is 10000000000000000; it must be a number from 0"),
            std::string::npos)
      << said;
}

TEST(Measured, ForeignCutAndOtherVersionsAreRefused) {
  EXPECT_NE(message_of("{\"traceEvents\": []}").find("no `eratos_measured`"), std::string::npos);
  EXPECT_NE(message_of("{\"eratos_measured\": 2, \"pieces\": []}").find("reads version 1"),
            std::string::npos);
  const std::string whole = file_of(kRow);
  for (const std::size_t cut : {std::size_t{1}, whole.size() / 2, whole.size() - 1}) {
    EXPECT_NE(message_of(whole.substr(0, cut)).find("m.json:"), std::string::npos) << cut;
  }
  EXPECT_NE(
      message_of(
          file_of(
              R"({"id": "x", "kind": "gemm", "dtype": "bf16", "pass": "forward", "m": 1, "n": 2, "k": 5, "median_s": NaN})"))
          .find("error"),
      std::string::npos);
}

// Cut anywhere, or with any byte another: an answer or faults with their places, never a crash.
TEST(Measured, JunkIsAnsweredWithFaults) {
  const std::string whole = file_of(kRow);
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    EXPECT_FALSE(reader::parse_measured(whole.substr(0, cut), "m.json")) << cut;
  }
  Rng rng(7);
  for (int i = 0; i < 3000; ++i) {
    std::string other = whole;
    for (int k = 0; k < 3; ++k) {
      other[rng.below(other.size())] = static_cast<char>(rng.below(256));
    }
    const auto m = reader::parse_measured(other, "m.json");
    if (!m) {
      EXPECT_EQ(m.error().front().where.file, "m.json");
    }
  }
}

TEST(Measured, WhatNoDeviceCanHaveRunIsRefused) {
  const auto collective = [](const std::string& ranks) {
    return file_of(R"({"id": "collective/all_reduce/n)" + ranks +
                   R"(/b8/fp32", "kind": "collective", "dtype": "fp32", "what": "all_reduce",
 "ranks": )" + ranks +
                   R"(, "bytes": 8, "median_s": 1})");
  };
  EXPECT_EQ(message_of(collective("2")), "");
  EXPECT_NE(message_of(collective("1")).find("whole number of 2 or more"), std::string::npos);
  EXPECT_NE(message_of(collective("2.5")).find("whole number of 2 or more"), std::string::npos);
  EXPECT_NE(message_of(collective("1e30")).find("from 0 to 9e15"), std::string::npos);
}

}  // namespace
}  // namespace eratos
