// Bytes a parameter, by framework, optimizer and sharding, against the published tables.
#include <gtest/gtest.h>

#include <memory>

#include "eratos/base/dtype.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/memory/memory.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/state.h"
#include "eratos/projection/warnings.h"
#include "eratos/reader/catalogue.h"

namespace eratos::projection {
namespace {

using parallel::Sharding;

// 8 ranks that hold the same dense weights unless a test says otherwise.
job::JobSpec dense_job(int gpus = 8) {
  job::JobSpec s;
  s.model = *reader::load_model("llama3.1-8b");
  s.framework = *reader::load_framework("megatron");
  s.cluster = *reader::load_cluster("h100-sxm-" + std::to_string(gpus / 8) + "x8");
  s.batch = {1, gpus, 2048};
  return s;
}

memory::StateRules rules(const job::JobSpec& s) {
  const auto checked = std::make_unique<job::CheckedJob>();
  const Diagnostics faults = job::check(s, *checked);
  EXPECT_TRUE(faults.empty()) << (faults.empty() ? "" : to_text(faults.front()));
  return state_rules(*checked);
}

double bytes_a_parameter(const memory::StateBytes& b) {
  return b.parameter / b.parameter_shards + b.gradient / b.gradient_shards +
         b.optimizer / b.optimizer_shards;
}
double bytes_a_parameter(const job::JobSpec& s) { return bytes_a_parameter(rules(s).dense); }

// Source: Megatron-LM docs, distributed optimizer: bf16 parameters with fp32 gradients 18 and
// 6 + 12/d; fp32 parameters and gradients 16 and 8 + 8/d.
TEST(StateRules, MegatronsTable) {
  job::JobSpec s = dense_job();
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 18);
  s.parallel.sharding = Sharding::zero1;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 6 + 12.0 / 8);
  s.precision = job::Recipe::fp32;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 8 + 8.0 / 8);
  s.parallel.sharding = Sharding::none;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 16);
}

// FSDP2 over 8 ranks: fp32 parameter, gradient and two moments in shards, 16/8; as a stage of a pipeline
// the 16-bit copy (2) and the fp32 gradient (4) stay whole beside them, and no unit is gathered.
TEST(StateRules, ShardedStagesStayGathered) {
  job::JobSpec s = dense_job();
  s.framework = *reader::load_framework("torchtitan");
  s.parallel.sharding = Sharding::zero3;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 16.0 / 8);
  EXPECT_TRUE(rules(s).gathers);
  s = dense_job(16);
  s.framework = *reader::load_framework("torchtitan");
  s.parallel.sharding = Sharding::zero3;
  s.parallel.pp = 2;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 16.0 / 8 + 2 + 4);
  EXPECT_FALSE(rules(s).gathers);
}

// NeMo AutoModel: bf16 parameters, gradients and moments, 8/8 in shards. Of several micro-batches the
// fp32 sum of the gradients stays whole (4) until the last; with experts what was gathered stays too (2).
TEST(StateRules, DeferredReductionKeepsGradientsWhole) {
  job::JobSpec s = dense_job();
  s.framework = *reader::load_framework("nemo-automodel");
  s.optimizer.main_gradient = DType::bf16;
  s.optimizer.exp_avg = DType::bf16;
  s.optimizer.exp_avg_sq = DType::bf16;
  s.parallel.sharding = Sharding::zero3;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 8.0 / 8);
  s.batch.global = 16;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 8.0 / 8 + 4);
  EXPECT_TRUE(rules(s).gathers);
  s.model = *reader::load_model("mixtral-8x22b");
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 8.0 / 8 + 4 + 2);
  EXPECT_FALSE(rules(s).gathers);
}

// DeepSpeed under Megatron: fp16 gradients alone, or bf16 ones beside the fp32 sums.
TEST(StateRules, NarrowGradientsBesideWideOnes) {
  job::JobSpec s = dense_job();
  s.framework = *reader::load_framework("megatron-deepspeed");
  s.parallel.sharding = Sharding::zero1;
  s.precision = job::Recipe::bf16;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 2 + 2 + 4 + 12.0 / 8);
  s.precision = job::Recipe::fp16;
  s.optimizer.main_gradient = job::default_gradient(s.framework, s.precision);
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 2 + 2 + 12.0 / 8);
}

