// The record itself: FLOPs of single ops, sums over programs, text, reuse.
#include "eratos/ops/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

namespace eratos::ops {
namespace {

TEST(Ops, GemmFlops) {
  // The header's example: 8192 x 14336 x 4096.
  EXPECT_EQ((Gemm{8192, 14336, 4096}.flops().value), 962072674304.0);
  // m counts the rows of all groups together.
  EXPECT_EQ((Gemm{100, 8, 4, 5}.flops().value), (Gemm{100, 8, 4, 1}.flops().value));
}

TEST(Ops, AttentionFlops) {
  Attention a;
  a.batch = 2;
  a.seq_q = 3;
  a.seq_kv = 5;
  a.heads = 7;
  a.kv_heads = 7;
  a.head_dim = 11;
  a.v_head_dim = 13;
  a.causal = false;
  EXPECT_EQ(a.flops().value, 2.0 * 2 * 7 * 3 * 5 * (11 + 13));
  a.causal = true;
  EXPECT_EQ(a.flops().value, 2.0 * 7 * 3 * 5 * (11 + 13));
  a.backward = true;
  EXPECT_EQ(a.flops().value, 2.5 * 2 * 7 * 3 * 5 * (11 + 13));
}

TEST(Ops, OnlyMatrixWorkHasFlops) {
  Op op;
  op.work = Elementwise{Bytes{1e9}};
  EXPECT_EQ(op.flops().value, 0);
  op.work = Collective{CollectiveKind::all_gather, Axis::tp, Bytes{1e9}};
  EXPECT_EQ(op.flops().value, 0);
}

TEST(Ops, NamesAreDistinct) {
  std::set<std::string_view> names;
  const int modules = static_cast<int>(Module::count_);
  for (int m = 0; m < modules; ++m) names.insert(name_of(static_cast<Module>(m)));
  EXPECT_EQ(static_cast<int>(names.size()), modules);
  EXPECT_EQ(name_of(Module::optimizer), "optimizer");
  EXPECT_EQ(name_of(Module::mla_up), "mla_up");
  EXPECT_EQ(name_of(Pass::step), "step");
  EXPECT_EQ(name_of(CollectiveKind::send_recv), "send_recv");
}

Program small() {
  Program p;
  p.name = "small";
  p.tensors.push_back({"kept", 1000, DType::bf16, Module::norm, true});
  p.tensors.push_back({"statistic", 10, DType::fp32, Module::norm, true});
  p.tensors.push_back({"passing", 5000, DType::bf16, Module::mlp_in, false});
  p.parameters.push_back({"weight", 600, Module::mlp_in});
  p.parameters.push_back({"experts", 4000, Module::expert_in, true});
  Op op;
  op.work = Gemm{8, 4, 2};
  op.module = Module::mlp_in;
  op.reads = {0};
  op.writes = {2};
  p.forward.push_back(op);
  return p;
}

TEST(Ops, Sums) {
  const Program p = small();
  EXPECT_EQ(saved_bytes(p).value, 2040);
  EXPECT_EQ(parameter_elements(p), 4600);
  EXPECT_EQ(parameter_elements(p, true), 4000);
}

TEST(Ops, Text) {
  EXPECT_EQ(to_text(small()),
            "program small\n"
            "  tensor kept                     1000 bf16 norm saved\n"
            "  tensor statistic                10 fp32 norm saved\n"
            "  tensor passing                  5000 bf16 mlp_in\n"
            " forward\n"
            "  forward   mlp_in            gemm m=8 n=4 k=2 groups=1 bf16 <- kept -> passing\n"
            " backward\n");
}

TEST(Ops, ClearingKeepsRoom) {
  Program p = small();
  const auto room = p.tensors.capacity();
  p.clear();
  EXPECT_TRUE(p.tensors.empty() && p.forward.empty() && p.parameters.empty());
  EXPECT_EQ(p.tensors.capacity(), room);
  EXPECT_EQ(p.input, kNoTensor);
}

}  // namespace
}  // namespace eratos::ops
