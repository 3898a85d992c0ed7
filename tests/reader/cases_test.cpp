// Every configuration of tests/data that describes a job is read; what is none says so; mutilated
// ones are refused or read, but never crash.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/reader/read_job.h"
#include "expect.h"

namespace eratos::reader {
namespace {

namespace fs = std::filesystem;

const std::string kData = std::string(ERATOS_SOURCE_DIR) + "/tests/data/";

const Environment kSet = {{"TP", "1"},
                          {"PP", "4"},
                          {"EP", "8"},
                          {"CP", "1"},
                          {"MBS", "1"},
                          {"GBS", "256"},
                          {"VPP", "1"},
                          {"SEQ_LEN", "4096"},
                          {"LAYERS_PER_VP", "1"},
                          {"MOE_GROUPED_GEMM", "true"},
                          {"MOE_TOKEN_DISPATCHER", "alltoall"}};

struct Case {
  const char* file;
  const char* format;
};

constexpr Case kCases[] = {
    {"megatron-args/DeepSeek-V3.yaml", "Megatron-LM arguments (YAML)"},
    {"megatron-args/Mixtral-8x22B.yaml", "Megatron-LM arguments (YAML)"},
    {"megatron-args/Qwen2-57B-A14B.yaml", "Megatron-LM arguments (YAML)"},
    {"megatron-args/Qwen3-30B-A3B.yaml", "Megatron-LM arguments (YAML)"},
    {"megatron-args/launch.sh", "Megatron-LM arguments (launch script)"},
    {"megatron-args/run.log", "arguments that a Megatron-LM run printed"},
    {"torchtitan/llama3_8b.toml", "torchtitan (TOML)"},
    {"torchtitan/llama3_70b.toml", "torchtitan (TOML)"},
    {"torchtitan/llama3_405b.toml", "torchtitan (TOML)"},
    {"torchtitan/deepseek_v3_671b.toml", "torchtitan (TOML)"},
    {"nanotron/config_tiny_llama.yaml", "nanotron (YAML)"},
    {"nanotron/config_qwen_with_moe.yaml", "nanotron (YAML)"},
    {"deepspeed/ds_zero3.json", "DeepSpeed (JSON) beside a Hugging Face config.json"},
    {"deepspeed/ds_auto.json", "DeepSpeed (JSON) beside a Hugging Face config.json"},
    {"deepspeed/train.yaml", "Hugging Face Trainer arguments"},
    {"deepspeed/config.json", "Hugging Face config.json"},
    {"nemo/bridge_llama3_8b.yaml", "NeMo or Megatron-Bridge (YAML)"},
    {"nemo/megatron_gpt_config.yaml", "NeMo or Megatron-Bridge (YAML)"},
    {"primus/examples/megatron/configs/MI300X/llama3.1_8B-BF16-pretrain.yaml",
     "Primus experiment (Megatron)"},
    {"primus/examples/megatron/configs/MI355X/llama3.1_8B-BF16-pretrain.yaml",
     "Primus experiment (Megatron)"},
    {"primus/examples/megatron/configs/MI355X/llama3.1_8B-MXFP8-pretrain.yaml",
     "Primus experiment (Megatron)"},
    {"primus/examples/megatron/configs/MI355X/llama3.1_70B-BF16-pretrain.yaml",
     "Primus experiment (Megatron)"},
    {"primus/examples/megatron/configs/MI355X/mixtral_8x22B_v0.1-BF16-pretrain.yaml",
     "Primus experiment (Megatron)"},
    {"primus/examples/megatron/configs/MI355X/deepseek_v3-FP8-pretrain.yaml",
     "Primus experiment (Megatron)"},
    {"primus/examples/megatron/configs/MI355X/qwen3_235B_A22B-BF16-pretrain.yaml",
     "Primus experiment (Megatron)"},
    {"primus/examples/megatron/configs/MI355X/deepseek_v2_lite-BF16-sft-packed.yaml",
     "Primus experiment (Megatron)"},
    {"primus/examples/torchtitan/configs/MI355X/llama3.1_70B-FP8-pretrain.yaml",
     "Primus experiment (torchtitan)"},
    {"primus/examples/maxtext/configs/MI355X/llama3.3_70B-fp8-pretrain.yaml",
     "Primus experiment (MaxText)"},
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

TEST(Cases, EveryJobIsRead) {
  for (const Case& each : kCases) {
    const auto read = read_job(kData + each.file, kSet);
    ASSERT_TRUE(read.has_value()) << each.file << "\n" << text_of(read.error());
    EXPECT_EQ(read->report.format, each.format) << each.file;
    EXPECT_GE(read->job.model.layers(), 1) << each.file;
    EXPECT_GE(read->job.batch.global, 1) << each.file;
    EXPECT_TRUE(open_questions(*read).empty()) << each.file;
    for (const auto& [path, from] : read->report.provenance) {
      EXPECT_FALSE(from.where.file.empty() && from.rule.empty()) << each.file << " " << path;
    }
  }
}

// Nothing of the folder is forgotten above.
TEST(Cases, EveryExperimentIsListed) {
  std::set<std::string> listed;
  for (const Case& each : kCases) listed.insert(each.file);
  for (const char* folder :
       {"megatron-args", "torchtitan", "nanotron", "deepspeed", "nemo", "primus/examples/megatron",
        "primus/examples/torchtitan", "primus/examples/maxtext"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kData + folder)) {
      if (!entry.is_regular_file() || entry.path().filename() == "LICENSE") continue;
      EXPECT_TRUE(listed.contains(entry.path().string().substr(kData.size()))) << entry.path();
    }
  }
}

std::string written(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

TEST(Cases, TwoKindsInOneFileAreRefused) {
  const std::string mixed = written("mixed.yaml",
                                    "parallelism: {dp: 2, tp: 1}\ntokens: {micro_batch_size: "
                                    "1}\nzero_optimization: {stage: 3}\n");
  const std::string text = faults_of(read_job(mixed, Environment{}));
  EXPECT_NE(text.find("the file mixes two kinds"), std::string::npos) << text;
  EXPECT_NE(text.find("`tokens.micro_batch_size` belongs to a nanotron configuration"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("`zero_optimization` to a DeepSpeed configuration"), std::string::npos)
      << text;
  const std::string ours = written("ours.yaml",
                                   "model: llama2-7b\nbatch: {global: 8, sequence: 64}\n"
                                   "MODEL_ARGS: {--num-layers: 2}\n");
  EXPECT_NE(faults_of(read_job(ours, Environment{})).find("mixes two kinds"), std::string::npos);
}

TEST(Cases, OtherTasksAreRefusedPolitely) {
  for (const char* framework : {"diffusion", "maxdiffusion", "nemo_automodel", "torchrec_dlrm"}) {
    const std::string path = written("other.yaml",
                                     "work_group: a\nuser_name: b\nexp_name: c\nworkspace: d\n"
                                     "modules:\n  pre_trainer:\n    framework: " +
                                         std::string(framework) + "\n    steps: 1\n");
    EXPECT_NE(
        faults_of(read_job(path, Environment{})).find("not a language-model pre-training job"),
        std::string::npos)
        << framework;
  }
}

TEST(Cases, PresetsAreNoJobs) {
  for (const char* preset : {"models/megatron/llama3.1_8B.yaml", "models/maxtext/grok1.yaml",
                             "models/diffusion/flux.1_schnell_t2i.yaml"}) {
    const std::string text =
        faults_of(read_job(kData + "primus/primus/configs/" + preset, Environment{}));
    EXPECT_NE(text.find("a preset of Primus, a part of a job"), std::string::npos) << text;
  }
}

// One file in many broken forms: bytes changed, removed, doubled; lines swapped. Any answer will do
// that is an answer.
TEST(Cases, MutilatedFilesNeverCrash) {
  Rng rng(20261129);
  int read = 0;
  int refused = 0;
  for (const Case& each : kCases) {
    const std::string whole = content(kData + each.file);
    const std::string extension = fs::path(each.file).extension().string();
    for (int round = 0; round < 12; ++round) {
      std::string text = whole;
      const int changes = 1 + static_cast<int>(rng.below(4));
      for (int i = 0; i < changes && !text.empty(); ++i) {
        const auto at = static_cast<std::size_t>(rng.below(text.size()));
        switch (rng.below(6)) {
          case 0:
            text[at] = static_cast<char>(rng.below(256));
            break;
          case 1:
            text.erase(at, 1 + rng.below(40));
            break;
          case 2:
            text.insert(at, text.substr(at, 1 + rng.below(60)));
            break;
          case 3:
            text.insert(at, "-999999999999");
            break;
          case 4:
            text.insert(at, "${X");
            break;
          default:
            text.resize(at);
            break;
        }
      }
      const std::string path = written("mutilated" + extension, text);
      const auto result = read_job(path, kSet);
      ++(result ? read : refused);
      if (!result) {
        EXPECT_FALSE(result.error().empty());
      }
    }
  }
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace eratos::reader
