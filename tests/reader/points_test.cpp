#include "eratos/reader/points.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eratos/reader/catalogue.h"

namespace eratos::reader {
namespace {

using projection::AttentionPoint;
using projection::CollectivePoint;
using projection::GemmPoint;

const std::string kGemm = "gpu,dtype,m,n,k,tflops,source\n";

Point first(const std::string& text) {
  const auto points = parse_points(text, "points.csv");
  EXPECT_TRUE(points.has_value());
  return points && !points->empty() ? points->front() : Point{};
}

TEST(Points, TheHeaderSaysWhichTableItIs) {
  EXPECT_EQ(point_table_of({"gpu", "dtype", "m", "n", "k", "tflops", "source"}), PointTable::gemm);
  EXPECT_EQ(point_table_of({"id", "gpu", "tflops"}), PointTable::none);
}

// 2 * 8192 * 14336 * 4096 = 962.1 GFLOP at 785 TFLOP/s: 1.2255 ms.
TEST(Points, AProduct) {
  const Point p = first(kGemm + "H100-SXM,bf16,8192,14336,4096,785.0,x\n");
  EXPECT_EQ(p.part, "h100-sxm");
  EXPECT_EQ(p.group, "bf16");
  EXPECT_NEAR(p.measured.value * 1e3, 1.2255, 1e-4);
}

TEST(Points, TheLineEndIsNotPartOfTheLine) {
  const Point unix = first(kGemm + "H100-SXM,bf16,8192,14336,4096,785.0,x\n");
  const Point dos =
      first("gpu,dtype,m,n,k,tflops,source\r\nH100-SXM,bf16,8192,14336,4096,785.0,x\r\n");
  EXPECT_EQ(unix.text, dos.text);
  EXPECT_EQ(unix.held_out, dos.held_out);
  EXPECT_EQ(unix.held_out, held_out("H100-SXM,bf16,8192,14336,4096,785.0,x"));
}

// 20 groups of 1,232 rows. dX: K is n. dW: every group is [n x rows] [rows x k], added in fp32.
TEST(Points, GroupedProductsOfAllPasses) {
  const std::string line =
      "A100-PCIe,bf16_grouped_G20,1232,3072,5120,200,MooreThreads/x TE grouped ";
  const auto product = [&](const std::string& rest) {
    return std::get<GemmPoint>(first(kGemm + line + rest).work);
  };
  const GemmPoint forward = product("GEMM stage=fwd m\n");
  EXPECT_EQ(forward.product.m, 20 * 1232);
  EXPECT_EQ(forward.product.k, 5120);
  EXPECT_NEAR(forward.per_group.value, 9e-6, 1e-12);
  const GemmPoint dgrad = product("GEMM stage=bwd_grad_act m\n");
  EXPECT_EQ(dgrad.product.n, 5120);
  EXPECT_EQ(dgrad.product.k, 3072);
  const GemmPoint wgrad = product("GEMM stage=bwd_grad_w m\n");
  EXPECT_EQ(wgrad.product.m, 20 * 3072);
  EXPECT_EQ(wgrad.product.n, 5120);
  EXPECT_EQ(wgrad.product.k, 1232);
  EXPECT_TRUE(wgrad.product.accumulate_fp32);
  EXPECT_EQ(wgrad.product.flops().value, forward.product.flops().value);
}

// 3 bytes an element of A.
TEST(Points, ACastThatTheMeasurementHolds) {
  const Point p = first(kGemm + "H200-SXM,fp8,1024,2048,4096,500,a/b (includes quantise kernel)\n");
  const auto& work = std::get<GemmPoint>(p.work);
  EXPECT_EQ(work.cast, "trtllm-fp8");
  EXPECT_EQ(work.cast_traffic.value, 3.0 * 1024 * 4096);
}

TEST(Points, WhatIsNotModelledHasAReason) {
  EXPECT_NE(first(kGemm + "MI355X,fp6,8192,8192,8192,2000,x\n").skipped, "");
  EXPECT_NE(first(kGemm + "Cray-1,bf16,8192,8192,8192,2000,x\n").skipped, "");
}

TEST(Points, EveryFaultAtOnce) {
  const auto points =
      parse_points(kGemm + "H100-SXM,bf16,0,1,1,1,x\nH100-SXM,bf16,1,1,1,fast,x\n", "points.csv");
  ASSERT_FALSE(points.has_value());
  ASSERT_EQ(points.error().size(), 2U);
  EXPECT_EQ(points.error()[0].where.line, 2);
  EXPECT_EQ(points.error()[1].where.line, 3);
}

// Half of the pairs are seen: 2 * 2 * 16 * 8192 * 4096 * 256 FLOP.
TEST(Points, Attention) {
  const Point p = first(
      "gpu,impl,pass,causal,hdim,seqlen,batch,heads,tflops,source\n"
      "H100-SXM,cuDNN,fwd,1,128,8192,2,16,529,x kv_heads=4\n");
  const auto& work = std::get<AttentionPoint>(p.work);
  EXPECT_EQ(p.group, "cudnn fwd");
  EXPECT_EQ(work.work.kv_heads, 4);
  EXPECT_NEAR(p.measured.value, 2.0 * 2 * 16 * 8192 * 4096 * 256 / 529e12, 1e-12);
}

// One rank a node on two nodes of eight: stride 8. 64 MiB at 41 GB/s, f = 1.
TEST(Points, ACollectiveAcrossNodes) {
  const Point p = first(
      "system,gpus,nodes,collective,bytes,busbw_gbps_unit_GBps,algbw,source\n"
      "\"1 GPU/node, 1x400G\",2,2,all_reduce,67108864,41,,x\n");
  const auto& work = std::get<CollectivePoint>(p.work);
  EXPECT_EQ(work.group.size, 2);
  EXPECT_EQ(work.group.stride, 8);
  EXPECT_EQ(work.cluster.gpus(), 16);
  EXPECT_NEAR(p.measured.value, 67108864 / 41e9, 1e-9);
}

// Published points, each within 12 % of what the shipped constants say: tests/data/points names the
// sources.
TEST(Points, PublishedOnesAreNear) {
  for (const char* table : {"gemm", "attention", "collective"}) {
    const auto points =
        read_points(std::string(ERATOS_SOURCE_DIR) + "/tests/data/points/" + table + ".csv");
    ASSERT_TRUE(points.has_value()) << table;
    int priced = 0;
    for (const Point& p : *points) {
      if (!p.skipped.empty()) continue;
      const auto spec = load_accelerator(p.part);
      const auto calibration = load_calibration(p.part);
      ASSERT_TRUE(spec && calibration) << p.text;
      const Seconds t = projection::PointPricer(*spec, calibration->part).price(p.work);
      EXPECT_NEAR(t / p.measured, 1, 0.12) << p.text;
      ++priced;
    }
    EXPECT_GE(priced, 5) << table;
  }
}

}  // namespace
}  // namespace eratos::reader
