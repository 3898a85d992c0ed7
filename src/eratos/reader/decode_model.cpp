#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"

namespace eratos::reader {

namespace {

using layer::ActivationKind;
using layer::NormKind;
using layer::Position;
using text::Node;

constexpr Name<ActivationKind> kActivations[] = {{"silu", ActivationKind::silu},
                                                 {"gelu", ActivationKind::gelu},
                                                 {"relu", ActivationKind::relu},
                                                 {"squared_relu", ActivationKind::squared_relu}};
constexpr Name<NormKind> kNorms[] = {{"rmsnorm", NormKind::rmsnorm},
                                     {"layernorm", NormKind::layernorm}};
constexpr Name<Position> kPositions[] = {{"rotary", Position::rotary},
                                         {"learned", Position::learned},
                                         {"alibi", Position::alibi},
                                         {"none", Position::none}};

template <class E, std::size_t N>
Node name_node(E value, const Name<E> (&names)[N]) {
  for (const auto& [name, each] : names) {
    if (each == value) return Node::string(std::string(name));
  }
  return Node::null();
}

// Files of published runs write positions in words: "rope (50%)", "learned 1024", "learned unless
// alibi is set". The first word decides; a number behind `learned` is the table's length.
void read_position(Fields& top, model::Architecture& out) {
  const Node* node = top.get("position");
  if (node == nullptr) return;
  const std::string text = node->raw();
  const std::string word = text.substr(0, text.find(' '));
  if (word == "rope") {
    out.position = Position::rotary;
    return;
  }
  for (const auto& [name, value] : kPositions) {
    if (word != name) continue;
    out.position = value;
    if (value == Position::learned && word.size() < text.size()) {
      out.max_positions = std::strtod(text.c_str() + word.size(), nullptr);
    }
    return;
  }
  top.read_name("position", out.position, kPositions);
}

// What a published run's model has and no layer of ours does.
void refuse_unmodelled(Fields& top) {
  static constexpr struct {
    const char* key;
    const char* what;
  } kUnmodelled[] = {
      {"sliding_window", "sliding-window attention"},
      {"attention_sinks", "attention sinks"},
      {"global_head_dim", "layers with different attention shapes"},
      {"global_kv_heads", "layers with different attention shapes"},
      {"post_norms", "norms behind attention and feed-forward"},
  };
  for (const auto& [key, what] : kUnmodelled) {
    const Node* node = top.get(key);
    if (node == nullptr || node->raw() == "false" || node->raw() == "0") continue;
    top.fail(key, std::string(what) + " is not modelled yet");
  }
  if (const Node* other = top.get("other"); other != nullptr) {
    for (const text::Entry& entry : other->entries()) {
      // Neither changes a tensor: rotary positions left out of some layers, remarks on MTP.
      if (entry.key == "nope_interval" || entry.key == "mtp") continue;
      top.fail("other", "`" + entry.key + "` is not modelled yet");
    }
  }
  if (const Node* task = top.get("task"); task != nullptr && task->raw() == "lora") {
    top.fail("task", "LoRA fine-tuning is not modelled yet");
  }
  if (const Node* incomplete = top.get("incomplete");
      incomplete != nullptr && incomplete->raw() == "true") {
    top.fail("incomplete", "the model's source does not publish its sizes");
  }
}

struct Experts {
  bool exists = false;
  layer::MoeSpec spec;
  int dense_first = 0;
  int every = 1;
  std::vector<int> pattern;
};

void read_experts(Fields& top, Experts& out, const layer::MlpSpec& mlp) {
  Fields moe = top.child("moe");
  if (!moe.exists()) return;
  out.exists = true;
  out.spec.hidden = mlp.hidden;
  out.spec.gated = mlp.gated;
  out.spec.bias = mlp.bias;
  out.spec.activation = mlp.activation;
  moe.require("experts", out.spec.experts);
  moe.require("top_k", out.spec.top_k);
  moe.require("ffn", out.spec.ffn);
  moe.read("shared_ffn", out.spec.shared_ffn);
  moe.read("shared_gate", out.spec.shared_gate);
  moe.read("router_bias", out.spec.router_bias);
  moe.read("dense_layers_first", out.dense_first);
  moe.read("every", out.every);
  if (const Node* words = moe.get("moe_layers");
      words != nullptr && words->raw().rfind("every other", 0) == 0) {
    out.every = 2;
  }
  moe.read("pattern", out.pattern);
  if (moe.get("latent") != nullptr) moe.fail("latent", "latent experts are not modelled yet");
  if (out.every < 1) moe.fail("every", "`moe.every` must be at least 1");
  out.every = std::max(1, out.every);
  moe.finish();
}

// Which layer is MoE. With `every` n > 1 the last of each n layers is (Switch, Llama 4).
bool is_expert_layer(const Experts& experts, int i) {
  if (!experts.exists) return false;
  if (!experts.pattern.empty()) return experts.pattern[static_cast<std::size_t>(i)] != 0;
  if (i < experts.dense_first) return false;
  return (i - experts.dense_first) % experts.every == experts.every - 1;
}

void read_mla(Fields& top, double hidden, int heads, layer::Mixer& mixer) {
  Fields mla = top.child("mla");
  if (!mla.exists()) return;
  layer::MlaSpec spec;
  spec.hidden = hidden;
  spec.heads = heads;
  mla.read("q_lora_rank", spec.q_lora_rank);
  mla.require("kv_lora_rank", spec.kv_lora_rank);
  mla.require("qk_nope_head_dim", spec.qk_nope_head_dim);
  mla.require("qk_rope_head_dim", spec.qk_rope_head_dim);
  mla.require("v_head_dim", spec.v_head_dim);
  mla.finish();
  mixer = spec;
}

// Numbers that some published runs give only in words are faults, except the ones with a default.
void read_flag(Fields& top, const char* key, bool& to) {
  const Node* node = top.get(key);
  if (node != nullptr && node->raw() != "unknown") top.read(key, to);
}

}  // namespace

Result<model::Architecture> decode_model(const Node& root, std::string_view path) {
  Diagnostics bad;
  model::Architecture out;
  Fields top(&root, std::string(path), bad);
  top.read("name", out.name);
  for (const char* key : {"aliases", "hf_id", "note", "active_parameters", "parameters_source"}) {
    top.skip(key);
  }
  top.read("source", out.source);
  top.read("parameters", out.published_parameters);
  refuse_unmodelled(top);

  int layers = 0;
  top.require("layers", layers);
  top.require("hidden", out.hidden);
  top.require("vocab", out.vocab);
  read_flag(top, "tie_embeddings", out.tie_embeddings);
  read_position(top, out);
  top.read("max_sequence", out.max_positions);
  bool follows = false;
  if (top.read("max_sequence_follows_job", follows) && follows) out.max_positions = 0;
  if (out.position != Position::learned) out.max_positions = 0;
  top.read("embedding_layernorm", out.embedding_norm);
  top.read("mtp_layers", out.mtp_layers);

  layer::MlpSpec mlp;
  mlp.hidden = out.hidden;
  read_flag(top, "gated_mlp", mlp.gated);
  mlp.activation = mlp.gated ? ActivationKind::silu : ActivationKind::gelu;
  top.read_name("activation", mlp.activation, kActivations);
  read_flag(top, "bias", mlp.bias);

  layer::AttentionSpec attention;
  attention.hidden = out.hidden;
  attention.position = out.position;
  attention.qkv_bias = mlp.bias;
  attention.out_bias = mlp.bias;
  top.require("heads", attention.heads);
  attention.kv_heads = attention.heads;
  top.read("kv_heads", attention.kv_heads);
  if (!top.read("head_dim", attention.head_dim) && attention.heads > 0) {
    attention.head_dim = static_cast<int>(out.hidden / attention.heads);
  }
  top.read("qkv_bias", attention.qkv_bias);
  top.read("out_bias", attention.out_bias);
  top.read("mlp_bias", mlp.bias);
  top.read("qk_norm", attention.qk_norm);
  top.read("qk_norm_full", attention.qk_norm_full);

  // Published runs do not name the norm: Llama's descendants gate and have RMSNorm, GPT's neither.
  out.norm.kind = mlp.gated ? NormKind::rmsnorm : NormKind::layernorm;
  top.read_name("norm", out.norm.kind, kNorms);
  out.norm.bias = out.norm.kind == NormKind::layernorm && attention.out_bias;
  top.read("norm_bias", out.norm.bias);

  layer::BlockSpec block;
  block.mixer = attention;
  read_mla(top, out.hidden, attention.heads, block.mixer);
  block.norm = out.norm;
  top.read("parallel_block", block.parallel);

  Experts experts;
  read_experts(top, experts, mlp);
  if (!experts.pattern.empty() && static_cast<int>(experts.pattern.size()) != layers) {
    top.fail("moe", "`moe.pattern` has " + std::to_string(experts.pattern.size()) +
                        " entries for " + std::to_string(layers) + " layers");
    experts.pattern.clear();
  }
  constexpr int kMostLayers = 10'000;
  if (layers < 1 || layers > kMostLayers) {
    if (top.get("layers") != nullptr) {
      top.fail("layers", "`" + top.path_of("layers") + "` is " + std::to_string(layers) +
                             ", not between 1 and " + std::to_string(kMostLayers));
    }
    layers = 0;
  }

  int dense = 0;
  for (int i = 0; i < layers; ++i) dense += is_expert_layer(experts, i) ? 0 : 1;
  if (dense > 0) {
    top.require("ffn", mlp.ffn);
    block.feed_forward = mlp;
    out.blocks.push_back(block);
  } else {
    top.skip("ffn");
  }
  if (dense < layers) {
    block.feed_forward = experts.spec;
    out.blocks.push_back(block);
  }
  for (int i = 0; i < layers; ++i) {
    const bool second = dense > 0 && is_expert_layer(experts, i);
    out.pattern.push_back(static_cast<std::uint8_t>(second ? 1 : 0));
  }
  top.finish();
  if (!bad.empty()) return faults(std::move(bad));
  return out;
}

Node model_to_node(const model::Architecture& a) {
  Node out = Node::mapping();
  const auto integer = [](double v) { return Node::integer(static_cast<std::int64_t>(v)); };
  if (!a.name.empty()) out.set("name", Node::string(a.name));
  out.set("layers", Node::integer(a.layers()));
  out.set("hidden", integer(a.hidden));

  const layer::MlpSpec* mlp = nullptr;
  const layer::MoeSpec* moe = nullptr;
  for (const layer::BlockSpec& block : a.blocks) {
    if (const auto* dense = std::get_if<layer::MlpSpec>(&block.feed_forward)) mlp = dense;
    if (const auto* experts = std::get_if<layer::MoeSpec>(&block.feed_forward)) moe = experts;
  }
  const layer::BlockSpec& first = a.blocks.front();
  if (mlp != nullptr) out.set("ffn", integer(mlp->ffn));
  const auto* mla = std::get_if<layer::MlaSpec>(&first.mixer);
  const auto* attention = std::get_if<layer::AttentionSpec>(&first.mixer);
  out.set("heads", Node::integer(mla != nullptr ? mla->heads : attention->heads));
  if (attention != nullptr) {
    out.set("kv_heads", Node::integer(attention->kv_heads));
    out.set("head_dim", Node::integer(attention->head_dim));
  }
  out.set("vocab", integer(a.vocab));
  out.set("tie_embeddings", Node::boolean(a.tie_embeddings));
  out.set("gated_mlp", Node::boolean(mlp != nullptr ? mlp->gated : moe->gated));
  out.set("activation",
          name_node(mlp != nullptr ? mlp->activation : moe->activation, kActivations));
  out.set("mlp_bias", Node::boolean(mlp != nullptr ? mlp->bias : moe->bias));
  if (attention != nullptr) {
    out.set("qkv_bias", Node::boolean(attention->qkv_bias));
    out.set("out_bias", Node::boolean(attention->out_bias));
    out.set("qk_norm", Node::boolean(attention->qk_norm));
    out.set("qk_norm_full", Node::boolean(attention->qk_norm_full));
  }
  out.set("position", name_node(a.position, kPositions));
  if (a.position == Position::learned) out.set("max_sequence", integer(a.max_positions));
  out.set("norm", name_node(a.norm.kind, kNorms));
  out.set("norm_bias", Node::boolean(a.norm.bias));
  out.set("embedding_layernorm", Node::boolean(a.embedding_norm));
  out.set("parallel_block", Node::boolean(first.parallel));
  out.set("mtp_layers", Node::integer(a.mtp_layers));

  if (moe != nullptr) {
    Node experts = Node::mapping();
    experts.set("experts", Node::integer(moe->experts));
    experts.set("top_k", Node::integer(moe->top_k));
    experts.set("ffn", integer(moe->ffn));
    experts.set("shared_ffn", integer(moe->shared_ffn));
    experts.set("shared_gate", Node::boolean(moe->shared_gate));
    experts.set("router_bias", Node::boolean(moe->router_bias));
    const auto is_expert = [&](std::size_t i) {
      return std::holds_alternative<layer::MoeSpec>(a.blocks[a.pattern[i]].feed_forward);
    };
    int dense_first = 0;
    while (dense_first < a.layers() && !is_expert(static_cast<std::size_t>(dense_first))) {
      ++dense_first;
    }
    bool regular = true;
    for (std::size_t i = static_cast<std::size_t>(dense_first); i < a.pattern.size(); ++i) {
      regular = regular && is_expert(i);
    }
    if (regular) {
      experts.set("dense_layers_first", Node::integer(dense_first));
    } else {
      Node pattern = Node::sequence();
      for (std::size_t i = 0; i < a.pattern.size(); ++i) {
        pattern.append(Node::integer(is_expert(i) ? 1 : 0));
      }
      experts.set("pattern", std::move(pattern));
    }
    out.set("moe", std::move(experts));
  }
  if (mla != nullptr) {
    Node latent = Node::mapping();
    latent.set("q_lora_rank", Node::integer(mla->q_lora_rank));
    latent.set("kv_lora_rank", Node::integer(mla->kv_lora_rank));
    latent.set("qk_nope_head_dim", Node::integer(mla->qk_nope_head_dim));
    latent.set("qk_rope_head_dim", Node::integer(mla->qk_rope_head_dim));
    latent.set("v_head_dim", Node::integer(mla->v_head_dim));
    out.set("mla", std::move(latent));
  }
  if (a.published_parameters > 0) out.set("parameters", integer(a.published_parameters));
  if (!a.source.empty()) out.set("source", Node::string(a.source));
  return out;
}

}  // namespace eratos::reader
