// The architecture from Megatron's keys, by way of the catalogue's own mapping.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eratos/reader/decode.h"
#include "eratos/reader/layout.h"
#include "eratos/reader/megatron_job.h"
#include "eratos/reader/tokenizers.h"

namespace eratos::reader {

namespace {

using text::Node;

constexpr struct {
  const char* key;
  const char* what;
} kUnmodelled[] = {
    {"hybrid_attention_enabled", "layers of different attention kinds"},
    {"linear_attention_freq", "linear attention"},
    {"experimental_attention_variant", "an experimental attention variant"},
    {"lfm_layer_types", "convolution layers"},
    {"compress_ratios", "compressed attention"},
    {"hc_mult", "hyper-connections"},
    {"attn_res_block_size", "block residual attention"},
    {"attention_output_gate", "an attention output gate"},
    {"routed_expert_hidden_size", "latent experts"},
    {"window_size", "sliding-window attention"},
    {"attn_sliding_window", "sliding-window attention"},
    {"sink_sliding_window", "sliding-window attention"},
    {"use_sink_attention", "attention sinks"},
    {"attn_sink", "attention sinks"},
    {"softmax_type", "attention sinks"},
    {"heterogeneous_layers_config_path", "layers of different shapes"},
    {"num_hash_layers", "hash-routed layers"},
};

bool says_something(const Node& node) {
  if (!node.is_scalar()) return node.size() > 0;
  const std::string& raw = node.raw();
  return raw != "false" && raw != "False" && raw != "0" && raw != "0.0" && raw != "vanilla" &&
         !raw.empty();
}

void refuse_unmodelled(MegatronKeys& keys) {
  for (const auto& [key, what] : kUnmodelled) {
    const Node* node = keys.node(key);
    if (node == nullptr || !says_something(*node)) continue;
    keys.fail(key, std::string(what) + " (`" + key + "`) is not modelled", {}, "model");
  }
  if (const auto type = keys.word("model_type");
      type && *type != "gpt" && *type != "GPT" && *type != "mamba") {
    keys.fail("model_type", "a model of type `" + *type + "` is not modelled", {}, "model");
  }
}

// Fills the mapping and the provenance of model.* together.
struct Model {
  MegatronKeys& keys;
  Node tree = Node::mapping();

