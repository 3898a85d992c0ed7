// Which layers attend differently, as files say it, and what the catalogue adds to files of runs.
// The mappings are architectures as files of published runs state them, cut to what matters.
#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

#include "eratos/model/architecture.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/truth_model.h"
#include "eratos/text/yaml.h"
#include "expect.h"

namespace eratos::reader {
namespace {

model::Architecture of_run(const std::string& name, const std::string& keys) {
  return good(decode_model(completed_model(*text::parse_yaml(keys, "models.yaml"), name)), name);
}

std::vector<int> windows(const model::Architecture& a) {
  std::vector<int> out;
  for (const std::uint8_t kind : a.pattern) {
    out.push_back(std::get<layer::AttentionSpec>(a.blocks[kind].mixer).window);
  }
  return out;
}

int with_window(const model::Architecture& a) {
  int count = 0;
  for (const int w : windows(a)) count += w > 0 ? 1 : 0;
  return count;
}

constexpr const char* kOss =
    "layers: 24\nhidden: 2880\nffn: 2880\nheads: 64\nkv_heads: 8\nhead_dim: 64\nvocab: 201088\n"
    "gated_mlp: true\nbias: true\nmoe: {experts: 32, top_k: 4, ffn: 2880}\n";

// Its window, sinks and router bias, in three spellings, make the published count.
TEST(LayerPattern, GptOssAsThreeFilesSayIt) {
  for (const char* words :
       {"other: {attention: 'sliding window 128 on every other layer, sinks'}\n",
        "attention_sinks: true\nsliding_window: 128 in every other layer\n",
        "sliding_window: 128\nnote: sliding window 128 on every second layer, attention sinks\n"}) {
    const auto a = of_run("gpt-oss-20b", std::string(kOss) + words);
    EXPECT_EQ(with_window(a), 12) << words;
    EXPECT_EQ(windows(a)[0], 128) << words;
    EXPECT_EQ(windows(a)[23], 0) << words;
    EXPECT_EQ(model::count_parameters(a).total, 20914757184) << words;
  }
}

TEST(LayerPattern, Gemma3SaysFiveToOneInItsCatalogueFile) {
  const auto a =
      of_run("gemma3-12b",
             "layers: 48\nhidden: 3840\nffn: 15360\nheads: 16\nkv_heads: 8\nhead_dim: 256\n"
             "vocab: 262144\ntie_embeddings: true\ngated_mlp: true\nsliding_window: 1024\n");
  EXPECT_EQ(with_window(a), 40);
  EXPECT_EQ(windows(a)[5], 0);
  EXPECT_TRUE(a.blocks[0].post_norm);
  // Without the 64 further rows of the checkpoint's table.
  EXPECT_EQ(model::count_parameters(a).total, 11766034176 - 64 * 3840.0);
}

TEST(LayerPattern, Gemma4HasOtherHeadsInGlobalLayers) {
  const auto a =
      of_run("gemma4-31b",
             "layers: 60\nhidden: 5376\nffn: 21504\nheads: 32\nkv_heads: 16\nhead_dim: 256\n"
             "vocab: 262144\ntie_embeddings: true\ngated_mlp: true\nsliding_window: 1024\n"
             "global_head_dim: 512\nglobal_kv_heads: 4\n");
  const auto& global = std::get<layer::AttentionSpec>(a.blocks[a.pattern[5]].mixer);
  EXPECT_EQ(global.head_dim, 512);
  EXPECT_EQ(global.kv_heads, 4);
  EXPECT_TRUE(global.shared_kv);
  EXPECT_EQ(model::count_parameters(a).total, 30697345280);
}

TEST(LayerPattern, Llama4LeavesOutRotaryPositions) {
  const auto a = of_run(
      "llama4-scout",
      "layers: 48\nhidden: 5120\nffn: 16384\nheads: 40\nkv_heads: 8\nhead_dim: 128\nvocab: 202048\n"
      "gated_mlp: true\nmoe: {experts: 16, top_k: 1, ffn: 8192, shared_ffn: 8192, every: 1}\n"
      "other: {nope_interval: 4}\n");
  const auto& third = std::get<layer::AttentionSpec>(a.blocks[a.pattern[2]].mixer);
  const auto& fourth = std::get<layer::AttentionSpec>(a.blocks[a.pattern[3]].mixer);
  EXPECT_EQ(third.position, layer::Position::rotary);
  EXPECT_EQ(third.chunk, 8192);
  EXPECT_EQ(fourth.position, layer::Position::none);
  EXPECT_EQ(fourth.chunk, 0);
}

TEST(LayerPattern, ARunsOwnWordsWinAndOtherShapesAddNothing) {
  const std::string oss = kOss;
  EXPECT_EQ(with_window(of_run("gpt-oss-20b", oss + "sliding_window: 64\nwindow_pattern: '3:1'\n")),
            18);
  // Half the layers: not the catalogue's model, whatever its name.
  const std::string cut = "layers: 12" + oss.substr(oss.find('\n'));
  EXPECT_EQ(with_window(of_run("gpt-oss-20b", cut)), 0);
}

TEST(LayerPattern, PartOfTheHeadRotates) {
  const auto a =
      of_run("nemotron4-15b",
             "layers: 32\nhidden: 6144\nffn: 24576\nheads: 48\nkv_heads: 8\nhead_dim: 128\n"
             "vocab: 256000\ngated_mlp: false\nbias: false\nposition: rope (50%)\n");
  EXPECT_EQ(std::get<layer::AttentionSpec>(a.blocks[0].mixer).rotary_share, 0.5);
  EXPECT_EQ(std::get<layer::MlpSpec>(a.blocks[0].feed_forward).activation,
            layer::ActivationKind::squared_relu);
}

TEST(LayerPattern, WhatIsNoPatternIsAFault) {
  const std::string base =
      "layers: 4\nhidden: 64\nffn: 256\nheads: 4\nvocab: 100\nsliding_window: 8\n";
  for (const char* wrong :
       {"window_pattern: often\n", "window_pattern: '5:'\n", "window_pattern: '0:1'\n",
        "window_pattern: [1, 0]\n", "no_rope_layers: [1]\n", "no_rope_every: -1\n"}) {
    EXPECT_FALSE(decode_model(*text::parse_yaml(base + wrong, "m.yaml")).has_value()) << wrong;
  }
  EXPECT_TRUE(
      decode_model(*text::parse_yaml(base + "window_pattern: '3:1'\n", "m.yaml")).has_value());
}

}  // namespace
}  // namespace eratos::reader
