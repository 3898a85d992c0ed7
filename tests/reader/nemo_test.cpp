#include "eratos/reader/nemo.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/reader/read_job.h"
#include "expect.h"

namespace eratos::reader {
namespace {

const std::string kData = std::string(ERATOS_SOURCE_DIR) + "/tests/data/nemo/";

TEST(Nemo, BridgeOverridesOfANamedModel) {
  const JobRead read = good(read_job(kData + "bridge_llama3_8b.yaml", Environment{}));
  EXPECT_EQ(read.report.format, "NeMo or Megatron-Bridge (YAML)");
  EXPECT_EQ(read.job.model.layers(), 32);
  EXPECT_EQ(read.job.model.vocab, 128256);
  EXPECT_EQ(read.job.parallel.tp, 2);
  EXPECT_TRUE(read.job.parallel.sequence_parallel);
  EXPECT_EQ(read.job.batch.global, 128);
  EXPECT_EQ(read.job.precision, job::Recipe::fp8_current);
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::zero1);
  EXPECT_TRUE(read.job.overlap.param_gather);
}

TEST(Nemo, MegatronGptConfig) {
  const JobRead read = good(read_job(kData + "megatron_gpt_config.yaml", Environment{}));
  EXPECT_EQ(read.job.model.layers(), 24);
  EXPECT_TRUE(read.job.model.tie_embeddings);
  EXPECT_EQ(read.job.model.position, layer::Position::learned);
  EXPECT_EQ(read.job.batch.sequence, 2048);
  EXPECT_EQ(read.job.recompute.granularity, job::Granularity::selective);
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::zero1);
  EXPECT_EQ(read.job.precision, job::Recipe::bf16);
  EXPECT_EQ(read.follows.accelerators, 32);
}

TEST(Nemo, AnUnknownModelIsNamed) {
  EXPECT_NE(faults_of(read_nemo(yaml("recipe: x\nflavor: y\nhf_path: acme/Model-1B\n"
                                     "train: {global_batch_size: 8}\n"),
                                "job.yaml", {}))
                .find("`acme/Model-1B` is no model of the catalogue"),
            std::string::npos);
}

}  // namespace
}  // namespace eratos::reader
