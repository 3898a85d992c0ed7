// Other people's tables of products.
#include "eratos/reader/gemm_csv.h"

#include <gtest/gtest.h>

#include "eratos/text/csv.h"

namespace eratos::reader {
namespace {

GemmCsv read(const std::string& text, GemmCsvOptions options = {"", "h100-sxm"}) {
  auto out = parse_gemm_csv(text, "g.csv", options);
  EXPECT_TRUE(out) << (out ? "" : out.error().front().message);
  return out ? *std::move(out) : GemmCsv{};
}

TEST(GemmCsv, HandWorkedRow) {
  const GemmCsv g = read("M,N,K,dtype,time_us\n4096,2048,1024,bf16,30\n");
  ASSERT_EQ(g.points.size(), 1U);
  const auto& work = std::get<projection::GemmPoint>(g.points[0].work);
  EXPECT_EQ(work.product.flops().value, 2.0 * 4096 * 2048 * 1024);
  EXPECT_NEAR(g.points[0].measured.value, 30e-6, 1e-18);
  EXPECT_EQ(calibration::id_of(g.pieces[0].piece), "gemm/forward/m4096/n2048/k1024/bf16");
}

TEST(GemmCsv, UnitsStandInTheName) {
  for (const auto& [column, seconds] : {std::pair{"time_us", 2e-6},
                                        {"latency (ms)", 2e-3},
                                        {"Duration [ns]", 2e-9},
                                        {"us", 2e-6},
                                        {"avg_time_s", 2.0}}) {
    const GemmCsv g = read(std::string("m,n,k,type,") + column + "\n8,8,8,float16,2\n");
    EXPECT_NEAR(g.points.at(0).measured.value / seconds, 1, 1e-12) << column;
  }
  // A rate: 2 * 1000^3 FLOP at 2 TFLOP/s.
  EXPECT_NEAR(read("m,n,k,dtype,tflops\n1000,1000,1000,bf16,2\n").points[0].measured.value, 1e-3,
              1e-15);
  // A time beats a rate that somebody worked out of it.
  EXPECT_NEAR(read("m,n,k,dtype,tflops,time_ms\n10,10,10,bf16,9,3\n").points[0].measured.value,
              3e-3, 1e-15);
  EXPECT_NEAR(read("m,n,k,dtype,time\n8,8,8,bf16,2\n", {"ms", "h100-sxm"}).points[0].measured.value,
              2e-3, 1e-15);
}

TEST(GemmCsv, TransposesSayThePassAndBatchesMultiply) {
  const GemmCsv g = read(
      "transA,transB,m,n,k,a_type,batch_count,us\n"
      "N,T,8,4,2,bf16_r,1,5\nN,N,8,4,2,bf16_r,1,5\nT,N,8,4,2,bf16_r,1,5\nN,N,8,4,2,bf16_r,3,5\n"
      "N,T,8,4,2,bf16_r,1,7\n");
  ASSERT_EQ(g.pieces.size(), 4U);
  EXPECT_EQ(calibration::id_of(g.pieces[0].piece), "gemm/forward/m8/n4/k2/bf16");
  EXPECT_EQ(calibration::id_of(g.pieces[1].piece), "gemm/dgrad/m8/n4/k2/bf16");
  EXPECT_EQ(calibration::id_of(g.pieces[2].piece), "gemm/wgrad/m8/n4/k2/bf16");
  EXPECT_EQ(calibration::id_of(g.pieces[3].piece), "gemm/dgrad/m24/n4/k2/g3/strided/bf16");
  EXPECT_EQ(g.pieces[0].samples.size(), 2U);
  EXPECT_EQ(g.points.size(), 5U);
}

TEST(GemmCsv, DevicesByTheirDriversName) {
  const GemmCsv g = read("gpu,m,n,k,dtype,us\nNVIDIA H200,8,8,8,bf16,1\nmi300x,8,8,8,bf16,1\n", {});
  EXPECT_EQ(g.points[0].part, "h200-sxm");
  EXPECT_EQ(g.points[1].part, "mi300x");
}

TEST(GemmCsv, EveryFaultAtOnceWithItsLine) {
  const auto bad =
      parse_gemm_csv("m,n,k,dtype,us\n8,8,-1,bf16,2\n8,x,8,bf16,2\n8,8,8,bf17,2\n8,8.5,8,bf16,2\n",
                     "g.csv", {"", "h100-sxm"});
  ASSERT_FALSE(bad);
  ASSERT_EQ(bad.error().size(), 4U);
  EXPECT_EQ(to_text(bad.error()[0]),
            "g.csv:2: error: `k` must be a positive whole number, found `-1`; state it as in the "
            "other rows");
  EXPECT_EQ(bad.error()[2].message, "unknown number format `bf17`");
  const auto unsaid = parse_gemm_csv("m,n,k,time\n8,8,8,2\n", "g.csv", {});
  ASSERT_FALSE(unsaid);
  EXPECT_EQ(unsaid.error().size(), 3U);  // unit, format, accelerator
}

TEST(GemmCsv, KnowsItsHeader) {
  EXPECT_TRUE(is_gemm_csv({"M", "N", "K", "time_us"}));
  EXPECT_TRUE(is_gemm_csv({"transA", "m", "n", "k", "rocblas-Gflops", "us"}));
  EXPECT_FALSE(is_gemm_csv({"gpu", "dtype", "m", "n", "k", "tflops", "source"}));  // of points.h
  EXPECT_FALSE(is_gemm_csv({"id", "gpu", "num_gpus", "model", "step_time_s"}));
  EXPECT_FALSE(is_gemm_csv({"m", "n", "time_us"}));
}

}  // namespace
}  // namespace eratos::reader
