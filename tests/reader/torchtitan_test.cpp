#include "eratos/reader/torchtitan.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/reader/read_job.h"
#include "eratos/text/toml.h"
#include "expect.h"

namespace eratos::reader {
namespace {

const std::string kData = std::string(ERATOS_SOURCE_DIR) + "/tests/data/";

JobRead titan(const std::string& toml) {
  return good(read_torchtitan(good(text::parse_toml(toml, "job.toml"), toml),
                              {.format = "torchtitan (TOML)", .name = "job"}),
              toml);
}

std::string bad(const std::string& toml) {
  return faults_of(read_torchtitan(good(text::parse_toml(toml, "job.toml"), toml),
                                   {.format = "torchtitan (TOML)", .name = "job"}));
}

const std::string kModel = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";

// llama3_70b.toml: tp 8, FSDP over the rest, 8 sequences a data-parallel rank.
TEST(Torchtitan, DegreesAndBatchFollowTheCluster) {
  const std::string file = kData + "torchtitan/llama3_70b.toml";
  const JobRead alone = good(read_job(file, Environment{}));
  EXPECT_EQ(alone.job.model.name, "llama3.1-70b");
  EXPECT_EQ(alone.job.parallel.tp, 8);
  EXPECT_TRUE(alone.job.parallel.sequence_parallel);
  EXPECT_EQ(alone.job.parallel.sharding, parallel::Sharding::zero3);
  EXPECT_EQ(alone.job.batch.micro, 8);
  EXPECT_EQ(alone.job.batch.sequence, 8192);
  EXPECT_EQ(alone.job.recompute.granularity, job::Granularity::full);
  EXPECT_EQ(alone.job.framework.name, "torchtitan-eager");
  EXPECT_FALSE(alone.job.loss_fused);

  const JobRead placed = good(read_job(file, ReadOptions{.cluster = "a100-80g-8x8"}));
  EXPECT_EQ(placed.job.batch.global, 64);  // 8 x (64 / 8)
  EXPECT_EQ(placed.report.provenance.at("batch.global").rule,
            "8 sequences a data-parallel rank x dp 8");
  const JobRead wider =
      good(read_job(file, ReadOptions{.sets = {"parallel.tp=4"}, .cluster = "a100-80g-8x8"}));
  EXPECT_EQ(wider.job.batch.global, 128);
  const JobRead fixed =
      good(read_job(file, ReadOptions{.sets = {"batch.global=256"}, .cluster = "a100-80g-8x8"}));
  EXPECT_EQ(fixed.job.batch.global, 256);
}

TEST(Torchtitan, Float8AndAsynchronousTensorParallelism) {
  const JobRead read = good(read_job(kData + "torchtitan/llama3_405b.toml", Environment{}));
  EXPECT_EQ(read.job.precision, job::Recipe::fp8_current);
  EXPECT_EQ(read.job.framework.state.gather_dtype, DType::fp8);
  EXPECT_TRUE(read.job.overlap.tp);
  EXPECT_EQ(read.job.framework.name, "torchtitan");
  EXPECT_TRUE(read.job.loss_fused);
  // The table alone converts nothing: llama3_8b.toml has it and no converter.
  const JobRead plain = good(read_job(kData + "torchtitan/llama3_8b.toml", Environment{}));
  EXPECT_EQ(plain.job.precision, job::Recipe::bf16);
}

TEST(Torchtitan, CheckpointModes) {
  const auto mode = [&](const std::string& lines) {
    return titan(kModel + "[activation_checkpoint]\n" + lines).job.recompute;
  };
  EXPECT_EQ(mode("mode = \"none\"\n").granularity, job::Granularity::none);
  EXPECT_EQ(mode("mode = \"full\"\n").granularity, job::Granularity::full);
  const auto op = mode("mode = \"selective\"\nselective_ac_option = \"op\"\n");
  EXPECT_EQ(op.granularity, job::Granularity::full);
  EXPECT_EQ(op.policy, "op-level");
  EXPECT_TRUE(op.alternate);
  EXPECT_TRUE(op.kept.test(static_cast<std::size_t>(ops::Module::core_attention)));
  // Every third layer, counted from 1: layers 2, 5, ... 29 of 32.
  const auto third = mode("mode = \"selective\"\nselective_ac_option = \"3\"\n");
  EXPECT_EQ(third.granularity, job::Granularity::full);
  EXPECT_EQ(third.layer_ids.size(), 10U);
  EXPECT_EQ(third.layer_ids.front(), 2);
  EXPECT_NE(bad(kModel + "[activation_checkpoint]\nmode = \"ful\"\n").find("did you mean `full`?"),
            std::string::npos);
}

// 32 layers and one for each end on 4 stages: 8.5 each, the first two get one more.
TEST(Torchtitan, LayersOfPipelineStages) {
  const JobRead read = titan(kModel +
                             "[parallelism]\npipeline_parallel_degree = 4\n"
                             "pipeline_parallel_schedule = \"1F1B\"\n[training]\n"
                             "local_batch_size = 8\n");
  const auto& stages = read.job.layout.stages;
  ASSERT_EQ(stages.size(), 4U);
  EXPECT_EQ(stages[0].layers, 8);
  EXPECT_EQ(stages[1].layers, 9);
  EXPECT_EQ(stages[2].layers, 8);
  EXPECT_EQ(stages[3].layers, 7);
  EXPECT_EQ(read.job.schedule.algorithm, "1f1b");
  EXPECT_EQ(read.job.batch.micro, 1);
  EXPECT_EQ(read.job.batch.global, 8);
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::zero2);
  const JobRead chunks = titan(kModel +
                               "[parallelism]\npipeline_parallel_degree = 4\n"
                               "pipeline_parallel_schedule = \"Interleaved1F1B\"\n");
  EXPECT_EQ(chunks.job.parallel.vpp, 2);
}

TEST(Torchtitan, ReplicasShareTheRest) {
  const JobRead read = titan(kModel +
                             "[parallelism]\ndata_parallel_replicate_degree = 2\n"
                             "data_parallel_shard_degree = 8\n");
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::hsdp);
  EXPECT_EQ(read.job.parallel.hsdp_group, 8);
  EXPECT_EQ(read.follows.accelerators, 16);
}

