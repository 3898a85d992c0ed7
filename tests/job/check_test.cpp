// Legality: every fault at once, each with the field at fault, the values and a cure.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <set>
#include <string>

#include "eratos/job/job.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

using testing::HasSubstr;

Diagnostics faults_of(const job::JobSpec& spec) {
  job::CheckedJob out;
  return job::check(spec, out);
}

std::multiset<std::string> fields_of(const Diagnostics& faults) {
  std::multiset<std::string> fields;
  for (const Diagnostic& d : faults) fields.insert(d.field);
  return fields;
}

using Fields = std::multiset<std::string>;

// The one fault of a job: its field, and words of its message and cure.
void expect_fault(const job::JobSpec& spec, const char* field, const char* message,
                  const char* cure) {
  const Diagnostics faults = faults_of(spec);
  ASSERT_EQ(faults.size(), 1u) << text_of(faults);
  EXPECT_EQ(faults[0].field, field);
  EXPECT_THAT(faults[0].message, HasSubstr(message));
  EXPECT_THAT(faults[0].cure, HasSubstr(cure));
}

job::JobSpec llama_job() { return job_of(llama(kLlama3_8b), 8, {1, 64, 8192}); }
job::JobSpec mixtral_job() { return job_of(mixtral(kMixtral8x7b, 8, 2), 8, {1, 64, 4096}); }

TEST(Check, ALegalJobIsCompleted) {
  job::JobSpec spec = mixtral_job();
  spec.parallel.pp = 2;
  spec.parallel.ep = 4;
  spec.batch = {2, 64, 4096};
  spec.framework.vocab_divisible_by = 128;
  job::CheckedJob out;
  EXPECT_EQ(text_of(job::check(spec, out)), "");
  EXPECT_EQ(out.parallel.dp, 4);
  EXPECT_EQ(out.micro_batches, 8);  // 64 / (2 * 4)
  EXPECT_EQ(out.padded_vocab, 32000);
  ASSERT_EQ(out.stages.size(), 2u);
  EXPECT_EQ(out.stage(1, 0).first_layer, 16);
}

TEST(Check, VocabularyIsPaddedAsTheFrameworkPads) {
  job::JobSpec spec = llama_job();
  spec.model.vocab = 50257;
  spec.parallel.tp = 2;
  spec.framework.vocab_divisible_by = 128;
  job::CheckedJob out;
  EXPECT_EQ(text_of(job::check(spec, out)), "");
  EXPECT_EQ(out.padded_vocab, 50432);  // 197 * 256
  spec.framework.vocab_divisible_by = 1;
  expect_fault(spec, "parallel.tp", "vocabulary 50257", "pad the vocabulary");
}

TEST(Check, AllFaultsAtOnce) {
  job::JobSpec spec = mixtral_job();
  spec.cluster = cluster_of(24);
  spec.parallel.tp = 3;  // divides neither heads, key-value heads nor the vocabulary
  spec.parallel.ep = 5;
  spec.batch.global = 7;
  spec.batch.sequence = 4095;
  spec.parallel.cp = 2;
  spec.precision = job::Recipe::mxfp4;
  spec.cluster.accelerator.peak[static_cast<std::size_t>(DType::fp4)] = FlopsPerSecond{0};
  spec.schedule.algorithm = "zb-h1";
  spec.layout.stages.resize(3);
  const Diagnostics faults = faults_of(spec);
  EXPECT_EQ(fields_of(faults),
            (Fields{"parallel.tp", "parallel.tp", "parallel.ep", "parallel.ep",
                    "parallel.sequence_parallel", "batch.global", "parallel.cp", "precision.recipe",
                    "schedule.algorithm", "parallel.layout"}))
      << text_of(faults);
  for (const Diagnostic& d : faults) {
    EXPECT_FALSE(d.message.empty());
    EXPECT_FALSE(d.cure.empty()) << d.message;
    EXPECT_FALSE(d.field.empty()) << d.message;
  }
}

TEST(Check, SequenceFaultsDoNotHideBehindDegrees) {
  job::JobSpec spec = llama_job();
  spec.parallel.tp = 3;
  spec.parallel.cp = 2;
  spec.batch.sequence = 8190;
  EXPECT_EQ(fields_of(faults_of(spec)),
            (Fields{"parallel.tp", "parallel.tp", "parallel.tp", "parallel.cp"}))
      << text_of(faults_of(spec));
}

TEST(Check, TensorParallelDividesHeads) {
  job::JobSpec spec = llama_job();
  spec.cluster = cluster_of(64);
  spec.parallel.tp = 64;
  expect_fault(spec, "parallel.tp", "tp=64 does not divide the 32 attention heads", "32");
}

