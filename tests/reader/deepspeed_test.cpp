#include "eratos/reader/deepspeed.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/reader/read_job.h"
#include "eratos/text/json.h"
#include "expect.h"

namespace eratos::reader {
namespace {

const std::string kData = std::string(ERATOS_SOURCE_DIR) + "/tests/data/deepspeed/";

Result<JobRead> deepspeed(const std::string& json) {
  return read_deepspeed(good(text::parse_json(json, "ds.json"), json), kData + "ds.json");
}

// 64 = 2 x 4 x 8.
TEST(Deepspeed, ZeroThreeBesideAConfig) {
  const JobRead read = good(read_job(kData + "ds_zero3.json", Environment{}));
  EXPECT_EQ(read.job.model.layers(), 32);
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::zero3);
  EXPECT_EQ(read.job.batch.micro, 2);
  EXPECT_EQ(read.job.batch.global, 64);
  EXPECT_EQ(read.follows.accelerators, 8);
  EXPECT_EQ(read.job.precision, job::Recipe::bf16);
}

TEST(Deepspeed, BatchSizesMustAgree) {
  EXPECT_NE(faults_of(deepspeed("{\"train_batch_size\": 30, \"train_micro_batch_size_per_gpu\": 4, "
                                "\"gradient_accumulation_steps\": 2}"))
                .find("train_batch_size 30 is no multiple of micro-batch 4 x accumulation 2"),
            std::string::npos);
  const JobRead follows =
      good(deepspeed("{\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 2, "
                     "\"bf16\": {\"enabled\": true}}"));
  EXPECT_EQ(follows.follows.replica_sequences, 8);
  EXPECT_EQ(follows.job.batch.global, 8);
}

TEST(Deepspeed, OffloadAndStagesAreChecked) {
  EXPECT_NE(faults_of(deepspeed("{\"train_micro_batch_size_per_gpu\": 1, "
                                "\"zero_optimization\": {\"stage\": 4}}"))
                .find("ZeRO has no stage 4"),
            std::string::npos);
  EXPECT_NE(faults_of(deepspeed("{\"train_micro_batch_size_per_gpu\": 1, "
                                "\"zero_optimization\": {\"stage\": 3, \"offload_param\": "
                                "{\"device\": \"nvme\"}}}"))
                .find("nvme"),
            std::string::npos);
}

TEST(Deepspeed, TheOptimizerMayLiveOnTheHost) {
  const JobRead read = good(deepspeed(
      "{\"train_micro_batch_size_per_gpu\": 1, \"bf16\": {\"enabled\": true}, "
      "\"zero_optimization\": {\"stage\": 2, \"offload_optimizer\": {\"device\": \"cpu\"}}}"));
  EXPECT_EQ(read.job.offload.optimizer, 1);
}

TEST(Trainer, FillsAuto) {
  const JobRead read = good(read_job(kData + "train.yaml", ReadOptions{.cluster = "h100-sxm-1x8"}));
  EXPECT_EQ(read.report.format, "Hugging Face Trainer arguments");
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::zero2);
  EXPECT_EQ(read.job.batch.micro, 4);
  EXPECT_EQ(read.job.batch.global, 64);  // 4 x 2 x 8
  EXPECT_EQ(read.job.batch.sequence, 4096);
  EXPECT_EQ(read.job.precision, job::Recipe::bf16);
  EXPECT_EQ(read.job.recompute.granularity, job::Granularity::full);
}

TEST(Trainer, FullyShardedWithoutDeepspeed) {
  const JobRead read = good(read_trainer(
      yaml("model_name_or_path: meta-llama/Llama-3.1-8B\nper_device_train_batch_size: 2\n"
           "fsdp: full_shard auto_wrap\nbf16: true\nmax_length: 8192\n"),
      "/nowhere/train.yaml", {}));
  EXPECT_EQ(read.job.model.name, "llama3.1-8b");
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::zero3);
  EXPECT_EQ(read.job.framework.name, "pytorch-fsdp");
  EXPECT_NE(faults_of(read_trainer(yaml("per_device_train_batch_size: 2\n"), "/nowhere/t.yaml", {}))
                .find("no config.json"),
            std::string::npos);
}

}  // namespace
}  // namespace eratos::reader
