#include "eratos/reader/read_job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "eratos/model/architecture.h"
#include "eratos/reader/huggingface.h"
#include "eratos/text/json.h"
#include "expect.h"

namespace eratos::reader {
namespace {

namespace fs = std::filesystem;

class Files : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("eratos-read-job-" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(root_ / name) << text;
    return (root_ / name).string();
  }
  std::string bad(const std::string& name, const std::string& text) const {
    return faults_of(read_job(write(name, text), Environment{}));
  }
  fs::path root_;
};

TEST(ReadJob, CatalogueName) {
  ReadOptions options;
  options.cluster = "h100-sxm-8x8";
  const JobRead out = good(read_job("llama3.1-70b", options));
  EXPECT_EQ(out.job.batch.sequence, 4096);
  EXPECT_EQ(out.job.batch.global, 512);
  EXPECT_EQ(out.report.provenance.at("batch.global").origin, Origin::framework_default);
  EXPECT_EQ(out.report.provenance.at("model").origin, Origin::catalogue);
  ASSERT_EQ(out.report.warnings.size(), 1u);
  job::CheckedJob checked;
  EXPECT_EQ(text_of(job::check(out.job, checked)), "");
}

TEST(ReadJob, EveryCatalogueModelIsALegalJobSomewhere) {
  ReadOptions options;
  options.cluster = "h100-sxm-2x8";
  for (const char* name : {"llama2-7b", "mixtral-8x7b", "deepseek-v3", "gpt3-175b", "mpt-7b"}) {
    const JobRead out = good(read_job(name, options), name);
    job::CheckedJob checked;
    EXPECT_EQ(text_of(job::check(out.job, checked)), "") << name;
  }
}

TEST(ReadJob, UnknownName) {
  EXPECT_NE(faults_of(read_job("llama3.1-7b", Environment{})).find("did you mean `llama3.1-"),
            std::string::npos);
  EXPECT_NE(faults_of(read_job("nowhere.yaml", Environment{})).find("nowhere.yaml"),
            std::string::npos);
  EXPECT_FALSE(read_job("", Environment{}).has_value());
  EXPECT_FALSE(read_job("abcd", Environment{}).has_value());
}

TEST_F(Files, ContentDecidesNotTheName) {
  const std::string job = "model: llama2-7b\nbatch: {global: 8, sequence: 128}\n";
  EXPECT_EQ(good(read_job(write("job.txt", job), Environment{})).report.format, "eratos job");
  EXPECT_EQ(good(read_job(write("config.yaml",
                                "{\"model_type\": \"gpt2\", \"n_embd\": 64, \"n_layer\": 2, "
                                "\"n_head\": 4, \"vocab_size\": 100}"),
                          Environment{}))
                .report.format,
            "Hugging Face config.json");
}

TEST_F(Files, UnknownKindsAreNamed) {
  const std::string all = bad("job.yaml", "colour: red\n");
  EXPECT_NE(all.find("job.yaml:1:1: error: cannot tell what kind of job this is"),
            std::string::npos)
      << all;
  EXPECT_NE(all.find("Primus"), std::string::npos) << all;
}

TEST_F(Files, BrokenFiles) {
  EXPECT_NE(bad("a.yaml", "").find("the file is empty"), std::string::npos);
  EXPECT_NE(bad("b.yaml", "- 1\n- 2\n").find("must be a mapping"), std::string::npos);
  EXPECT_NE(bad("c.yaml", "model: [1\n").find("c.yaml:"), std::string::npos);
  EXPECT_NE(bad("d.yaml", "model: a\nmodel: b\n").find("d.yaml:2"), std::string::npos);
  EXPECT_NE(bad("e.yaml", std::string("\0\1\2\xff\xfe", 5)).find("e.yaml"), std::string::npos);
  EXPECT_NE(bad("f.yaml", std::string(1'500'000, ' ')).find("1500000"), std::string::npos);
}

JobRead config(const std::string& json) {
  return good(read_huggingface(good(text::parse_json(json, "config.json")), "config.json"), json);
}
double parameters(const JobRead& read) { return model::count_parameters(read.job.model).total; }

TEST(HuggingFace, Llama) {
  const JobRead out = config(
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096,
          "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
          "num_key_value_heads": 8, "vocab_size": 128256, "hidden_act": "silu",
          "attention_bias": false, "tie_word_embeddings": false, "rope_theta": 500000.0,
          "max_position_embeddings": 131072, "torch_dtype": "bfloat16"})");
  EXPECT_EQ(parameters(out), 8030261248.0);
  const Provenance& layers = out.report.provenance.at("model.layers");
  EXPECT_EQ(layers.origin, Origin::user);
  EXPECT_EQ(layers.where.line, 2);
  EXPECT_EQ(out.report.provenance.at("batch.micro").origin, Origin::framework_default);
  EXPECT_FALSE(out.report.unused.empty());
  for (const UnusedKey& key : out.report.unused) {
    EXPECT_EQ(key.reason, "does not change the sizes") << key.key;
  }
}

// What nobody has read may change anything.
TEST(HuggingFace, AnUnknownKeyIsNotSaidToBeHarmless) {
  const JobRead out = config(
      R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
          "vocab_size": 128256, "experts_in_the_attic": 12, "rope_theta": 500000.0})");
  ASSERT_EQ(out.report.unused.size(), 2U);
  EXPECT_EQ(out.report.unused[0].key, "experts_in_the_attic");
  EXPECT_NE(out.report.unused[0].reason.find("not known"), std::string::npos);
  EXPECT_EQ(out.report.unused[1].reason, "does not change the sizes");
}