TEST(Check, KeyValueHeadsAreSharedOrCut) {
  job::JobSpec spec = job_of(llama({2, 1536, 24, 6, 64, 3072, 32000}), 4, {1, 4, 1024});
  spec.parallel.tp = 4;
  expect_fault(spec, "parallel.tp", "6 key-value heads", "multiple");
}

TEST(Check, FeedForwardWidths) {
  job::JobSpec spec = job_of(llama({2, 512, 8, 8, 64, 1001, 32000}), 2, {1, 2, 1024});
  spec.parallel.tp = 2;
  expect_fault(spec, "parallel.tp", "feed-forward width 1001", "1001");
}

TEST(Check, DegreesDivideTheCluster) {
  job::JobSpec spec = llama_job();
  spec.cluster = cluster_of(6);
  spec.parallel.tp = 4;
  expect_fault(spec, "parallel.tp", "tp*cp*pp=4 does not divide the 6 accelerators", "product");
}

TEST(Check, HugeDegreesAreOneFaultNotAnOverflow) {
  job::JobSpec spec = llama_job();
  spec.parallel.tp = INT_MAX;
  spec.parallel.cp = INT_MAX;
  spec.parallel.pp = INT_MAX;
  spec.parallel.vpp = INT_MAX;
  spec.parallel.ep = INT_MAX;
  const Diagnostics faults = faults_of(spec);
  EXPECT_GE(faults.size(), 3u);
  EXPECT_EQ(faults[0].field, "parallel.tp");
}

TEST(Check, ZeroAndNegativeValues) {
  job::JobSpec spec = llama_job();
  spec.parallel.tp = 0;
  spec.parallel.vpp = -1;
  spec.batch.micro = 0;
  EXPECT_EQ(fields_of(faults_of(spec)), (Fields{"parallel.tp", "parallel.vpp", "batch.micro"}));
}

TEST(Check, EmptyArchitectures) {
  job::JobSpec spec = llama_job();
  spec.model.pattern.clear();
  expect_fault(spec, "model", "no layers", "layers");
  spec = llama_job();
  std::get<layer::AttentionSpec>(spec.model.blocks[0].mixer).kv_heads = 0;
  expect_fault(spec, "model", "0 key-value heads", "positive");
  spec = mixtral_job();
  std::get<layer::MoeSpec>(spec.model.blocks[0].feed_forward).experts = 0;
  expect_fault(spec, "model", "0 experts", "at least one");
}

TEST(Check, BatchIsAMultiple) {
  job::JobSpec spec = llama_job();
  spec.batch = {4, 72, 8192};
  expect_fault(spec, "batch.global", "batch.global=72 is not a multiple of micro*dp = 4*8 = 32",
               "multiple of 32");
}

TEST(Check, SequencesAreCutIntoBalancedPieces) {
  job::JobSpec spec = llama_job();
  spec.parallel.cp = 4;
  spec.batch.sequence = 8196;
  expect_fault(spec, "parallel.cp", "8196", "multiple of 8");
  spec = llama_job();
  spec.parallel.tp = 8;
  spec.parallel.sequence_parallel = true;
  spec.batch.sequence = 8190;
  expect_fault(spec, "parallel.sequence_parallel", "8190", "sequence_parallel off");
}

TEST(Check, AllToAllNeedsWholeHeads) {
  job::JobSpec spec = llama_job();
  spec.parallel.tp = 4;
  spec.parallel.cp = 2;
  spec.parallel.cp_kind = parallel::CpKind::a2a;
  EXPECT_EQ(text_of(faults_of(spec)), "");  // 8 query and 2 key-value heads a rank
  spec.cluster = cluster_of(16);
  spec.batch.global = 64;
  spec.parallel.cp = 4;
  expect_fault(spec, "parallel.cp_kind", "cp=4", "p2p");
}

TEST(Check, Experts) {
  job::JobSpec spec = llama_job();
  spec.parallel.ep = 4;
  expect_fault(spec, "parallel.ep", "without experts", "parallel.ep: 1");

  spec = mixtral_job();
  spec.cluster = cluster_of(48);
  spec.batch.global = 48;
  spec.parallel.ep = 3;
  expect_fault(spec, "parallel.ep", "ep=3 does not divide the 8 experts", "divides 8");

  spec = mixtral_job();
  spec.parallel.ep = 8;
  spec.parallel.etp = 2;
  expect_fault(spec, "parallel.ep", "ep*etp*pp=16 does not divide the 8 accelerators", "divides 8");

  spec = mixtral_job();
  spec.parallel.tp = 2;
  expect_fault(spec, "parallel.sequence_parallel", "tp=2", "sequence_parallel: true");

  spec = mixtral_job();
  std::get<layer::MoeSpec>(spec.model.blocks[0].feed_forward).top_k = 9;
  expect_fault(spec, "model", "top_k=9 exceeds the 8 experts", "at most 8");
}