// cp ranks hold the same weights and share the optimizer as well: dp 4 x cp 2.
TEST(StateRules, ContextParallelRanksShareTheOptimizer) {
  job::JobSpec s = dense_job();
  s.parallel.cp = 2;
  s.parallel.sharding = Sharding::zero1;
  s.batch.global = 4;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 6 + 12.0 / 8);
}

// Source: Megatron-LM megatron/training/arguments.py, use_precision_aware_optimizer: gradients and
// both moments in bf16; of the fp32 master the 16 bits that the parameter lacks (TransformerEngine
// fused_adam.py, store_param_remainders, on by default): 2 + 2 + (2 + 2 + 2)/d.
TEST(StateRules, PrecisionAwareOptimizer) {
  job::JobSpec s = dense_job();
  s.parallel.sharding = Sharding::zero1;
  s.optimizer.precision_aware = true;
  s.optimizer.main_gradient = DType::bf16;
  s.optimizer.exp_avg = DType::bf16;
  s.optimizer.exp_avg_sq = DType::bf16;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 4 + 6.0 / 8);
  s.optimizer.exp_avg = DType::fp8;
  s.optimizer.exp_avg_sq = DType::fp8;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 4 + 4.0 / 8);
  s.optimizer.precision_aware = false;  // a whole master
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 4 + 6.0 / 8);
}

// Source: arXiv 1910.02054, figure 1: 7.5e9 parameters, 64 ranks, 16-bit gradients, K = 12:
// 120 GB, 31.4, 16.6 and 1.9 GB.
TEST(StateRules, ZerosFigureOne) {
  job::JobSpec s = dense_job(64);
  s.optimizer.main_gradient = DType::bf16;
  const double parameters = 7.5;
  EXPECT_NEAR(bytes_a_parameter(s) * parameters, 120, 0.05);
  s.parallel.sharding = Sharding::zero1;
  EXPECT_NEAR(bytes_a_parameter(s) * parameters, 31.4, 0.05);
  s.parallel.sharding = Sharding::zero2;
  EXPECT_NEAR(bytes_a_parameter(s) * parameters, 16.6, 0.05);
  s.parallel.sharding = Sharding::zero3;
  EXPECT_NEAR(bytes_a_parameter(s) * parameters, 1.9, 0.05);
}

// A full copy over every 8 of 64 ranks: 16 B over 8, not over 64.
TEST(StateRules, HsdpShardsOverItsGroup) {
  job::JobSpec s = dense_job(64);
  s.optimizer.main_gradient = DType::bf16;
  s.parallel.sharding = Sharding::hsdp;
  s.parallel.hsdp_group = 8;
  const memory::StateRules r = rules(s);
  EXPECT_DOUBLE_EQ(bytes_a_parameter(r.dense), 16.0 / 8);
  EXPECT_TRUE(r.gathers);
  EXPECT_DOUBLE_EQ(r.gathered_bytes, 2);
}

// Experts over their own ranks: 64 ranks, pp 4, ep 8: dense over dp 16, experts over edp 2.
TEST(StateRules, ExpertsShareOverTheirOwnGroup) {
  job::JobSpec s = dense_job(64);
  s.model = *reader::load_model("mixtral-8x22b");
  s.parallel.pp = 4;
  s.parallel.ep = 8;
  s.parallel.sharding = Sharding::zero1;
  const memory::StateRules r = rules(s);
  EXPECT_DOUBLE_EQ(bytes_a_parameter(r.dense), 6 + 12.0 / 16);
  EXPECT_DOUBLE_EQ(bytes_a_parameter(r.expert), 6 + 12.0 / 2);
}

// nanotron: the 16-bit gradient stays beside the fp32 one: 20, and 8 + 12/dp with ZeRO-1.
TEST(StateRules, NanotronKeepsBothGradients) {
  job::JobSpec s = dense_job();
  s.framework = *reader::load_framework("nanotron");
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 20);
  s.parallel.sharding = Sharding::zero1;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 8 + 12.0 / 8);
}

