#include "eratos/projection/plan.h"

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include "small_jobs.h"

namespace eratos::projection {
namespace {

const PlannedPiece* find(const Plan& plan, const std::string& id) {
  const auto at = std::find_if(plan.pieces.begin(), plan.pieces.end(),
                               [&](const PlannedPiece& p) { return p.id == id; });
  return at == plan.pieces.end() ? nullptr : &*at;
}

const DownscaleStep* find_step(const Downscaled& small, const std::string& what) {
  const auto at = std::find_if(small.steps.begin(), small.steps.end(),
                               [&](const DownscaleStep& s) { return s.what == what; });
  return at == small.steps.end() ? nullptr : &*at;
}

// Llama 3.1 8B: 32 layers, hidden 4096, 32 heads and 8 key-value heads of 128, ffn 14336. tp 2, pp
// 4 on 32 ranks: dp 4, 16 micro-batches, 8 layers a stage: a layer runs 8 x 16 times.
std::unique_ptr<SmallJob> llama() {
  return small_job("llama3.1-8b", "h100-sxm-4x8", {1, 64, 4096}, {.tp = 2, .pp = 4});
}

TEST(Plan, PiecesAreAtTheRanksOwnShapesAndCounted) {
  const auto job = llama();
  const Plan plan = plan_of(job->checked, job->calibration, {Bytes{0}, 2}, *job->w);
  const std::string layer =
      "t4096/s4096/h4096/a16/g4/d128/f7168/rmsnorm/silu/rotary/flash/"
      "recompute_none/tp2/bf16";
  for (const char* pass : {"forward", "backward"}) {
    const PlannedPiece* block = find(plan, "block/layer/" + std::string(pass) + "/" + layer);
    ASSERT_NE(block, nullptr) << pass;
    EXPECT_DOUBLE_EQ(block->count, 8 * 16);
  }
  // Gate and up: 2 x 14336 / 2 columns.
  const PlannedPiece* fc1 = find(plan, "gemm/forward/m4096/n14336/k4096/bf16");
  ASSERT_NE(fc1, nullptr);
  EXPECT_DOUBLE_EQ(fc1->count, 8 * 16);
  ASSERT_NE(find(plan, "gemm/wgrad/m14336/n4096/k4096/accumulate/bf16"), nullptr);
  // Two norms a layer, and the head's on the last stage: 16 micro-batches of 2 x 8 + 1.
  const PlannedPiece* norm = find(plan, "elementwise/norm/forward/b67125248/r4096/w4096/bf16");
  ASSERT_NE(norm, nullptr);
  EXPECT_DOUBLE_EQ(norm->count, 16 * 17);
  // Sends of T x h in 16 bits, there and back, of a rank between two others.
  const PlannedPiece* send = find(plan, "collective/send_recv/n2/b33554432/fp32");
  ASSERT_NE(send, nullptr);
  EXPECT_DOUBLE_EQ(send->count, 2 * 16);
}

TEST(Plan, IdsAreDistinctAndForwardStandsBeforeItsBackward) {
  const auto job = llama();
  const Plan plan = plan_of(job->checked, job->calibration, {}, *job->w);
  std::vector<std::string> ids;
  for (const PlannedPiece& p : plan.pieces) ids.push_back(p.id);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(plan.pieces[0].id.substr(0, 20), "block/layer/forward/");
  EXPECT_EQ(plan.pieces[1].id.substr(0, 21), "block/layer/backward/");
  // One rank measures no exchange.
  EXPECT_TRUE(std::none_of(plan.pieces.begin(), plan.pieces.end(), [](const PlannedPiece& p) {
    return p.piece.kind() == calibration::PieceKind::collective;
  }));
}

// dp 4 on two ranks: gradients of the first stage as they are, on two ranks, and a sixteenth of
// them.
TEST(Plan, ALargerGroupIsMeasuredInTwoSizesOnTheRanksAtHand) {
  const auto job = llama();
  const Plan plan = plan_of(job->checked, job->calibration, {Bytes{0}, 2}, *job->w);
  int whole = 0;
  int smaller = 0;
  for (const PlannedPiece& p : plan.pieces) {
    const auto* c = std::get_if<calibration::CollectivePiece>(&p.piece.work);
    if (c == nullptr || c->bytes < 1e8) continue;
    EXPECT_EQ(c->ranks, 2);
    (p.count > 0 ? whole : smaller) += 1;
  }
  EXPECT_GT(whole, 0);
  EXPECT_GT(smaller, 0);
}

// tp 2 and pp 4 on one device: a stage's 8 layers, one rank's heads and widths.
TEST(Downscale, DegreesFallInTheirOrderAndTheRanksOwnShapesStay) {
  const auto job = llama();
  const Downscaled small = downscale(job->checked, job->calibration, {}, *job->w);
  ASSERT_TRUE(small.legal) << small.why;
  EXPECT_TRUE(small.fits);
  ASSERT_EQ(small.steps.size(), 4U);
  EXPECT_EQ(small.steps[0].what, "pipeline");
  EXPECT_EQ(small.steps[1].what, "data");
  EXPECT_EQ(small.steps[2].what, "tensor");
  EXPECT_EQ(small.steps[3].what, "micro-batches");
  EXPECT_EQ(small.spec.model.layers(), 8);
  EXPECT_EQ(small.spec.cluster.gpus(), 1);
  const auto& a = std::get<layer::AttentionSpec>(small.spec.model.blocks[0].mixer);
  EXPECT_EQ(a.heads, 16);
  EXPECT_EQ(a.kv_heads, 4);
  EXPECT_EQ(std::get<layer::MlpSpec>(small.spec.model.blocks[0].feed_forward).ffn, 7168);
  EXPECT_EQ(small.spec.batch.global, 1);
}

TEST(Downscale, RanksAtHandKeepTensorParallelism) {
  const auto job = llama();
  const Downscaled small = downscale(job->checked, job->calibration, {Bytes{0}, 2}, *job->w);
  ASSERT_TRUE(small.legal) << small.why;
  EXPECT_EQ(small.spec.parallel.tp, 2);
  EXPECT_EQ(find_step(small, "tensor"), nullptr);
}

// Mixtral 8x7B, ep 8: one expert of eight stays; 16 GB hold neither a stage's layers nor its
// sequence.
TEST(Downscale, MemoryTakesLayersThenTheSequence) {
  const auto job = small_job("mixtral-8x7b", "h100-sxm-4x8", {2, 64, 4096}, {.pp = 2, .ep = 8});
  const Downscaled small = downscale(job->checked, job->calibration, {Bytes{12e9}, 1}, *job->w);
  ASSERT_TRUE(small.legal) << small.why;
  const auto& m = std::get<layer::MoeSpec>(small.spec.model.blocks[0].feed_forward);
  EXPECT_EQ(m.experts, 1);
  EXPECT_EQ(m.ffn, 14336);
  const DownscaleStep* layers = find_step(small, "layers");
  ASSERT_NE(layers, nullptr);
  EXPECT_EQ(layers->from, 16);
  EXPECT_EQ(layers->to, 1);
  EXPECT_TRUE(small.fits);
  const DownscaleStep* sequence = find_step(small, "sequence");
  ASSERT_NE(sequence, nullptr);
  EXPECT_LT(sequence->to, 4096);
  EXPECT_EQ(find_step(small, "micro-batch"), nullptr);
  for (const DownscaleStep& s : small.steps) {
    EXPECT_FALSE(s.restored.empty()) << s.what;
    EXPECT_FALSE(s.how.empty()) << s.what;
  }
}

// No module of its own: an MLA layer's kernels are planned, and the plan says why no block is.
TEST(Plan, WhatIsNoBlockIsSaid) {
  const auto job = small_job("deepseek-v2-lite", "h100-sxm-1x8", {1, 64, 2048}, {.ep = 8});
  const Plan plan = plan_of(job->checked, job->calibration, {}, *job->w);
  ASSERT_FALSE(plan.unplanned.empty());
  EXPECT_NE(plan.unplanned.back().why.find("mixer"), std::string::npos);
  EXPECT_TRUE(std::any_of(plan.pieces.begin(), plan.pieces.end(), [](const PlannedPiece& p) {
    const auto* g = std::get_if<calibration::GemmPiece>(&p.piece.work);
    return g != nullptr && g->experts && g->groups == 8;
  }));
}

}  // namespace
}  // namespace eratos::projection