TEST(Check, PrecisionsThePartHas) {
  job::JobSpec spec = llama_job();
  spec.precision = job::Recipe::fp8_delayed;
  spec.cluster.accelerator.peak[static_cast<std::size_t>(DType::fp8)] = FlopsPerSecond{0};
  expect_fault(spec, "precision.recipe", "no fp8 matrix products", "precision");
  spec.precision = job::Recipe::nvfp4;
  spec.cluster.accelerator.peak[static_cast<std::size_t>(DType::fp4)] = FlopsPerSecond{0};
  expect_fault(spec, "precision.recipe", "no fp4 matrix products", "precision");
}

TEST(Check, Schedules) {
  job::JobSpec spec = llama_job();
  spec.parallel.vpp = 2;
  expect_fault(spec, "parallel.vpp", "without pipeline parallelism", "raise parallel.pp");
  spec.parallel.pp = 2;
  spec.schedule.algorithm = "1f1b";
  expect_fault(spec, "schedule.algorithm", "vpp=2", "interleaved-1f1b");
  spec.parallel.vpp = 1;
  spec.schedule.algorithm = "interleaved-1f1b";
  expect_fault(spec, "schedule.algorithm", "vpp=1", "parallel.vpp: 2");
  spec.schedule.algorithm = "none";
  expect_fault(spec, "schedule.algorithm", "pp=2", "1f1b");
  spec.schedule.algorithm = "zbw";
  expect_fault(spec, "schedule.algorithm", "unknown schedule `zbw`", "did you mean `zbv`?");
  spec.schedule.algorithm = "zbv";
  expect_fault(spec, "schedule.algorithm", "zbv needs 2 chunks a rank, vpp=1", "parallel.vpp: 2");
  spec.schedule.algorithm = "zb-h1";
  spec.schedule.output_layer = parallel::OutputLayer::one_barrier;
  expect_fault(spec, "schedule.output_layer", "zb-h1 keeps the output layer", "1f1b or v-half");
}

TEST(Check, ScheduleDecidesWhereStagesStand) {
  job::JobSpec spec = llama_job();
  spec.parallel.pp = 4;
  spec.parallel.vpp = 2;
  spec.schedule.algorithm = "zbv";
  job::CheckedJob out;
  ASSERT_EQ(text_of(job::check(spec, out)), "");
  EXPECT_EQ(out.stages.size(), 8);
  EXPECT_TRUE(out.stage(0, 0).embedding);
  EXPECT_TRUE(out.stage(0, 1).output);  // the last virtual stage is back on rank 0
  spec.parallel.vpp = 1;
  spec.schedule.algorithm = "dualpipe";
  ASSERT_EQ(text_of(job::check(spec, out)), "");
  EXPECT_EQ(out.stages.size(), 4);
  EXPECT_EQ(parallel::chunks_of(out.parallel), 2);
  EXPECT_TRUE(out.stage(3, 1).embedding);
}

TEST(Check, Recomputation) {
  job::JobSpec spec = llama_job();
  spec.recompute.granularity = job::Granularity::full;
  spec.recompute.layers = 0;
  expect_fault(spec, "recompute.layers", "0 layers", "none");
  spec.recompute.layer_ids = {0, 32};
  expect_fault(spec, "recompute.layer_ids", "layer 32 is not one of 0..31", "exist");
}

TEST(Check, HybridShardingGroups) {
  job::JobSpec spec = llama_job();
  spec.parallel.sharding = parallel::Sharding::hsdp;
  expect_fault(spec, "sharding.group", "group of 0", "divides 8");
  spec.parallel.hsdp_group = 3;
  expect_fault(spec, "sharding.group", "group of 3", "divides 8");
}

TEST(Check, LearnedPositionsBoundTheSequence) {
  job::JobSpec spec = job_of(gpt({2, 512, 8, 8, 64, 2048, 50304}, 1024), 1, {1, 1, 2048});
  expect_fault(spec, "batch.sequence", "exceeds the 1024 learned positions", "at most 1024");
}

TEST(Check, NetworksWithoutABandwidth) {
  job::JobSpec spec = llama_job();
  hardware::NetworkLevel level;
  level.gpus = 8;
  spec.cluster.levels.push_back(level);
  expect_fault(spec, "cluster", "8 accelerators", "bandwidth");
}

TEST(Check, BlocksAlikeComplainOnce) {
  job::JobSpec spec = job_of(deepseek_v2_lite(), 3, {1, 3, 4096});
  spec.parallel.tp = 3;  // 16 heads, in both kinds of block
  int heads = 0;
  for (const Diagnostic& d : faults_of(spec)) {
    heads += d.message.find("16 attention heads") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(heads, 1);
}

}  // namespace
}  // namespace eratos::judges