// In a pipeline `.grad` of a whole stage waits for the end of the backward: 2 more, buckets or not.
TEST(StateRules, NanotronsPipelinesHoldNarrowGradients) {
  job::JobSpec s = dense_job();
  s.framework = *reader::load_framework("nanotron");
  s.parallel.pp = 2;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 20 + 2);
  s.parallel.pp = 8;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 18 + 2);
}

// Buffers of T h that a rank of nanotron holds for its device: two a pass of a layer and their shards.
double lagging(int nodes, int tp, int pp, int micro, int micro_batches, int rank) {
  job::JobSpec s = dense_job(8 * nodes);
  s.framework = *reader::load_framework("nanotron");
  s.parallel.tp = tp;
  s.parallel.pp = pp;
  s.batch = {micro, micro * micro_batches * 8 * nodes / tp / pp, 4096};
  const auto checked = std::make_unique<job::CheckedJob>();
  EXPECT_TRUE(job::check(s, *checked).empty());
  const WorkspacePtr w = make_workspace();
  project(*checked, *reader::load_calibration(s.cluster.accelerator), {}, *w);
  return lagging_buffers(*checked, rank, *w);
}

TEST(LaggingBuffers, AsFarAsTheHostGets) {
  // Llama 3.1 8B: 32 layers; by cost 9, 9, 8 and 6 on four ranks, 18 and 14 on two.
  EXPECT_EQ(lagging(1, 1, 1, 1, 4, 0), 0);
  EXPECT_DOUBLE_EQ(lagging(1, 8, 1, 1, 4, 0), 2 * 24 * (1 + 1.0 / 8));
  EXPECT_DOUBLE_EQ(lagging(1, 8, 1, 1, 1, 0), 2 * 16 * (1 + 1.0 / 8));
  // Four micro-batches in flight on rank 0, three on rank 1, two on rank 2.
  EXPECT_DOUBLE_EQ(lagging(4, 8, 4, 1, 8, 0), 2 * 18 * (1 + 1.0 / 8));
  EXPECT_DOUBLE_EQ(lagging(4, 8, 4, 1, 8, 1), 2 * 9 * (1 + 1.0 / 8));
  EXPECT_EQ(lagging(4, 8, 4, 1, 8, 2), 0);
  // With two ranks only where the device takes longer for a layer.
  EXPECT_EQ(lagging(2, 8, 2, 1, 8, 0), 0);
  EXPECT_DOUBLE_EQ(lagging(2, 8, 2, 16, 8, 0), 2 * 24 * (1 + 1.0 / 8));
  // Where hosts stall: many nodes, and wide groups in a pipeline.
  EXPECT_EQ(lagging(64, 8, 4, 1, 8, 0), 0);
  EXPECT_EQ(lagging(64, 8, 1, 1, 8, 0), 0);
  EXPECT_DOUBLE_EQ(lagging(64, 32, 1, 1, 8, 0), 2 * 24 * (1 + 1.0 / 32));
  EXPECT_EQ(lagging(16, 32, 4, 1, 8, 0), 0);
}

// PyTorch FSDP with mixed precision: the fp32 parameter is its own master, nothing in 16 bits is
// kept: 4 + 4 + 8 over all ranks.
TEST(StateRules, StoredFp32ParametersAreTheirOwnMaster) {
  job::JobSpec s = dense_job();
  s.framework.state.stores_fp32_parameters = true;
  s.parallel.sharding = Sharding::zero3;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 16.0 / 8);
}

// AdamW on bf16 parameters without a master: the moments keep the format they are given.
TEST(StateRules, NoMasterWhereTheFrameworkHasNone) {
  job::JobSpec s = dense_job();
  s.framework.state.master_weights = false;
  s.optimizer.main_gradient = DType::bf16;
  s.optimizer.exp_avg = DType::bf16;
  s.optimizer.exp_avg_sq = DType::bf16;
  EXPECT_DOUBLE_EQ(bytes_a_parameter(s), 2 + 2 + 2 + 2);
}