  void put(const std::string& path, std::string_view key, Node value, std::string rule = {}) {
    value.set_place(keys.where(key));
    (void)text::set_at(tree, path, std::move(value));
    keys.note("model." + path, key, std::move(rule));
  }
  void derive(const std::string& path, const std::vector<std::string_view>& from, Node value,
              std::string rule) {
    value.set_place(keys.where(from.front()));
    (void)text::set_at(tree, path, std::move(value));
    keys.derive("model." + path, from, std::move(rule));
  }
  int need(const std::string& path, std::string_view key) {
    const auto value = keys.integer(key);
    if (!value) {
      if (keys.node(key) == nullptr && !keys.is_open(key)) {
        keys.fail(key, "`" + std::string(key) + "` is missing",
                  "set it in the model preset or in "
                  "overrides",
                  "model." + path);
      }
      return 0;
    }
    put(path, key, Node::integer(*value));
    return *value;
  }
};

void read_feed_forward(Model& m, int hidden) {
  MegatronKeys& keys = m.keys;
  const bool swiglu = keys.is_on("swiglu");
  const bool geglu = keys.is_on("quick_geglu");
  const bool squared = keys.is_on("squared_relu");
  (void)keys.flag("openai_gelu");  // another way to compute gelu
  m.put("gated_mlp", swiglu || !geglu ? "swiglu" : "quick_geglu", Node::boolean(swiglu || geglu));
  const char* activation = swiglu ? "silu" : squared ? "squared_relu" : "gelu";
  m.put("activation", squared ? "squared_relu" : "swiglu", Node::string(activation));
  if (const auto ffn = keys.integer("ffn_hidden_size")) {
    m.put("ffn", "ffn_hidden_size", Node::integer(*ffn));
  } else if (swiglu) {
    // Source: NVIDIA/Megatron-LM megatron/training/arguments.py, ffn_hidden_size with swiglu.
    const int wide = static_cast<int>(4.0 * hidden * 2.0 / 3.0 / 64.0) * 64;
    m.derive("ffn", {"hidden_size"}, Node::integer(wide), "8/3 hidden_size, down to 64s");
  } else {
    m.derive("ffn", {"hidden_size"}, Node::integer(4 * static_cast<std::int64_t>(hidden)),
             "4 hidden_size");
  }
  const bool bias = keys.flag("add_bias_linear").value_or(true);
  m.put("mlp_bias", "add_bias_linear", Node::boolean(bias));
}

void read_attention(Model& m, int hidden, int heads) {
  MegatronKeys& keys = m.keys;
  const bool bias = keys.flag("add_bias_linear").value_or(true);
  m.put("out_bias", "add_bias_linear", Node::boolean(bias));
  const bool qkv_bias = keys.is_on("add_qkv_bias");
  m.put("qkv_bias", qkv_bias ? "add_qkv_bias" : "add_bias_linear", Node::boolean(bias || qkv_bias));

  const auto channels = keys.integer("kv_channels");
  const auto groups = keys.integer("num_query_groups");
  const bool grouped = keys.is_on("group_query_attention");
  const bool qk_norm = keys.is_on("qk_layernorm");
  if (keys.is_on("multi_latent_attention")) {
    const auto part = [&](const char* path, const char* key, int otherwise) {
      m.put(std::string("mla.") + path, key, Node::integer(keys.integer(key).value_or(otherwise)));
    };
    // Defaults of MLATransformerConfig.
    // Source: NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py.
    part("q_lora_rank", "q_lora_rank", 0);
    part("kv_lora_rank", "kv_lora_rank", 512);
    part("qk_nope_head_dim", "qk_head_dim", 128);
    part("qk_rope_head_dim", "qk_pos_emb_head_dim", 64);
    part("v_head_dim", "v_head_dim", 128);
    return;
  }
  if (grouped && groups) {
    m.put("kv_heads", "num_query_groups", Node::integer(*groups));
  } else {
    m.derive("kv_heads", {"group_query_attention", "num_attention_heads"}, Node::integer(heads),
             grouped ? "num_query_groups not given: as many as heads"
                     : "group_query_attention is off: as many as heads");
  }
  if (channels) {
    m.put("head_dim", "kv_channels", Node::integer(*channels));
  } else {
    m.derive("head_dim", {"hidden_size"}, Node::integer(heads > 0 ? hidden / heads : 0),
             "hidden_size / num_attention_heads");
  }
  m.put("qk_norm", "qk_layernorm", Node::boolean(qk_norm));
}

// 1 for each layer with experts.
std::vector<int> expert_layers(MegatronKeys& keys, int layers) {
  std::vector<int> pattern;
  const Node* node = keys.node("moe_layer_freq");
  int every = 1;
  if (node != nullptr && node->is_sequence()) {
    for (const Node& item : node->items()) {
      pattern.push_back(static_cast<int>(item.as_int64("moe_layer_freq").value_or(-1)));
    }
  } else if (node != nullptr) {
    const std::string& text = node->raw();
    const bool digits = !text.empty() && text.size() < 7 &&
                        text.find_first_not_of("0123456789") == std::string::npos;
    if (digits) {
      every = std::stoi(text);
    } else if (auto list = parse_list_expression(text, "model.moe.pattern"); list) {
      pattern = std::move(*list);
    } else {
      for (const Diagnostic& d : list.error()) {
        keys.fail("moe_layer_freq", "`moe_layer_freq`: " + d.message, d.cure, d.field);
      }
      return {};
    }
  }
  if (pattern.empty()) {
    if (every < 1) {
      keys.fail("moe_layer_freq", "`moe_layer_freq` is 0", "write 1 for experts in every layer");
      return {};
    }
    for (int i = 0; i < layers; ++i) pattern.push_back(i % every == 0 ? 1 : 0);
    return pattern;
  }
  for (const int each : pattern) {
    if (each != 0 && each != 1) {
      keys.fail("moe_layer_freq", "`moe_layer_freq` holds something other than 0 and 1");
      return {};
    }
  }
  if (static_cast<int>(pattern.size()) != layers) {
    keys.fail("moe_layer_freq",
              "`moe_layer_freq` has " + std::to_string(pattern.size()) + " entries for " +
                  std::to_string(layers) + " layers",
              "give one for each layer", "model.layers");
    return {};
  }
  return pattern;
}

void read_experts(Model& m, int layers) {
  MegatronKeys& keys = m.keys;
  const auto experts = keys.integer("num_experts");
  // Dense models carry the keys of experts too; num_experts alone is the switch.
  const auto top_k = keys.integer("moe_router_topk");
  const auto ffn = keys.integer("moe_ffn_hidden_size");
  const auto shared = keys.integer("moe_shared_expert_intermediate_size");
  const bool router_bias = keys.is_on("moe_router_enable_expert_bias");
  const auto groups = keys.integer("moe_router_num_groups");
  const auto top_groups = keys.integer("moe_router_group_topk");
  const bool gate =
      keys.is_on("moe_shared_expert_gate") || keys.is_on("moe_use_shared_expert_gate");
  (void)keys.node("moe_layer_freq");
  if (!experts || *experts < 1) return;
  m.put("moe.experts", "num_experts", Node::integer(*experts));
  m.put("moe.top_k", "moe_router_topk", Node::integer(top_k.value_or(2)));
  if (ffn) {
    m.put("moe.ffn", "moe_ffn_hidden_size", Node::integer(*ffn));
  } else {
    const Node* wide = m.tree.find("ffn");
    m.derive("moe.ffn", {"ffn_hidden_size"}, wide == nullptr ? Node::null() : *wide,
             "moe_ffn_hidden_size not given: ffn_hidden_size");
  }
  m.put("moe.shared_ffn", "moe_shared_expert_intermediate_size", Node::integer(shared.value_or(0)));
  m.put("moe.shared_gate", "moe_shared_expert_gate", Node::boolean(gate && shared.value_or(0) > 0));
  m.put("moe.router_bias", "moe_router_enable_expert_bias", Node::boolean(router_bias));
  // Without the second, every group may be visited. Source: core/transformer/moe/moe_utils.py,
  // topk_routing_with_score_function (`if group_topk`).
  if (groups && *groups > 1 && top_groups) {
    m.put("moe.groups", "moe_router_num_groups", Node::integer(*groups));
    m.put("moe.top_groups", "moe_router_group_topk", Node::integer(*top_groups));
  }
  Node pattern = Node::sequence();
  bool leading = true;
  int dense_first = 0;
  bool regular = true;
  for (const int expert : expert_layers(keys, layers)) {
    pattern.append(Node::integer(expert));
    if (expert == 0 && !leading) regular = false;
    if (expert == 0 && leading) ++dense_first;
    if (expert == 1) leading = false;
  }
  if (regular) {
    m.put("moe.dense_layers_first", "moe_layer_freq", Node::integer(dense_first));
  } else {
    m.put("moe.pattern", "moe_layer_freq", std::move(pattern));
  }
}

// Megatron's hybrid stacks: one letter a layer, or state spaces alone.
// Source: NVIDIA/Megatron-LM megatron/core/ssm/mamba_hybrid_layer_allocation.py.
void read_hybrid(Model& m, int layers) {
  MegatronKeys& keys = m.keys;
  const auto letters = keys.word("hybrid_override_pattern");
  const bool mixed = keys.is_on("is_hybrid_model");
  const bool mamba = keys.word("model_type").value_or("gpt") == "mamba";
  const Node* share = keys.node("hybrid_attention_ratio");
  const auto heads = keys.integer("mamba_num_heads");
  const auto head_dim = keys.integer("mamba_head_dim");
  const auto state = keys.integer("mamba_state_dim");
  const auto groups = keys.integer("mamba_num_groups");
  const auto latent = keys.integer("moe_latent_size");
  if (latent && *latent > 0) m.put("moe.latent", "moe_latent_size", Node::integer(*latent));
  if (!letters && !mixed && !mamba) return;
  if (letters) {
    m.put("pattern", "hybrid_override_pattern", Node::string(*letters));
  } else if (mixed || (share != nullptr && says_something(*share))) {
    keys.fail(mixed ? "is_hybrid_model" : "hybrid_attention_ratio",
              "layers dealt by `hybrid_attention_ratio` are not modelled",
              "write the layers as `hybrid_override_pattern`", "model.pattern");
    return;
  } else {
    m.derive("pattern", {"model_type", "num_layers"},
             Node::string(std::string(static_cast<std::size_t>(std::max(0, layers)), 'M')),
             "a model of type mamba without a pattern: state spaces alone");
  }
  if (heads) m.put("mamba.heads", "mamba_num_heads", Node::integer(*heads));
  m.put("mamba.head_dim", "mamba_head_dim", Node::integer(head_dim.value_or(64)));
  m.put("mamba.state", "mamba_state_dim", Node::integer(state.value_or(128)));
  m.put("mamba.groups", "mamba_num_groups", Node::integer(groups.value_or(8)));
}

void read_vocabulary(Model& m) {
  MegatronKeys& keys = m.keys;
  const auto padded = keys.integer("padded_vocab_size");
  const auto given = keys.integer("vocab_size");
  const auto type = keys.word("tokenizer_type");
  // A path that is not set matters only where nothing else tells the vocabulary.
  const bool open = keys.is_open("tokenizer_model");
  const auto model = open ? std::nullopt : keys.word("tokenizer_model");
  if (padded) {
    m.put("vocab", "padded_vocab_size", Node::integer(*padded));
    return;
  }
  if (type && *type == "NullTokenizer" && given) {
    // Source: NVIDIA/Megatron-LM megatron/training/tokenizer, _NullTokenizer: one more for the end.
    m.derive("vocab", {"vocab_size"}, Node::integer(*given + 1), "NullTokenizer: vocab_size + 1");
    return;
  }
  double vocab = model ? vocabulary_of(*model) : 0;
  if (vocab > 0) {
    m.put("vocab", "tokenizer_model", Node::integer(static_cast<std::int64_t>(vocab)),
          "length of the tokenizer (data/tokenizers.csv)");
    return;
  }
  if (given) {
    m.put("vocab", "vocab_size", Node::integer(*given));
    return;
  }
  if (type) vocab = vocabulary_of(*type);
  if (vocab > 0) {
    m.put("vocab", "tokenizer_type", Node::integer(static_cast<std::int64_t>(vocab)),
          "length of the tokenizer (data/tokenizers.csv)");
    return;
  }
  if (open) (void)keys.word("tokenizer_model");
  m.put("vocab", model ? "tokenizer_model" : "tokenizer_type", Node::integer(0), "unknown");
}

}  // namespace

void read_megatron_model(MegatronKeys& keys, job::JobSpec& job) {
  refuse_unmodelled(keys);
  Model m{.keys = keys};
  const int layers = m.need("layers", "num_layers");
  const int hidden = m.need("hidden", "hidden_size");
  const int heads = m.need("heads", "num_attention_heads");
  read_feed_forward(m, hidden);
  read_attention(m, hidden, heads);
  read_experts(m, layers);
  read_hybrid(m, layers);
  read_vocabulary(m);
  m.put("tie_embeddings", "untie_embeddings_and_output_weights",
        Node::boolean(!keys.is_on("untie_embeddings_and_output_weights")), "tied unless untied");

  const std::string norm = keys.word("normalization").value_or("LayerNorm");
  if (norm != "RMSNorm" && norm != "LayerNorm") {
    keys.fail("normalization", "`normalization` cannot be `" + norm + "`",
              "it is RMSNorm or LayerNorm", "model.norm");
  }
  m.put("norm", "normalization", Node::string(norm == "RMSNorm" ? "rmsnorm" : "layernorm"));
  m.put("norm_bias", "normalization", Node::boolean(norm != "RMSNorm"));

  const std::string position = keys.word("position_embedding_type").value_or("learned_absolute");
  const bool rotary = keys.is_on("use_rotary_position_embeddings");
  const auto rows = keys.integer("max_position_embeddings");
  if (rotary || position == "rope" || position == "yarn" || position == "mrope") {
    m.put("position", rotary ? "use_rotary_position_embeddings" : "position_embedding_type",
          Node::string("rotary"));
  } else if (position == "learned_absolute") {
    m.put("position", "position_embedding_type", Node::string("learned"));
    m.put("max_sequence", "max_position_embeddings", Node::integer(rows.value_or(0)));
  } else if (position == "none") {
    m.put("position", "position_embedding_type", Node::string("none"));
  } else {
    keys.fail("position_embedding_type",
              "positions of type `" + position + "` are not modelled", {}, "model.position");
  }
  m.put("mtp_layers", "mtp_num_layers", Node::integer(keys.integer("mtp_num_layers").value_or(0)));

  auto model = decode_model(m.tree, "model");
  if (model) {
    job.model = std::move(*model);
    return;
  }
  for (const Diagnostic& d : model.error()) {
    // Missing keys were named by their own names above.
    if (d.message.find("is missing") != std::string::npos) continue;
    keys.take(d);
  }
}

}  // namespace eratos::reader