TEST(HuggingFace, Mixtral) {
  EXPECT_EQ(parameters(config(
                R"({"model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336,
          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
          "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
          "sliding_window": null, "hidden_act": "silu"})")),
            46702792704.0);
}

TEST(HuggingFace, Qwen3Moe) {
  EXPECT_EQ(parameters(config(
                R"({"model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
          "moe_intermediate_size": 768, "num_hidden_layers": 48, "num_attention_heads": 32,
          "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
          "num_experts_per_tok": 8, "vocab_size": 151936, "decoder_sparse_step": 1,
          "mlp_only_layers": [], "sliding_window": null, "use_sliding_window": false,
          "hidden_act": "silu"})")),
            30532122624.0);
}

TEST(HuggingFace, Gemma2HasWindowsInEverySecondLayer) {
  const JobRead out = config(
      R"({"model_type": "gemma2", "hidden_size": 3584, "intermediate_size": 14336,
          "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8,
          "head_dim": 256, "vocab_size": 256000, "sliding_window": 4096,
          "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
          "hidden_activation": "gelu_pytorch_tanh"})");
  EXPECT_EQ(parameters(out), 9241705984.0);
  const model::Architecture& a = out.job.model;
  ASSERT_EQ(a.blocks.size(), 2u);
  EXPECT_EQ(std::get<layer::AttentionSpec>(a.blocks[a.pattern[0]].mixer).window, 4096);
  EXPECT_EQ(std::get<layer::AttentionSpec>(a.blocks[a.pattern[41]].mixer).window, 0);
  EXPECT_EQ(a.final_soft_cap, 30);
}

TEST(HuggingFace, LayersWithWindowsByName) {
  const JobRead out = config(
      R"({"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
          "num_hidden_layers": 4, "num_attention_heads": 64, "num_key_value_heads": 8,
          "head_dim": 64, "num_local_experts": 32, "num_experts_per_tok": 4,
          "attention_bias": true, "vocab_size": 201088, "sliding_window": 128,
          "layer_types": ["full_attention", "sliding_attention", "sliding_attention",
                          "full_attention"], "hidden_act": "silu"})");
  // Ends 2 * 201088 * 2880 and a norm; a layer as 20,914,757,184 of the 24-layer model has it.
  const double ends = 2.0 * 201088 * 2880 + 2880;
  EXPECT_EQ(parameters(out), ends + 4 * (20914757184.0 - ends) / 24);
  std::vector<int> windows;
  for (const std::uint8_t kind : out.job.model.pattern) {
    windows.push_back(std::get<layer::AttentionSpec>(out.job.model.blocks[kind].mixer).window);
  }
  EXPECT_EQ(windows, (std::vector<int>{0, 128, 128, 0}));
}

TEST(HuggingFace, DeepSeekV3) {
  const JobRead out = config(
      R"({"model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432,
          "moe_intermediate_size": 2048, "num_hidden_layers": 61, "num_attention_heads": 128,
          "num_key_value_heads": 128, "n_routed_experts": 256, "n_shared_experts": 1,
          "num_experts_per_tok": 8, "first_k_dense_replace": 3, "moe_layer_freq": 1,
          "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
          "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 129280,
          "num_nextn_predict_layers": 1, "hidden_act": "silu", "topk_method": "noaux_tc"})");
  EXPECT_EQ(parameters(out), 671026419200.0);
  EXPECT_EQ(out.job.model.mtp_layers, 1);
}

TEST(HuggingFace, DeepSeekV2Lite) {
  EXPECT_EQ(parameters(config(
                R"({"model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944,
          "moe_intermediate_size": 1408, "num_hidden_layers": 27, "num_attention_heads": 16,
          "num_key_value_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2,
          "num_experts_per_tok": 6, "first_k_dense_replace": 1, "moe_layer_freq": 1,
          "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
          "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 102400,
          "hidden_act": "silu", "topk_method": "greedy"})")),
            15706484224.0);
}

TEST(HuggingFace, Qwen2HasQkvBiasAndQwen3QkNorm) {
  const std::string sizes =
      R"("hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100})";
  const auto attention = [&](const char* type) {
    const JobRead out = config("{\"model_type\": \"" + std::string(type) + "\", " + sizes);
    return std::get<layer::AttentionSpec>(out.job.model.blocks[0].mixer);
  };
  EXPECT_TRUE(attention("qwen2").qkv_bias);
  EXPECT_FALSE(attention("qwen2").out_bias);
  EXPECT_TRUE(attention("qwen3").qk_norm);
  EXPECT_FALSE(attention("llama").qkv_bias);
}

TEST(HuggingFace, Gpt2) {
  // Published: 124,439,808 parameters of GPT-2 small.
  EXPECT_EQ(parameters(config(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
          "n_positions": 1024, "vocab_size": 50257, "activation_function": "gelu_new"})")),
            124439808.0);
}

TEST(HuggingFace, BadConfigs) {
  const auto bad = [](const std::string& json) {
    return faults_of(read_huggingface(good(text::parse_json(json, "config.json")), "config.json"));
  };
  EXPECT_NE(bad(R"({"model_type": "lama", "hidden_size": 1})").find("did you mean `llama`?"),
            std::string::npos);
  const std::string missing = bad(R"({"model_type": "llama", "hidden_size": 64})");
  EXPECT_NE(missing.find("`num_hidden_layers` is missing"), std::string::npos) << missing;
  EXPECT_NE(missing.find("`vocab_size` is missing"), std::string::npos) << missing;
  EXPECT_NE(bad(R"({"model_type": "mistral", "hidden_size": 64, "hidden_act": "tan"})")
                .find("activation `tan` is not modelled"),
            std::string::npos);
}

}  // namespace
}  // namespace eratos::reader
