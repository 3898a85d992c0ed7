#include "eratos/reader/maxtext.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/reader/read_job.h"
#include "expect.h"

namespace eratos::reader {
namespace {

const std::string kExperiment =
    std::string(ERATOS_SOURCE_DIR) +
    "/tests/data/primus/examples/maxtext/configs/MI355X/llama3.3_70B-fp8-pretrain.yaml";

Result<JobRead> maxtext(const std::string& text) {
  return read_maxtext(yaml(text), {.format = "MaxText", .name = "job"});
}

// 10 sequences a device on 64 devices, FSDP within each node of 8, copies across nodes.
TEST(Maxtext, PrimusExperiment) {
  const JobRead read = good(read_job(kExperiment, ReadOptions{.cluster = "mi355x-8x8"}));
  EXPECT_EQ(read.report.format, "Primus experiment (MaxText)");
  EXPECT_EQ(read.job.model.name, "llama3.1-70b");
  EXPECT_EQ(read.job.batch.micro, 10);
  EXPECT_EQ(read.job.batch.global, 640);
  EXPECT_EQ(read.job.batch.sequence, 8192);
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::hsdp);
  EXPECT_EQ(read.job.parallel.hsdp_group, 8);
  EXPECT_EQ(read.job.precision, job::Recipe::fp8_delayed);
  EXPECT_EQ(read.job.recompute.granularity, job::Granularity::full);
  EXPECT_FALSE(read.job.framework.state.stores_fp32_parameters);
  EXPECT_EQ(read.job.optimizer.exp_avg, DType::bf16);
  EXPECT_EQ(read.job.framework.name, "maxtext");
}

TEST(Maxtext, MeshAxesMultiply) {
  const JobRead read = good(
      maxtext("model_name: llama2-7b\nici_tensor_parallelism: 4\ndcn_tensor_parallelism: 2\n"
              "ici_fsdp_parallelism: 2\ndcn_fsdp_parallelism: 4\nper_device_batch_size: 0.25\n"));
  EXPECT_EQ(read.job.parallel.tp, 8);
  EXPECT_EQ(read.job.parallel.sharding, parallel::Sharding::zero3);
  EXPECT_EQ(read.follows.accelerators, 64);
  EXPECT_EQ(read.job.batch.micro, 2);  // 0.25 x 8 devices of a replica
  EXPECT_EQ(read.job.batch.global, 16);
}

TEST(Maxtext, SizesStandForThemselves) {
  const JobRead read = good(maxtext(
      "model_name: default\nbase_emb_dim: 6144\nbase_num_query_heads: 48\nbase_num_kv_heads: 8\n"
      "base_mlp_dim: 32768\nbase_num_decoder_layers: 64\nhead_dim: 128\nvocab_size: 131072\n"
      "mlp_activations: [\"silu\", \"linear\"]\nnum_experts: 8\nnum_experts_per_tok: 2\n"
      "base_moe_mlp_dim: 32768\nper_device_batch_size: 1\n"));
  EXPECT_TRUE(model::is_moe(read.job.model));
  EXPECT_EQ(read.job.model.layers(), 64);
}

TEST(Maxtext, PoliciesAndFaults) {
  const std::string job = "model_name: llama2-7b\nper_device_batch_size: 1\n";
  const JobRead flash = good(maxtext(job + "remat_policy: minimal_flash\n"));
  EXPECT_EQ(flash.job.recompute.granularity, job::Granularity::selective);
  EXPECT_FALSE(
      flash.job.recompute.modules.test(static_cast<std::size_t>(ops::Module::core_attention)));
  const JobRead qkv = good(maxtext(job + "remat_policy: save_qkv_proj\n"));
  EXPECT_FALSE(qkv.job.recompute.modules.test(static_cast<std::size_t>(ops::Module::qkv)));
  EXPECT_TRUE(qkv.job.recompute.modules.test(static_cast<std::size_t>(ops::Module::mlp_in)));
  EXPECT_NE(faults_of(maxtext(job + "remat_policy: minimum\n")).find("did you mean `minimal`?"),
            std::string::npos);
  EXPECT_NE(faults_of(maxtext(job + "quantization: int8\n")).find("`int8` is not modelled"),
            std::string::npos);
  EXPECT_NE(faults_of(maxtext("model_name: llama9\n")).find("model_name `llama9` is not known"),
            std::string::npos);
}

}  // namespace
}  // namespace eratos::reader
