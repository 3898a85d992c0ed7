// Bytes of every optimizer of the table, worked by hand.
#include "eratos/job/optimizer.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/job/job.h"
#include "judges/jobs.h"

namespace eratos::job {
namespace {

OptimizerBytes of(const char* kind, bool matrix = true, DType parameter = DType::bf16) {
  OptimizerSpec spec;
  spec.kind = kind;
  return optimizer_bytes(spec, parameter, matrix, true);
}

TEST(Optimizer, BytesAParameter) {
  const struct {
    const char* kind;
    double master, states, traffic;  // beside a bf16 parameter, fp32 gradient and state
  } table[] = {
      {"adam", 4, 8, 4 + 8 + 16 + 2},      {"adamw", 4, 8, 4 + 8 + 16 + 2},
      {"lamb", 4, 8, 4 + 8 + 16 + 2},      {"sgd", 4, 4, 4 + 8 + 8 + 2},
      {"lion", 4, 4, 4 + 8 + 8 + 2},       {"adafactor", 4, 0, 4 + 8 + 0 + 2},
      {"muon", 4, 4, 4 + 8 + 8 + 2},
      // Two bytes of moments and their blocks' maxima, 4/256 each; no master.
      {"adam8bit", 0, 2.03125, 4 + 4 + 4.0625},
  };
  for (const auto& row : table) {
    const OptimizerBytes b = of(row.kind);
    EXPECT_DOUBLE_EQ(b.master, row.master) << row.kind;
    EXPECT_DOUBLE_EQ(b.states, row.states) << row.kind;
    EXPECT_DOUBLE_EQ(b.traffic, row.traffic) << row.kind;
  }
}

TEST(Optimizer, EveryNameIsInTheTable) {
  for (const std::string_view name : kOptimizerNames) {
    const OptimizerKind* kind = find_optimizer(name);
    ASSERT_NE(kind, nullptr) << name;
    EXPECT_EQ(kind->name, name);
    EXPECT_GT(kind->flops, 0) << name;
  }
  EXPECT_EQ(find_optimizer("adamax"), nullptr);
}

TEST(Optimizer, MuonUsesAdamOutsideMatrices) {
  EXPECT_DOUBLE_EQ(of("muon", false).held(), of("adam", false).held());
  EXPECT_DOUBLE_EQ(of("muon", true).held(), 8);
}

TEST(Optimizer, FullPrecisionHasNoMaster) {
  const OptimizerBytes b = of("adam", true, DType::fp32);
  EXPECT_DOUBLE_EQ(b.held(), 8);
  EXPECT_DOUBLE_EQ(b.traffic, 4 + 16 + 8);
}

// Megatron's precision-aware Adam with bf16 gradients and moments: remainders of 2 B, moments of
// 2 + 2; it moves 2 + 4, reads and writes the parameter, and for each moment 2 + 4 to fp32, 4 + 4 in
// the update, 4 + 2 back to bf16 and 2 + 2 to where it is kept.
TEST(Optimizer, PrecisionAwareKeepsRemainders) {
  OptimizerSpec spec;
  spec.precision_aware = true;
  spec.main_gradient = spec.exp_avg = spec.exp_avg_sq = DType::bf16;
  const OptimizerBytes b = optimizer_bytes(spec, DType::bf16, true, true);
  EXPECT_DOUBLE_EQ(b.held(), 6);
  EXPECT_DOUBLE_EQ(b.traffic, 2 + 4 + 4 + 2 * (6 + 8 + 6 + 4));
  EXPECT_DOUBLE_EQ(b.widened, 4 + 4);
  EXPECT_EQ(b.copies, 6);
  spec.exp_avg = spec.exp_avg_sq = DType::fp32;
  EXPECT_DOUBLE_EQ(optimizer_bytes(spec, DType::bf16, true, true).widened, 0);
  spec.exp_avg = spec.exp_avg_sq = DType::fp8;
  EXPECT_DOUBLE_EQ(optimizer_bytes(spec, DType::bf16, true, true).held(), 4);
}

TEST(Optimizer, FaultsAreNamed) {
  JobSpec spec = judges::job_of(judges::llama(judges::kLlama3_8b), 2, {1, 2, 1024});
  CheckedJob out;
  spec.optimizer.kind = "muon";
  EXPECT_TRUE(check(spec, out).empty());
  spec.parallel.sharding = parallel::Sharding::zero1;
  EXPECT_EQ(check(spec, out).front().field, "optimizer.kind");
  spec.optimizer.kind = "newton";
  EXPECT_EQ(check(spec, out).front().field, "optimizer.kind");
  spec.optimizer.kind = "adam";
  spec.offload.optimizer = 1.5;
  EXPECT_EQ(check(spec, out).front().field, "offload.optimizer");
  spec.offload.optimizer = 0.5;
  EXPECT_EQ(check(spec, out).front().field, "offload");  // a part whose host link nobody knows
  spec.cluster.accelerator.host_link = BytesPerSecond{64e9};
  EXPECT_TRUE(check(spec, out).empty());
}

}  // namespace
}  // namespace eratos::job
