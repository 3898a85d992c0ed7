#include "eratos/reader/catalogue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "eratos/catalogue_data.h"
#include "eratos/model/architecture.h"
#include "eratos/reader/decode.h"
#include "eratos/text/dump.h"
#include "eratos/text/yaml.h"
#include "expect.h"

namespace eratos::reader {
namespace {

// Every scalar number below `node` must have a `source` in its own mapping or one around it.
void expect_sources(const text::Node& node, const std::string& where, bool covered,
                    const std::string& key = {}) {
  if (node.is_mapping()) {
    const bool here = covered || (node.find("source") != nullptr && !key.empty()) ||
                      (key.empty() && node.find("source") != nullptr);
    for (const text::Entry& entry : node.entries()) {
      expect_sources(entry.value, where, here, entry.key);
    }
  } else if (node.is_sequence()) {
    for (const text::Node& item : node.items()) expect_sources(item, where, covered, key);
  } else if (node.is_scalar() && (node.scalar_kind() == text::ScalarKind::integer ||
                                  node.scalar_kind() == text::ScalarKind::floating)) {
    EXPECT_TRUE(covered) << where << ": `" << key << "` has no source";
  }
}

TEST(Catalogue, EveryFileDecodesAndCarriesSources) {
  int files = 0;
  for (const DataFile& file : data_files()) {
    if (file.folder.empty()) continue;
    const std::string name = std::string(file.folder) + "/" + std::string(file.name);
    ++files;
    const auto tree = text::parse_yaml(file.text, name);
    ASSERT_TRUE(tree.has_value()) << text_of(tree.error());
    if (file.folder == "accelerators") {
      EXPECT_FALSE(good(decode_accelerator(*tree), name).source.empty()) << name;
      const text::Node* sources = tree->find("sources");
      ASSERT_NE(sources, nullptr) << name;
      text::for_each_leaf(*tree, [&](const std::string& path, const text::Node& leaf) {
        if (!leaf.is_scalar() || (leaf.scalar_kind() != text::ScalarKind::integer &&
                                  leaf.scalar_kind() != text::ScalarKind::floating)) {
          return;
        }
        const std::string group = path.substr(0, path.find('.'));
        const bool known = sources->find(path) != nullptr || sources->find(group) != nullptr ||
                           group == "gpus_per_node";
        EXPECT_TRUE(known) << name << ": `" << path << "` has no source";
      });
    } else if (file.folder == "clusters") {
      EXPECT_FALSE(good(decode_cluster(*tree), name).source.empty()) << name;
    } else if (file.folder == "models") {
      EXPECT_FALSE(good(decode_model(*tree), name).source.empty()) << name;
    } else if (file.folder == "frameworks") {
      // A profile that says only what it changes is whole once it stands on the other.
      const auto whole = good(load_tree(Kind::frameworks, file.name), name);
      EXPECT_FALSE(good(decode_framework(whole), name).source.empty()) << name;
      for (const text::Entry& section : tree->entries()) {
        if (section.value.is_mapping()) expect_sources(section.value, name, false);
      }
    } else if (file.folder == "calibrations") {
      EXPECT_FALSE(good(decode_calibration(*tree), name).part.source.empty()) << name;
    } else if (file.folder == "agent" || file.folder == "agent/tools") {
      continue;  // words for a language model, no figures of the world: tests/agent reads them
    } else {
      ADD_FAILURE() << "no decoder for " << name;
    }
    if (file.folder != "accelerators" && file.folder != "frameworks") {
      expect_sources(*tree, name, false);
    }
  }
  EXPECT_GT(files, 80);
}

TEST(Catalogue, CalibrationsBelongToParts) {
  for (const std::string& name : names_of(Kind::calibrations)) {
    EXPECT_NE(find_file(Kind::accelerators, name), nullptr) << name;
  }
}

TEST(Catalogue, EveryGpuHasACalibrationOrBorrowsOne) {
  for (const std::string& name : names_of(Kind::accelerators)) {
    const auto part = good(load_accelerator(name), name);
    const auto calibration = load_calibration(name);
    if (part.kind != "gpu" && part.kind != "cpu") {
      EXPECT_FALSE(calibration.has_value());
      continue;
    }
    ASSERT_TRUE(calibration.has_value()) << text_of(calibration.error());
    if (part.peak_of(DType::bf16).value > 0) {
      EXPECT_GT(calibration->part.gemm_of(DType::bf16).peak_fraction, 0) << name;
    }
    if (find_file(Kind::calibrations, name) == nullptr) {
      EXPECT_FALSE(calibration->part.borrowed.empty()) << name;
    }
  }
}

TEST(Catalogue, AcceleratorByAlias) {
  const auto part = good(load_accelerator("MI355X-288GB"), "alias");
  EXPECT_EQ(part.name, "mi355x");
  EXPECT_EQ(part.memory_visible.value, 309216170476.0);
  EXPECT_EQ(part.peak_of(DType::bf16).value, 2.5166e15);
  EXPECT_EQ(part.peak_of(DType::tf32).value, 0);
  EXPECT_EQ(part.scale_up.topology, hardware::Topology::mesh);
}

TEST(Catalogue, UnknownAcceleratorSuggestsTheNearest) {
  const auto part = load_accelerator("mi355");
  ASSERT_FALSE(part.has_value());
  EXPECT_EQ(to_text(part.error().front()),
            "error: unknown accelerator `mi355`; did you mean `mi355x`?");
  // A framework is named without its generation as well.
  EXPECT_EQ(load_framework("megatrn").error()[0].cure, "did you mean `megatron`?");
  EXPECT_EQ(load_framework("megatrn@2026.06").error()[0].cure, "did you mean `megatron@2026.06`?");
}

TEST(Clusters, PartTimesNodes) {
  const auto cluster = good(load_cluster("mi355x-8x8"), "mi355x-8x8");
  EXPECT_EQ(cluster.nodes, 8);
  EXPECT_EQ(cluster.gpus_per_node, 8);
  EXPECT_EQ(cluster.gpus(), 64);
  ASSERT_EQ(cluster.levels.size(), 2u);
  EXPECT_EQ(cluster.levels[0].gpus, 8);
  EXPECT_EQ(cluster.levels[1].gpus, 64);
}

TEST(Clusters, OnlyTheLastSizeCounts) {
  const auto cluster = good(load_cluster("h100-sxm-16x8"), "h100-sxm-16x8");
  EXPECT_EQ(cluster.accelerator.name, "h100-sxm");
  EXPECT_EQ(cluster.gpus(), 128);
}

TEST(Clusters, ScaleUpDomainSpansNodes) {
  const auto cluster = good(load_cluster("gb200-18x4"), "gb200-18x4");
  ASSERT_EQ(cluster.levels.size(), 1u);
  EXPECT_EQ(cluster.levels[0].gpus, 72);
}

TEST(Clusters, NamedNetworkTakesASize) {
  const auto cluster = good(load_cluster("gcp-a3-4x8"), "gcp-a3-4x8");
  EXPECT_EQ(cluster.accelerator.name, "h100-sxm");
  ASSERT_EQ(cluster.levels.size(), 2u);
  EXPECT_EQ(cluster.levels[1].gpus, 32);
  EXPECT_EQ(cluster.levels[1].bandwidth.value, 1.25e10);
}

TEST(Clusters, OneNodeHasNoNetworkLevel) {
  const auto cluster = good(load_cluster("gcp-a3"), "gcp-a3");
  EXPECT_EQ(cluster.gpus(), 8);
  EXPECT_EQ(cluster.levels.size(), 1u);
}

TEST(Clusters, NodesCanBeChanged) {
  const auto four = good(with_nodes(good(load_cluster("gcp-a3-2x8"), "two"), 4), "four");
  EXPECT_EQ(four.name, "gcp-a3-4x8");
  EXPECT_EQ(four.levels[1].gpus, 32);
  EXPECT_FALSE(with_nodes(four, 0).has_value());
}

TEST(Clusters, BadNames) {
  for (const char* name : {"mi355x-0x8", "mi355x-8x0"}) {
    const auto bad = load_cluster(name);
    ASSERT_FALSE(bad.has_value());
    EXPECT_NE(bad.error().front().message.find("no accelerators"), std::string::npos);
  }
  const auto near = load_cluster("mi355-8x8");
  ASSERT_FALSE(near.has_value());
  EXPECT_EQ(near.error().front().cure, "did you mean `mi355x`?");
  const struct {
    const char* name;
    const char* why;
  } odd[] = {{"h100-sxm-99999999999x8", "more than 10000000 accelerators"},
             {"h100-sxm-2147483647x8", "more than 10000000 accelerators"},
             {"h100-sxm-2000000x8", "more than 10000000 accelerators"},
             {"h100-sxm-0x8", "has no accelerators"},
             {"h100-sxm-1.5x8", "`1.5x8` of `h100-sxm-1.5x8` is no size"},
             {"h100-sxm-2x", "`2x` of `h100-sxm-2x` is no size"},
             {"h100-sxm-8", "`8` of `h100-sxm-8` is no size"},
             {"eos-two", "such as `eos-8x8`"}};
  for (const auto& each : odd) {
    const auto bad = load_cluster(each.name);
    ASSERT_FALSE(bad.has_value()) << each.name;
    EXPECT_NE((to_text(bad.error()[0])).find(each.why), std::string::npos)
        << to_text(bad.error()[0]);
  }
  EXPECT_EQ(good(load_cluster("h100-sxm-2X8"), "capital X").gpus(), 16);
  EXPECT_FALSE(load_cluster("").has_value());
  EXPECT_FALSE(load_cluster("no/such/file.yaml").has_value());
}

TEST(Clusters, TreeRoundTrip) {
  const auto cluster = good(load_cluster("gcp-a3-4x8"), "gcp-a3-4x8");
  const auto again = good(decode_cluster(cluster_to_node(cluster)), "again");
  EXPECT_EQ(cluster_to_node(again), cluster_to_node(cluster));
  EXPECT_EQ(again.name, "gcp-a3-4x8");
}

TEST(Clusters, LevelsMustNest) {
  const auto bad = decode_cluster(
      yaml("name: odd\naccelerator: h100-sxm\nnodes: 3\nsource: test\nlevels:\n"
           "  - {kind: nvlink, gpus: 8, bandwidth_bytes_per_s: 4.5e+11, latency_s: 1.0e-6}\n"
           "  - {kind: roce, gpus: 12, bandwidth_bytes_per_s: 1.0e+10, latency_s: 1.0e-6}\n"));
  ASSERT_FALSE(bad.has_value());
  EXPECT_NE(text_of(bad.error()).find("whole domains of 8"), std::string::npos);
}

TEST(Models, LlamaHasItsShape) {
  const auto llama = good(load_model("llama3.1-8b"), "llama");
  EXPECT_EQ(llama.layers(), 32);
  ASSERT_EQ(llama.blocks.size(), 1u);
  const auto& attention = std::get<layer::AttentionSpec>(llama.blocks[0].mixer);
  EXPECT_EQ(attention.kv_heads, 8);
  EXPECT_EQ(attention.head_dim, 128);
  EXPECT_EQ(std::get<layer::MlpSpec>(llama.blocks[0].feed_forward).ffn, 14336);
  EXPECT_EQ(llama.published_parameters, 8030261248.0);
}

TEST(Models, DeepSeekHasDenseLayersFirst) {
  const auto v3 = good(load_model("deepseek-v3"), "v3");
  ASSERT_EQ(v3.blocks.size(), 2u);
  EXPECT_EQ(v3.pattern[2], 0);
  EXPECT_EQ(v3.pattern[3], 1);
  const auto& moe = std::get<layer::MoeSpec>(v3.blocks[1].feed_forward);
  EXPECT_EQ(moe.experts, 256);
  EXPECT_TRUE(moe.router_bias);
  EXPECT_EQ(std::get<layer::MlaSpec>(v3.blocks[1].mixer).q_lora_rank, 1536);
}

TEST(Models, PublishedCountsAreExact) {
  int counted = 0;
  for (const std::string& name : names_of(Kind::models)) {
    auto a = good(load_model(name), name);
    if (a.published_parameters == 0) continue;
    if (a.position == layer::Position::learned && a.max_positions == 0) {
      const auto tree = good(load_tree(Kind::models, name), name);
      a.max_positions = good(tree.find("max_sequence")->as_double(), name);
    }
    EXPECT_EQ(model::count_parameters(a, 0, a.mtp_layers > 0).total, a.published_parameters)
        << name;
    ++counted;
  }
  EXPECT_GE(counted, 20);
}

TEST(Models, EveryModelSurvivesItsTree) {
  for (const std::string& name : names_of(Kind::models)) {
    const auto a = good(load_model(name), name);
    const text::Node tree = model_to_node(a);
    const auto again = good(decode_model(tree), name);
    EXPECT_EQ(text::to_yaml(model_to_node(again)), text::to_yaml(tree)) << name;
    EXPECT_EQ(again.pattern, a.pattern) << name;
  }
}

TEST(Models, EverySecondLayerMoe) {
  const auto a = good(decode_model(yaml("layers: 4\nhidden: 64\nffn: 256\nheads: 4\nvocab: 100\n"
                                        "moe: {experts: 8, top_k: 1, ffn: 128, every: 2}\n")),
                      "every");
  EXPECT_EQ(a.pattern, (std::vector<std::uint8_t>{0, 1, 0, 1}));
  const auto again = good(decode_model(model_to_node(a)), "again");
  EXPECT_EQ(again.pattern, a.pattern);
}

TEST(Models, AllFaultsAtOnce) {
  const auto bad = decode_model(yaml("layers: many\nhiden: 64\nheads: 4\nvocab: 100\nffn: 10\n"));
  ASSERT_FALSE(bad.has_value());
  const std::string text = text_of(bad.error());
  EXPECT_NE(text.find("job.yaml:1:9: error: `layers` must be an integer"), std::string::npos)
      << text;
  EXPECT_NE(text.find("job.yaml:2:1: error: unknown key `hiden`; did you mean `hidden`?"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("`hidden` is missing"), std::string::npos) << text;
}

TEST(Models, UnmodelledPartsSaySo) {
  const auto bad =
      decode_model(yaml("layers: 2\nhidden: 64\nheads: 4\nvocab: 100\nffn: 10\n"
                        "other: {attention_residuals: 12, attention: all-new}\n"));
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().size(), 2u);
  const std::string text = text_of(bad.error());
  EXPECT_NE(text.find("`attention_residuals` is not modelled"), std::string::npos) << text;
  EXPECT_NE(text.find("`other.attention: all-new` is not modelled"), std::string::npos) << text;
}

TEST(Models, LettersSayWhatEachLayerIs) {
  const std::string shape = "hidden: 64\nheads: 4\nvocab: 100\nffn: 10\nposition: none\n";
  const std::string parts =
      "mamba: {heads: 8, head_dim: 16, state: 16, groups: 2}\nmoe: {experts: 4, top_k: 2, ffn: "
      "8}\n";
  const auto a = good(decode_model(yaml(shape + parts + "pattern: ME*-M/*E/*E\n")), "stack");
  EXPECT_EQ(a.pattern, (std::vector<std::uint8_t>{0, 1, 2, 3, 0}));
  EXPECT_EQ(a.mtp_layers, 2);
  EXPECT_TRUE(std::holds_alternative<layer::MoeSpec>(a.mtp_block().feed_forward));
  EXPECT_FALSE(layer::has_feed_forward(a.blocks[0]));
  EXPECT_EQ(good(decode_model(model_to_node(a)), "again").pattern, a.pattern);

  const auto letter = decode_model(yaml(shape + parts + "pattern: MX\n"));
  ASSERT_FALSE(letter.has_value());
  EXPECT_EQ(letter.error()[0].message, "`pattern` holds `X`");
  const auto count = decode_model(yaml("layers: 3\n" + shape + parts + "pattern: M*\n"));
  ASSERT_FALSE(count.has_value());
  EXPECT_EQ(count.error()[0].message, "`pattern` has 2 letters for 3 layers");
  const auto missing = decode_model(yaml(shape + "pattern: M-\n"));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error()[0].message, "`mamba` is missing");
}

TEST(Models, LinearAttentionInAllButTheLastOfEachFour) {
  const auto a =
      good(decode_model(yaml("layers: 8\nhidden: 64\nheads: 4\nvocab: 100\nffn: 10\n"
                             "linear_attention: {kind: kda, key_heads: 4, value_heads: 4, "
                             "key_dim: 16, value_dim: 16, every: 4}\n")),
           "hybrid");
  const std::vector<std::uint8_t> wanted{1, 1, 1, 0, 1, 1, 1, 0};
  EXPECT_EQ(a.pattern, wanted);
  EXPECT_EQ(std::get<layer::DeltaNetSpec>(a.blocks[1].mixer).rule, layer::DeltaRule::kimi);
  EXPECT_EQ(good(decode_model(model_to_node(a)), "again").pattern, wanted);
}

TEST(Models, CompressionRatiosAndStreamsOfDeepSeekV4) {
  const auto a = good(load_model("deepseek-v4-flash"), "deepseek-v4-flash");
  EXPECT_EQ(a.streams(), 4);
  EXPECT_EQ(a.layers(), 43);
  const auto& second = std::get<layer::CompressedAttentionSpec>(a.blocks[a.pattern[2]].mixer);
  EXPECT_EQ(second.ratio, 4);
  EXPECT_EQ(second.window, 128);
  const auto again = good(decode_model(model_to_node(a)), "again");
  EXPECT_EQ(again.pattern, a.pattern);
  EXPECT_EQ(model::count_parameters(again, 0, true).total,
            model::count_parameters(a, 0, true).total);
}

TEST(Frameworks, NewestGenerationWithoutAt) {
  const auto newest = good(load_framework("megatron"), "megatron");
  const auto named = good(load_framework("megatron@" + newest.generation), "named");
  EXPECT_EQ(framework_to_node(newest), framework_to_node(named));
  const auto unknown = load_framework("megatron@1999.01");
  ASSERT_FALSE(unknown.has_value());
  EXPECT_FALSE(load_framework("megatronn").has_value());
}

TEST(Frameworks, AProfileMayStandOnAnother) {
  // megatron-2021.04.yaml says only what it changes.
  const auto old = good(load_framework("megatron@2021.04"), "old");
  const auto base = good(load_framework("megatron@2026.06"), "base");
  EXPECT_EQ(old.name, "megatron");
  EXPECT_EQ(old.generation, "2021.04");
  EXPECT_TRUE(old.aliases.empty());
  EXPECT_FALSE(old.state.gradient_placeholders);
  EXPECT_TRUE(base.state.gradient_placeholders);
  EXPECT_EQ(old.memory.context, base.memory.context);
  EXPECT_EQ(old.vocab_divisible_by, base.vocab_divisible_by);
}

TEST(Frameworks, TreeRoundTrip) {
  for (const std::string& name : names_of(Kind::frameworks)) {
    const auto profile = good(load_framework(name), name);
    const auto again = good(decode_framework(framework_to_node(profile)), name);
    EXPECT_EQ(framework_to_node(again), framework_to_node(profile));
  }
}

TEST(Calibrations, H100FromItsFile) {
  const auto c = good(load_calibration("h100-sxm"), "h100-sxm");
  EXPECT_GT(c.part.gemm_of(DType::bf16).tile_overhead.value, 1e-7);
  EXPECT_LT(c.part.gemm_of(DType::bf16).tile_overhead.value, 1e-5);
  ASSERT_FALSE(c.part.collectives.empty());
  EXPECT_GT(c.part.collectives[0].busbw.value, 1e10);
}

}  // namespace
}  // namespace eratos::reader
