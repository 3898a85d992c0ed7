#include "eratos/reader/nanotron.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/reader/read_job.h"
#include "expect.h"

namespace eratos::reader {
namespace {

const std::string kData = std::string(ERATOS_SOURCE_DIR) + "/tests/data/nanotron/";

TEST(Nanotron, TinyLlama) {
  const JobRead read = good(read_job(kData + "config_tiny_llama.yaml", Environment{}));
  EXPECT_EQ(read.report.format, "nanotron (YAML)");
  EXPECT_EQ(read.job.model.layers(), 28);
  EXPECT_EQ(read.job.model.hidden, 2048);
  EXPECT_TRUE(read.job.model.tie_embeddings);
  EXPECT_EQ(read.job.parallel.tp, 2);
  EXPECT_TRUE(read.job.parallel.sequence_parallel);
  EXPECT_TRUE(read.job.overlap.tp);
  EXPECT_EQ(read.job.batch.micro, 3);
  EXPECT_EQ(read.job.batch.global, 12);  // 3 x 1 x dp 4
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::none);
  EXPECT_EQ(read.job.optimizer.main_gradient, DType::fp32);
  EXPECT_EQ(read.follows.accelerators, 8);
  EXPECT_EQ(read.job.framework.name, "nanotron");
}

// One of nanotron's own examples has `moe_config` twice; PyYAML takes the last.
TEST(Nanotron, AKeyGivenTwiceIsAWarning) {
  const auto read = good(read_job(kData + "config_qwen_with_moe.yaml", Environment{}));
  ASSERT_TRUE(model::is_moe(read.job.model));
  const auto& experts = std::get<layer::MoeSpec>(read.job.model.blocks.front().feed_forward);
  EXPECT_EQ(experts.experts, 8);
  EXPECT_EQ(experts.top_k, 1);
  EXPECT_EQ(experts.ffn, 768);
  EXPECT_EQ(experts.shared_ffn, 768);
  EXPECT_EQ(read.report.provenance.at("model.sliding_window").value, "20");
  bool warned = false;
  for (const Warning& w : read.report.warnings) {
    if (w.code != "repeated-key") continue;
    warned = true;
    EXPECT_NE(w.message.find("key `moe_config` is given twice, at line"), std::string::npos);
    EXPECT_NE(w.message.find("the last one counts"), std::string::npos);
  }
  EXPECT_TRUE(warned);
}

// For our own jobs a key given twice stays a fault.
TEST(Nanotron, OtherFormatsRefuseIt) {
  const std::string path = ::testing::TempDir() + "twice.yaml";
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fputs("model: llama2-7b\nbatch: {global: 8, sequence: 4096}\nmodel: llama2-13b\n", file);
  fclose(file);
  EXPECT_NE(faults_of(read_job(path, Environment{})).find("key `model` is given twice"),
            std::string::npos);
}

std::string bad(const std::string& text) {
  return faults_of(read_nanotron(yaml(text), "job.yaml"));
}

TEST(Nanotron, FaultsNameTheKey) {
  const std::string tokens = "tokens: {micro_batch_size: 1, sequence_length: 2048}\n";
  EXPECT_NE(bad(tokens + "parallelism: {tp: 1}\n").find("`parallelism.dp` is missing"),
            std::string::npos);
  EXPECT_NE(bad(tokens + "parallelism: {dp: 1, ttp: 1}\n").find("did you mean `parallelism.tp`?"),
            std::string::npos);
  EXPECT_NE(
      bad(tokens + "parallelism: {dp: 1, pp_engine: 2f2b}\n").find("it is one of 1f1b or afab"),
      std::string::npos);
  EXPECT_NE(
      bad(tokens + "parallelism: {dp: \"${DP}\"}\n").find("environment variable `DP` is not set"),
      std::string::npos);
}

}  // namespace
}  // namespace eratos::reader