TEST(StateRules, CommunicatorsOfTheAxesThatAreCut) {
  const auto count = [](const job::JobSpec& s) {
    const auto checked = std::make_unique<job::CheckedJob>();
    EXPECT_TRUE(job::check(s, *checked).empty());
    return communicators(*checked);
  };
  job::JobSpec s = dense_job();
  EXPECT_EQ(count(s), 2);  // world, dp
  s.parallel.tp = 2;
  s.parallel.sequence_parallel = true;
  s.batch.global = 4;
  EXPECT_EQ(count(s), 3);
  s.parallel.pp = 4;
  s.batch.global = 1;
  EXPECT_EQ(count(s), 3);  // dp is 1 now
  s.cluster = *reader::load_cluster("h100-sxm-1x1");
  s.parallel.tp = s.parallel.pp = 1;
  s.parallel.sequence_parallel = false;
  EXPECT_EQ(count(s), 0);
}

// Units of several layers are projected as units of one, and that is said.
TEST(Warnings, RecomputedUnits) {
  job::JobSpec spec = dense_job();
  spec.recompute.granularity = job::Granularity::full;
  const auto warned = [&] {
    const auto checked = std::make_unique<job::CheckedJob>();
    EXPECT_TRUE(job::check(spec, *checked).empty());
    Projection out;
    append_warnings(*checked, calibration::Calibration{}, out);
    for (const Warning& w : out.warnings) {
      if (w.code == "recompute-units") return w.message;
    }
    return std::string();
  };
  EXPECT_EQ(warned(), "");
  spec.recompute.layers = 4;
  EXPECT_EQ(warned().rfind("recomputed units of 4 layers", 0), 0u) << warned();
  spec.recompute.method = job::RecomputeMethod::block;
  EXPECT_EQ(warned(), "");
}

// What a framework's profile says of its schedules: which it runs, and what it runs them without.
TEST(Warnings, SchedulesThatTheFrameworkDoesNotRun) {
  job::JobSpec spec = dense_job();
  spec.parallel.pp = 4;
  const auto warned = [&](std::string_view framework, std::string_view algorithm, int vpp) {
    spec.framework = *reader::load_framework(framework);
    spec.schedule.algorithm = algorithm;
    spec.parallel.vpp = vpp;
    const auto checked = std::make_unique<job::CheckedJob>();
    EXPECT_TRUE(job::check(spec, *checked).empty()) << algorithm;
    Projection out;
    append_warnings(*checked, calibration::Calibration{}, out);
    std::string codes;
    for (const Warning& w : out.warnings) {
      if (w.code.find("schedule") != std::string::npos ||
          w.code.find("split") != std::string::npos ||
          w.code.find("interleaving") != std::string::npos) {
        codes += w.code + " ";
      }
    }
    return codes;
  };
  spec.overlap.grad_reduce = spec.overlap.param_gather = false;
  spec.batch.global = 10 * 2;  // 10 micro-batches of two data-parallel ranks, not a multiple of 4
  EXPECT_EQ(warned("megatron", "auto", 1), "");
  EXPECT_EQ(warned("megatron", "interleaved-1f1b", 2), "interleaving-uneven ");
  EXPECT_EQ(warned("megatron", "zb-h1", 1), "schedule-not-offered ");
  EXPECT_EQ(warned("nanotron", "gpipe", 1), "");
  EXPECT_EQ(warned("torchtitan", "zbv", 2), "");
  EXPECT_EQ(warned("torchtitan", "v-half", 2), "schedule-not-offered ");
  EXPECT_EQ(warned("primus-megatron", "v-half", 2), "");
  spec.overlap.grad_reduce = true;
  spec.recompute.granularity = job::Granularity::selective;
  EXPECT_EQ(warned("primus-megatron", "1f1b", 1), "");
  EXPECT_EQ(warned("primus-megatron", "v-half", 2),
            "recompute-with-split-backward overlap-with-split-backward ");
}

}  // namespace
}  // namespace eratos::projection
