// Sizes of recorded inputs against ops.
#include "eratos/projection/traced_work.h"

#include <gtest/gtest.h>

namespace eratos::projection {
namespace {

ops::Op gemm(double m, double n, double k, ops::Pass pass, double groups = 1) {
  ops::Op op;
  op.work = ops::Gemm{.m = m, .n = n, .k = k, .groups = groups};
  op.pass = pass;
  return op;
}
TracedOp op(std::string name, std::vector<std::vector<double>> dims,
            std::vector<std::string> types = {}) {
  return {.name = std::move(name), .dims = std::move(dims), .types = std::move(types)};
}

TEST(TracedWork, ProductsOfAten) {
  const auto mm = product_of(op("aten::mm", {{8, 4}, {4, 6}}));
  ASSERT_TRUE(mm);
  EXPECT_EQ(shape_text(*mm), "m8 n6 k4");
  EXPECT_EQ(shape_text(*product_of(op("aten::addmm", {{6}, {8, 4}, {4, 6}}))), "m8 n6 k4");
  EXPECT_EQ(shape_text(*product_of(op("aten::linear", {{2, 4, 4}, {6, 4}, {6}}))), "m8 n6 k4");
  EXPECT_EQ(shape_text(*product_of(op("aten::matmul", {{2, 4, 4}, {4, 6}}))), "m8 n6 k4");
  EXPECT_EQ(shape_text(*product_of(op("aten::bmm", {{3, 8, 4}, {3, 4, 6}}))), "m24 n6 k4 g3");
  // Sizes that are no product, inputs that are none, names that say nothing.
  EXPECT_FALSE(product_of(op("aten::mm", {{8, 4}, {5, 6}})));
  EXPECT_FALSE(product_of(op("aten::mm", {{8, 4}})));
  EXPECT_FALSE(product_of(op("aten::mm", {{8, 0}, {0, 6}})));
  EXPECT_FALSE(product_of(op("aten::mm", {})));
  EXPECT_FALSE(product_of(op("_Linear", {{8, 4}, {4, 6}})));
}

TEST(TracedWork, SizesTellThePassOfALinearLayer) {
  // T 8, in 4, out 6.
  const ops::Op forward = gemm(8, 6, 4, ops::Pass::forward);
  const ops::Op dgrad = gemm(8, 4, 6, ops::Pass::dgrad);
  const ops::Op wgrad = gemm(6, 4, 8, ops::Pass::wgrad);
  const TracedProduct x_w{8, 6, 4};
  const TracedProduct dy_w{8, 4, 6};
  const TracedProduct dyt_x{6, 4, 8};
  const TracedProduct xt_dy{4, 6, 8};  // the same gradient transposed
  EXPECT_TRUE(same_product(x_w, forward));
  EXPECT_FALSE(same_product(x_w, dgrad));
  EXPECT_FALSE(same_product(x_w, wgrad));
  EXPECT_TRUE(same_product(dy_w, dgrad));
  EXPECT_TRUE(same_product(dyt_x, wgrad));
  EXPECT_TRUE(same_product(xt_dy, wgrad));
  EXPECT_FALSE(same_product({6, 8, 4}, forward));  // a forward is never transposed
  // Another format is another product.
  EXPECT_FALSE(same_product({8, 6, 4, 1, DType::fp32}, forward));
  EXPECT_TRUE(same_product({8, 6, 4, 1, DType::bf16}, forward));
  EXPECT_FALSE(same_product({8, 6, 4, 2}, forward));
}

TEST(TracedWork, AttentionInBothLayouts) {
  ops::Op causal;
  causal.work = ops::Attention{
      .batch = 2, .seq_q = 512, .seq_kv = 512, .heads = 8, .kv_heads = 4, .head_dim = 64};
  const auto aten = attention_of(
      op("aten::_scaled_dot_product_flash_attention", {{2, 8, 512, 64}, {2, 4, 512, 64}}));
  const auto flash =
      attention_of(op("flash_attn::_flash_attn_forward", {{2, 512, 8, 64}, {2, 512, 4, 64}}));
  ASSERT_TRUE(aten && flash);
  EXPECT_TRUE(same_attention(*aten, causal));
  EXPECT_TRUE(same_attention(*flash, causal));
  EXPECT_FALSE(same_attention({2, 512, 8, 128}, causal));
  EXPECT_TRUE(same_attention({2, 512, 8, 64, DType::bf16}, causal));
  EXPECT_FALSE(same_attention({2, 512, 8, 64, DType::fp16}, causal));
  EXPECT_FALSE(attention_of(op("aten::softmax", {{2, 8, 512, 512}})));
}

TEST(TracedWork, MessagesByKindAndBytes) {
  ops::Op reduce;
  reduce.work = ops::Collective{.kind = ops::CollectiveKind::all_reduce, .bytes = Bytes{1e6}};
  EXPECT_TRUE(same_message({true, ops::CollectiveKind::all_reduce, 1000500, 8}, reduce));
  EXPECT_FALSE(same_message({true, ops::CollectiveKind::all_reduce, 1010000, 8}, reduce));
  EXPECT_FALSE(same_message({true, ops::CollectiveKind::all_gather, 1e6, 8}, reduce));
}

}  // namespace
}  // namespace eratos::projection