TEST(Torchtitan, UnknownKeysAndFlavorsAreNamed) {
  EXPECT_NE(
      bad(kModel + "[training]\nseq_length = 8192\n").find("unknown key `training.seq_length`"),
      std::string::npos);
  EXPECT_NE(bad(kModel + "[training]\nseq_lenn = 8192\n").find("did you mean `training.seq_len`?"),
            std::string::npos);
  EXPECT_NE(bad("[model]\nname = \"llama3\"\nflavor = \"9B\"\n").find("flavor `9B` of `llama3`"),
            std::string::npos);
  EXPECT_NE(bad("[training]\nseq_len = 8192\n").find("`model.name` and `model.flavor`"),
            std::string::npos);
  const JobRead read = titan(kModel + "[checkpoint]\nenable = true\n");
  ASSERT_FALSE(read.report.unused.empty());
  EXPECT_EQ(read.report.unused.front().key, "checkpoint.enable");
}

TEST(Torchtitan, PrimusExperiment) {
  const JobRead read = good(
      read_job(kData + "primus/examples/torchtitan/configs/MI355X/llama3.1_70B-FP8-pretrain.yaml",
               ReadOptions{.cluster = "mi355x-2x8"}));
  EXPECT_EQ(read.report.format, "Primus experiment (torchtitan)");
  EXPECT_EQ(read.job.model.name, "llama3.1-70b");
  EXPECT_EQ(read.job.batch.micro, 6);
  EXPECT_EQ(read.job.batch.global, 96);
  EXPECT_EQ(read.job.precision, job::Recipe::fp8_current);
  EXPECT_EQ(read.job.parallel.tp, 1);
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::zero3);
  EXPECT_EQ(read.job.recompute.granularity, job::Granularity::full);
  EXPECT_EQ(read.job.framework.name, "primus-torchtitan");
}

}  // namespace
}  // namespace eratos::reader
