#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "eratos/reader/decode.h"
#include "eratos/reader/decode_mixers.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/layer_pattern.h"

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

constexpr int kMostLayers = 10'000;

template <class E, std::size_t N>
Node name_node(E value, const Name<E> (&names)[N]) {
  for (const auto& [name, each] : names) {
    if (each == value) return Node::string(std::string(name));
  }
  return Node::null();
}

// Files of published runs write positions in words: "rope (50%)", "learned 1024", "learned unless
// alibi is set". The first word decides; a number behind `learned` is the table's length.
void read_position(Fields& top, model::Architecture& out, layer::AttentionSpec& attention) {
  const Node* node = top.get("position");
  if (node == nullptr) return;
  const std::string text = node->raw();
  const std::string word = text.substr(0, text.find(' '));
  if (word == "rope") {
    out.position = Position::rotary;
    const std::size_t percent = text.find('(');
    if (percent != std::string::npos) {
      attention.rotary_share = std::strtod(text.c_str() + percent + 1, nullptr) / 100.0;
    }
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
  (void)top.get("task");  // what the run was for: the job says what is trained
  // A hybrid stack that gives its sublayers says all there is to know.
  const Node* other = top.get("other");
  const bool stack = other != nullptr && other->find("sublayers") != nullptr;
  if (const Node* incomplete = top.get("incomplete");
      incomplete != nullptr && incomplete->raw() == "true" && !stack) {
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
  moe.read("own_norms", out.spec.own_norms);
  moe.read("groups", out.spec.groups);
  out.spec.top_groups = out.spec.groups;
  moe.read("top_groups", out.spec.top_groups);
  moe.read("dense_layers_first", out.dense_first);
  moe.read("every", out.every);
  if (const Node* words = moe.get("moe_layers");
      words != nullptr && words->raw().rfind("every other", 0) == 0) {
    out.every = 2;
  }
  moe.read("pattern", out.pattern);
  moe.read("latent", out.spec.latent);
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

// Collects the distinct layers and which layer is which.
struct Assembly {
  model::Architecture& out;
  layer::BlockSpec common;
  // Alternatives of mixer and feed-forward, and which kind of attention.
  std::vector<std::tuple<std::size_t, std::size_t, int>> seen;

  int kind_of(const layer::Mixer& mixer, const layer::FeedForward& fed, int attention) {
    const std::tuple<std::size_t, std::size_t, int> key{mixer.index(), fed.index(), attention};
    const auto at = std::find(seen.begin(), seen.end(), key);
    if (at != seen.end()) return static_cast<int>(at - seen.begin());
    seen.push_back(key);
    layer::BlockSpec block = common;
    block.mixer = mixer;
    block.feed_forward = fed;
    out.blocks.push_back(block);
    return static_cast<int>(seen.size() - 1);
  }
  void add(const layer::Mixer& mixer, const layer::FeedForward& fed, int attention) {
    out.pattern.push_back(static_cast<std::uint8_t>(kind_of(mixer, fed, attention)));
  }
};

// A number, or the tokenizer in words.
void read_vocab(Fields& top, double& to) {
  const Node* node = top.get("vocab");
  // Source: openai/gpt-2 encoder.json, 50,257 entries; what a framework pads is the framework's.
  if (node != nullptr && node->raw().rfind("GPT-2 BPE", 0) == 0) {
    to = 50257;
    return;
  }
  top.require("vocab", to);
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
  top.read("layers", layers);
  top.require("hidden", out.hidden);
  const MixerKeys mixers = read_mixers(top, out.hidden, layers);
  if (layers == 0) (void)top.need("layers");
  read_vocab(top, out.vocab);
  read_flag(top, "tie_embeddings", out.tie_embeddings);
  layer::AttentionSpec attention;
  read_position(top, out, attention);
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

  attention.hidden = out.hidden;
  attention.position = out.position;
  attention.qkv_bias = mlp.bias;
  attention.out_bias = mlp.bias;
  const bool attends = mixers.pattern.empty() || mixers.has('*');
  if (attends) {
    top.require("heads", attention.heads);
  } else {
    top.skip("heads");
    attention.heads = 0;
  }
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
  top.read("qk_norm_weight", attention.qk_norm_weight);
  top.read("value_norm", attention.value_norm);
  top.read("shared_kv", attention.shared_kv);
  top.read("rotary_share", attention.rotary_share);
  top.read("attention_soft_cap", attention.soft_cap);
  top.read("attention_sinks", attention.sinks);
  const LayerPattern pattern = read_layer_pattern(top, std::clamp(layers, 0, kMostLayers));
  attention.sinks = attention.sinks || pattern.sinks_in_words;
  top.read("output_gate", attention.output_gate);

  // Published runs do not name the norm: Llama's descendants gate and have RMSNorm, GPT's neither.
  out.norm.kind = mlp.gated ? NormKind::rmsnorm : NormKind::layernorm;
  top.read_name("norm", out.norm.kind, kNorms);
  out.norm.bias = out.norm.kind == NormKind::layernorm && attention.out_bias;
  top.read("norm_bias", out.norm.bias);
  top.read("norm_weight", out.norm.weight);

  top.read("embedding_scale", out.embedding_scale);
  top.read("final_soft_cap", out.final_soft_cap);
  top.read("head_bias", out.head_bias);

  layer::BlockSpec block;
  layer::Mixer attending = attention;
  read_mla(top, out.hidden, attention.heads, attending);
  block.norm = out.norm;
  top.read("parallel_block", block.parallel);
  top.read("norm_per_branch", block.norm_per_branch);
  top.read("pre_norms", block.pre_norm);
  top.read("post_norms", block.post_norm);

  Experts experts;
  read_experts(top, experts, mlp);
  if (!experts.pattern.empty() && static_cast<int>(experts.pattern.size()) != layers) {
    top.fail("moe", "`moe.pattern` has " + std::to_string(experts.pattern.size()) +
                        " entries for " + std::to_string(layers) + " layers");
    experts.pattern.clear();
  }
  if (layers < 1 || layers > kMostLayers) {
    if (top.get("layers") != nullptr) {
      top.fail("layers", "`" + top.path_of("layers") + "` is " + std::to_string(layers) +
                             ", not between 1 and " + std::to_string(kMostLayers));
    }
    layers = 0;
  }

  block.streams = mixers.streams;
  Assembly layers_of{out, block, {}};
  bool dense = false;
  // Layers without experts come first among the distinct ones.
  for (int i = 0; i < layers && mixers.pattern.empty() && mixers.ratios.empty(); ++i) {
    if (mixers.is_linear(i) || is_expert_layer(experts, i)) continue;
    layer::Mixer first = attending;
    if (auto* a = std::get_if<layer::AttentionSpec>(&first)) *a = pattern.at(i, attention);
    (void)layers_of.kind_of(first, mlp,
                            std::holds_alternative<layer::AttentionSpec>(first) ? pattern.kind(i) : 0);
    break;
  }
  for (int i = 0; i < layers; ++i) {
    const char letter = mixers.pattern.empty() ? '\0' : mixers.pattern[static_cast<std::size_t>(i)];
    layer::Mixer mixer = attending;
    layer::FeedForward fed = mlp;
    if (letter == 'M') mixer = mixers.mamba;
    if (letter == 'G' || mixers.is_linear(i)) mixer = mixers.delta_net;
    if (letter == '-' || letter == 'E') mixer = std::monostate{};
    if (letter == 'E' || (letter == '\0' && is_expert_layer(experts, i))) {
      fed = experts.spec;
    } else if (letter == '\0' || letter == '-') {
      dense = true;
    } else {
      fed = std::monostate{};
    }
    int attention_kind = 0;
    if (!mixers.ratios.empty() && std::holds_alternative<layer::AttentionSpec>(mixer)) {
      const auto c = mixers.compressed_at(static_cast<std::size_t>(i), pattern.at(i, attention));
      mixer = c;
      attention_kind = c.ratio;
    }
    if (auto* a = std::get_if<layer::AttentionSpec>(&mixer)) {
      *a = pattern.at(i, attention);
      attention_kind = pattern.kind(i);
    }
    layers_of.add(mixer, fed, attention_kind);
  }
  if (dense) {
    top.require("ffn", mlp.ffn);
    for (layer::BlockSpec& each : out.blocks) {
      if (auto* m = std::get_if<layer::MlpSpec>(&each.feed_forward)) m->ffn = mlp.ffn;
    }
  } else {
    top.skip("ffn");
  }
  if (mixers.has('E') && !experts.exists) top.fail("pattern", "`moe` is missing");
  if (out.mtp_layers > 0 && static_cast<int>(mixers.ratios.size()) > layers && experts.exists) {
    const auto c = mixers.compressed_at(static_cast<std::size_t>(layers), pattern.at(0, attention));
    out.mtp_kind = layers_of.kind_of(c, experts.spec, c.ratio);
  }
  if (mixers.mtp_modules > 0) {
    if (out.mtp_layers == 0) out.mtp_layers = mixers.mtp_modules;
    if (mixers.mtp == "*E" && experts.exists) {
      out.mtp_kind = layers_of.kind_of(attending, experts.spec, 0);
    } else {
      top.fail("pattern", "prediction modules of layers `" + mixers.mtp + "` are not modelled");
    }
  }
  top.finish();
  if (!bad.empty()) return faults(std::move(bad));
  return out;
}

namespace {

// Letters of a stack whose layers are one half each, empty for any other.
std::string letters_of(const model::Architecture& a) {
  std::string out;
  for (const std::uint8_t kind : a.pattern) {
    const layer::BlockSpec& block = a.blocks[kind];
    if (layer::has_mixer(block) && layer::has_feed_forward(block)) return {};
    const bool moe = std::holds_alternative<layer::MoeSpec>(block.feed_forward);
    const bool mamba = std::holds_alternative<layer::MambaSpec>(block.mixer);
    const bool delta_net = std::holds_alternative<layer::DeltaNetSpec>(block.mixer);
    out += layer::has_feed_forward(block) ? (moe ? 'E' : '-') : mamba ? 'M' : delta_net ? 'G' : '*';
  }
  for (int i = 0; i < a.mtp_layers; ++i) out += "/*E";
  return out;
}

}  // namespace

Node model_to_node(const model::Architecture& a) {
  Node out = Node::mapping();
  const auto integer = [](double v) { return Node::integer(static_cast<std::int64_t>(v)); };
  if (!a.name.empty()) out.set("name", Node::string(a.name));
  out.set("layers", Node::integer(a.layers()));
  out.set("hidden", integer(a.hidden));

  const layer::MlpSpec* mlp = nullptr;
  const layer::MoeSpec* moe = nullptr;
  const layer::MlaSpec* mla = nullptr;
  const layer::AttentionSpec* attention = nullptr;
  const layer::MambaSpec* mamba = nullptr;
  const layer::DeltaNetSpec* delta_net = nullptr;
  for (const layer::BlockSpec& block : a.blocks) {
    if (const auto* dense = std::get_if<layer::MlpSpec>(&block.feed_forward)) mlp = dense;
    if (const auto* experts = std::get_if<layer::MoeSpec>(&block.feed_forward)) moe = experts;
    if (const auto* m = std::get_if<layer::MlaSpec>(&block.mixer)) mla = m;
    if (const auto* m = std::get_if<layer::MambaSpec>(&block.mixer)) mamba = m;
    if (const auto* m = std::get_if<layer::DeltaNetSpec>(&block.mixer)) delta_net = m;
  }
  const layer::BlockSpec& first = a.blocks.front();
  attention = shared_attention(a);
  if (mlp != nullptr) out.set("ffn", integer(mlp->ffn));
  write_mixers(mamba, delta_net, out);
  write_compressed(a, out);
  if (a.streams() > 1) out.set("streams", Node::integer(a.streams()));
  const std::string letters = letters_of(a);
  if (!letters.empty()) {
    out.set("pattern", Node::string(letters));
  } else if (delta_net != nullptr) {
    Node linear = Node::sequence();
    for (const std::uint8_t kind : a.pattern) {
      const bool is = std::holds_alternative<layer::DeltaNetSpec>(a.blocks[kind].mixer);
      linear.append(Node::integer(is ? 1 : 0));
    }
    (void)text::set_at(out, "linear_attention.pattern", std::move(linear));
  }
  if (mla != nullptr || attention != nullptr) {
    out.set("heads", Node::integer(mla != nullptr ? mla->heads : attention->heads));
  }
  if (attention != nullptr) {
    out.set("kv_heads", Node::integer(attention->kv_heads));
    out.set("head_dim", Node::integer(attention->head_dim));
  }
  out.set("vocab", integer(a.vocab));
  out.set("tie_embeddings", Node::boolean(a.tie_embeddings));
  if (mlp != nullptr || moe != nullptr) {
    out.set("gated_mlp", Node::boolean(mlp != nullptr ? mlp->gated : moe->gated));
    out.set("activation",
            name_node(mlp != nullptr ? mlp->activation : moe->activation, kActivations));
    out.set("mlp_bias", Node::boolean(mlp != nullptr ? mlp->bias : moe->bias));
  }
  if (attention != nullptr) {
    out.set("qkv_bias", Node::boolean(attention->qkv_bias));
    out.set("out_bias", Node::boolean(attention->out_bias));
    out.set("qk_norm", Node::boolean(attention->qk_norm));
    out.set("qk_norm_full", Node::boolean(attention->qk_norm_full));
    if (!attention->qk_norm_weight) out.set("qk_norm_weight", Node::boolean(false));
    if (attention->value_norm) out.set("value_norm", Node::boolean(true));
    if (attention->shared_kv) out.set("shared_kv", Node::boolean(true));
    if (attention->rotary_share != 1) out.set("rotary_share", Node::number(attention->rotary_share));
    if (attention->soft_cap > 0) out.set("attention_soft_cap", Node::number(attention->soft_cap));
    if (attention->sinks) out.set("attention_sinks", Node::boolean(true));
    write_layer_pattern(a, out);
    if (attention->output_gate) out.set("output_gate", Node::boolean(true));
  }
  out.set("position", name_node(a.position, kPositions));
  if (a.position == Position::learned) out.set("max_sequence", integer(a.max_positions));
  out.set("norm", name_node(a.norm.kind, kNorms));
  out.set("norm_bias", Node::boolean(a.norm.bias));
  out.set("embedding_layernorm", Node::boolean(a.embedding_norm));
  out.set("parallel_block", Node::boolean(first.parallel));
  if (!a.norm.weight) out.set("norm_weight", Node::boolean(false));
  if (a.embedding_scale) out.set("embedding_scale", Node::boolean(true));
  if (a.final_soft_cap > 0) out.set("final_soft_cap", Node::number(a.final_soft_cap));
  if (a.head_bias) out.set("head_bias", Node::boolean(true));
  if (first.norm_per_branch) out.set("norm_per_branch", Node::boolean(true));
  if (!first.pre_norm) out.set("pre_norms", Node::boolean(false));
  if (first.post_norm) out.set("post_norms", Node::boolean(true));
  out.set("mtp_layers", Node::integer(a.mtp_layers));

  if (moe != nullptr) {
    Node experts = Node::mapping();
    experts.set("experts", Node::integer(moe->experts));
    experts.set("top_k", Node::integer(moe->top_k));
    experts.set("ffn", integer(moe->ffn));
    experts.set("shared_ffn", integer(moe->shared_ffn));
    experts.set("shared_gate", Node::boolean(moe->shared_gate));
    experts.set("router_bias", Node::boolean(moe->router_bias));
    if (moe->own_norms) experts.set("own_norms", Node::boolean(true));
    if (moe->groups > 1) {
      experts.set("groups", Node::integer(moe->groups));
      experts.set("top_groups", Node::integer(moe->top_groups));
    }
    if (moe->latent > 0) experts.set("latent", integer(moe->latent));
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
    if (!letters.empty()) {
      // The letters say which.
    } else if (regular) {
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
