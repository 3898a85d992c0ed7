// Judge: bytes per parameter of Megatron-LM's own table (docs, "Distributed Optimizer"), d ranks:
//
//                                not distributed    distributed
//   bf16 parameters, fp32 grads        18            6 + 12/d
//   fp32 parameters, fp32 grads        16            8 +  8/d
//
// and ZeRO's stages (arXiv 1910.02054, figure 1, K = 12 with 16-bit gradients): 16, 4 + 12/d,
// 2 + 14/d, 16/d.
#include <gtest/gtest.h>

#include "eratos/job/job.h"
#include "eratos/projection/state.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

double per_parameter(const memory::StateBytes& b) {
  return b.parameter / b.parameter_shards + b.gradient / b.gradient_shards +
         b.optimizer / b.optimizer_shards;
}

memory::StateRules rules_of(const job::JobSpec& spec) {
  job::CheckedJob out;
  const Diagnostics faults = job::check(spec, out);
  EXPECT_TRUE(faults.empty()) << text_of(faults);
  return projection::state_rules(out);
}

constexpr int kRanks[] = {1, 2, 8, 64};

job::JobSpec job_on(int d, job::Recipe recipe, parallel::Sharding sharding) {
  job::JobSpec spec = job_of(llama({2, 512, 8, 8, 64, 1024, 32000}), d, {1, d, 1024});
  spec.precision = recipe;
  spec.parallel.sharding = sharding;
  return spec;
}

TEST(StateBytes, MegatronsTable) {
  using parallel::Sharding;
  for (const int d : kRanks) {
    EXPECT_DOUBLE_EQ(per_parameter(rules_of(job_on(d, job::Recipe::bf16, Sharding::none)).dense),
                     18);
    EXPECT_DOUBLE_EQ(per_parameter(rules_of(job_on(d, job::Recipe::bf16, Sharding::zero1)).dense),
                     6 + 12.0 / d);
    EXPECT_DOUBLE_EQ(per_parameter(rules_of(job_on(d, job::Recipe::fp32, Sharding::none)).dense),
                     16);
    EXPECT_DOUBLE_EQ(per_parameter(rules_of(job_on(d, job::Recipe::fp32, Sharding::zero1)).dense),
                     8 + 8.0 / d);
  }
}

TEST(StateBytes, ZeroStages) {
  using parallel::Sharding;
  for (const int d : kRanks) {
    const auto bytes = [&](Sharding sharding) {
      job::JobSpec spec = job_on(d, job::Recipe::bf16, sharding);
      spec.optimizer.main_gradient = DType::bf16;
      return per_parameter(rules_of(spec).dense);
    };
    EXPECT_DOUBLE_EQ(bytes(Sharding::none), 16);
    EXPECT_DOUBLE_EQ(bytes(Sharding::zero1), 4 + 12.0 / d);
    EXPECT_DOUBLE_EQ(bytes(Sharding::zero2), 2 + 14.0 / d);
    EXPECT_DOUBLE_EQ(bytes(Sharding::zero3), 16.0 / d);
  }
}

TEST(StateBytes, HybridShardsOverTheirGroup) {
  job::JobSpec spec = job_on(64, job::Recipe::bf16, parallel::Sharding::hsdp);
  spec.parallel.hsdp_group = 8;
  EXPECT_DOUBLE_EQ(per_parameter(rules_of(spec).dense), 18.0 / 8);
}

// Context-parallel ranks hold the same weights, so they share the optimizer as well; experts share
// it over the ranks that hold the same experts: 64 ranks, ep 8, etp 1: 8.
TEST(StateBytes, WhoSharesTheOptimizer) {
  job::JobSpec spec = job_of(mixtral(kMixtral8x7b, 8, 2), 64, {1, 64, 4096});
  spec.parallel.cp = 2;
  spec.parallel.ep = 8;
  spec.parallel.sharding = parallel::Sharding::zero1;
  const memory::StateRules rules = rules_of(spec);
  EXPECT_DOUBLE_EQ(per_parameter(rules.dense), 6 + 12.0 / 64);
  EXPECT_DOUBLE_EQ(per_parameter(rules.expert), 6 + 12.0 / 8);
}

TEST(StateBytes, NarrowerStates) {
  job::JobSpec spec = job_on(1, job::Recipe::bf16, parallel::Sharding::none);
  spec.optimizer.exp_avg = DType::bf16;
  spec.optimizer.exp_avg_sq = DType::bf16;
  EXPECT_DOUBLE_EQ(per_parameter(rules_of(spec).dense), 14);
  // No master copy: 2 + 4 + 4.
  spec.framework.state.master_weights = false;
  EXPECT_DOUBLE_EQ(per_parameter(rules_of(spec).dense), 10);
  // nanotron's 16-bit gradient in DDP's buckets beside the fp32 one: 2 + (2 + 4) + 12. Without
  // data parallelism there are no buckets.
  spec = job_on(1, job::Recipe::bf16, parallel::Sharding::none);
  spec.framework.state.keeps_narrow_gradient = true;
  EXPECT_DOUBLE_EQ(per_parameter(rules_of(spec).dense), 18);
  spec = job_on(2, job::Recipe::bf16, parallel::Sharding::none);
  spec.framework.state.keeps_narrow_gradient = true;
  EXPECT_DOUBLE_EQ(per_parameter(rules_of(spec).dense), 20);
}

}  // namespace
}  // namespace eratos::judges
