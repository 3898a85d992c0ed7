#include "eratos/reader/decode_mixers.h"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <variant>

namespace eratos::reader {

namespace {

using layer::DeltaRule;
using text::Node;

constexpr Name<DeltaRule> kRules[] = {{"gated-delta-net", DeltaRule::gated},
                                      {"kda", DeltaRule::kimi}};
constexpr std::string_view kLetters = "MG*-E";

void read_mamba(Fields& keys, MixerKeys& out, double hidden) {
  layer::MambaSpec& m = out.mamba;
  out.has_mamba = true;
  m.hidden = hidden;
  // Defaults of the sizes. Source: NVIDIA/Megatron-LM
  // megatron/core/transformer/transformer_config.py (mamba_state_dim, mamba_head_dim,
  // mamba_num_groups) and core/ssm/mamba_mixer.py (expand, chunk_size).
  m.groups = 8;
  m.chunk = 128;
  keys.read("head_dim", m.head_dim);
  double expand = 2;
  keys.read("expand", expand);
  if (m.head_dim > 0) m.heads = static_cast<int>(expand * hidden / m.head_dim);
  keys.read("heads", m.heads);
  keys.read("state", m.state);
  keys.read("groups", m.groups);
  keys.read("conv", m.conv);
  keys.read("conv_bias", m.conv_bias);
  keys.read("chunk", m.chunk);
}

void read_delta_net(Fields& keys, MixerKeys& out, double hidden) {
  layer::DeltaNetSpec& d = out.delta_net;
  out.has_delta_net = true;
  d.hidden = hidden;
  keys.read_name("kind", d.rule, kRules);
  keys.require("key_heads", d.key_heads);
  keys.require("value_heads", d.value_heads);
  keys.require("key_dim", d.key_dim);
  keys.require("value_dim", d.value_dim);
  keys.read("conv", d.conv);
  keys.read("chunk", d.chunk);
}

// "gated delta net on 3 of 4 layers, 16 key heads, 32 value heads, head 128"
bool read_words(const std::string& text, MixerKeys& out, double hidden) {
  int linear = 0;
  int of = 0;
  int key_heads = 0;
  int value_heads = 0;
  int head = 0;
  const int read = std::sscanf(
      text.c_str(), "gated delta net on %d of %d layers, %d key heads, %d value heads, head %d",
      &linear, &of, &key_heads, &value_heads, &head);
  if (read != 5 || of - linear != 1) return false;
  layer::DeltaNetSpec& d = out.delta_net;
  d.hidden = hidden;
  d.key_heads = key_heads;
  d.value_heads = value_heads;
  d.key_dim = head;
  d.value_dim = head;
  out.has_delta_net = true;
  out.every = of;
  return true;
}

// Linear attention of published runs: a mapping with the number of its layers, or words.
void read_linear_attention(Fields& other, MixerKeys& out, double hidden, int layers) {
  const Node* node = other.get("linear_attention");
  if (node == nullptr) return;
  if (node->is_scalar()) {
    if (!read_words(node->raw(), out, hidden)) {
      other.fail("linear_attention", "`" + node->raw() + "` is not modelled");
    }
    return;
  }
  Fields keys = other.child("linear_attention");
  read_delta_net(keys, out, hidden);
  int linear = layers;
  keys.read("layers", linear);
  const int rest = layers - linear;
  if (rest > 0 && layers % rest == 0) {
    out.every = layers / rest;
  } else if (rest != 0) {
    keys.fail("layers", std::to_string(linear) + " of " + std::to_string(layers) +
                            " layers leave no regular pattern");
  }
  keys.finish();
}

// Megatron's hybrid stacks of published runs: mixers and MLPs in turn, attention in the share
// `attention_ratio` of the mixers.
void read_sublayers(Fields& other, MixerKeys& out, double hidden, int& layers) {
  const Node* node = other.get("mixer");
  if (node == nullptr) return;
  Fields keys = other.child("mixer");
  std::string kind;
  keys.read("kind", kind);
  char letter = 'M';
  if (kind == "mamba" || kind == "mamba2") {
    read_mamba(keys, out, hidden);
    keys.skip("kind");
  } else {
    read_delta_net(keys, out, hidden);
    letter = 'G';
  }
  keys.finish();
  int sublayers = 0;
  double attention = 0;
  other.read("sublayers", sublayers);
  other.read("attention_ratio", attention);
  if (sublayers == 0) {
    out.pattern.assign(static_cast<std::size_t>(layers), letter);
    return;
  }
  layers = sublayers;
  double due = 0;
  for (int i = 0; i < sublayers; i += 2) {
    due += attention;
    out.pattern += due >= 1 ? '*' : letter;
    if (due >= 1) due -= 1;
    if (i + 1 < sublayers) out.pattern += '-';
  }
}

// What stands behind each '/': prediction modules, all alike.
void split_modules(Fields& top, MixerKeys& out) {
  const std::size_t end = out.pattern.find('/');
  if (end == std::string::npos) return;
  std::string rest = out.pattern.substr(end + 1) + '/';
  out.pattern.resize(end);
  while (!rest.empty()) {
    const std::size_t next = rest.find('/');
    const std::string module = rest.substr(0, next);
    rest.erase(0, next + 1);
    if (!out.mtp.empty() && module != out.mtp) {
      top.fail("pattern", "prediction modules `" + out.mtp + "` and `" + module +
                              "` of different layers are not modelled");
    }
    out.mtp = module;
    ++out.mtp_modules;
  }
}

void read_compressed(Fields& keys, MixerKeys& out) {
  if (!keys.read("compress_ratios", out.ratios)) return;
  layer::CompressedAttentionSpec& c = out.compressed;
  keys.read("q_lora_rank", c.q_lora_rank);
  keys.read("o_lora_rank", c.o_lora_rank);
  keys.read("o_groups", c.o_groups);
  Fields indexer = keys.child("indexer");
  indexer.read("heads", c.index_heads);
  indexer.read("head_dim", c.index_dim);
  indexer.read("topk", c.index_top);
  indexer.finish();
}

void read_other(Fields& top, MixerKeys& out, double hidden, int& layers) {
  const Node* node = top.get("other");
  if (node == nullptr) return;
  Fields other = top.child("other");
  read_sublayers(other, out, hidden, layers);
  read_linear_attention(other, out, hidden, layers);
  if (other.read("pattern", out.pattern) || other.get("mamba_state_dim") != nullptr) {
    layer::MambaSpec& m = out.mamba;
    out.has_mamba = true;
    m.hidden = hidden;
    m.groups = 8;
    m.chunk = 128;
    other.read("mamba_head_dim", m.head_dim);
    double expand = 2;
    other.read("mamba_expand", expand);
    if (m.head_dim > 0) m.heads = static_cast<int>(expand * hidden / m.head_dim);
    other.read("mamba_heads", m.heads);
    other.read("mamba_state_dim", m.state);
    other.read("mamba_groups", m.groups);
    if (out.pattern.empty()) top.fail("other", "`pattern` of the layers is missing");
  }
  read_compressed(other, out);
  other.read("hyper_connections", out.streams);
  other.skip("hash_routed_layers");  // a table chooses the experts: the router's product is small
  for (const text::Entry& entry : node->entries()) {
    if (other.is_known(entry.key)) continue;
    // The first two are the layer pattern's (layer_pattern.h); remarks on MTP change no tensor.
    if (entry.key == "attention" || entry.key == "nope_interval" || entry.key == "mtp") continue;
    if (entry.key == "lora") continue;  // adapters are the job's
    top.fail("other", "`" + entry.key + "` is not modelled");
  }
}

}  // namespace

layer::CompressedAttentionSpec MixerKeys::compressed_at(std::size_t i,
                                                        const layer::AttentionSpec& like) const {
  layer::CompressedAttentionSpec out = compressed;
  out.hidden = like.hidden;
  out.heads = like.heads;
  out.head_dim = like.head_dim;
  out.window = like.window;
  out.sinks = like.sinks;
  out.ratio = i < ratios.size() ? ratios[i] : 0;
  return out;
}

bool MixerKeys::is_linear(int i) const {
  if (!has_delta_net || !pattern.empty()) return false;
  if (!linear_layers.empty()) return linear_layers[static_cast<std::size_t>(i)] != 0;
  return every == 0 || i % every != every - 1;
}

MixerKeys read_mixers(Fields& top, double hidden, int& layers) {
  MixerKeys out;
  read_other(top, out, hidden, layers);
  if (Fields keys = top.child("mamba"); keys.exists()) {
    read_mamba(keys, out, hidden);
    keys.finish();
  }
  if (Fields keys = top.child("linear_attention"); keys.exists()) {
    read_delta_net(keys, out, hidden);
    keys.read("every", out.every);
    keys.read("pattern", out.linear_layers);
    keys.finish();
  }
  if (Fields keys = top.child("compressed_attention"); keys.exists()) {
    read_compressed(keys, out);
    keys.finish();
  }
  top.read("streams", out.streams);
  if (out.streams < 1) {
    top.fail("streams", "`streams` must be at least 1");
    out.streams = 1;
  }
  if (!out.ratios.empty() && static_cast<int>(out.ratios.size()) < layers) {
    top.fail("layers", std::to_string(out.ratios.size()) + " compression ratios for " +
                           std::to_string(layers) + " layers");
  }
  top.read("pattern", out.pattern);
  split_modules(top, out);
  if (!out.pattern.empty()) {
    const std::size_t bad = (out.pattern + out.mtp).find_first_not_of(kLetters);
    if (bad != std::string::npos) {
      top.fail("pattern", "`pattern` holds `" + (out.pattern + out.mtp).substr(bad, 1) + "`",
               "letters: M Mamba, G linear attention, * attention, - MLP, E experts");
      out.pattern.clear();
    } else {
      const int count = static_cast<int>(out.pattern.size());
      if (layers > 0 && layers != count) {
        top.fail("pattern", "`pattern` has " + std::to_string(count) + " letters for " +
                                std::to_string(layers) + " layers");
      }
      layers = count;
    }
  }
  if (out.every < 0 ||
      (!out.linear_layers.empty() && static_cast<int>(out.linear_layers.size()) != layers)) {
    top.fail("linear_attention", "`linear_attention.pattern` has " +
                                     std::to_string(out.linear_layers.size()) + " entries for " +
                                     std::to_string(layers) + " layers");
    out.linear_layers.clear();
    out.every = 0;
  }
  if ((out.has('M') && !out.has_mamba) || (out.has('G') && !out.has_delta_net)) {
    top.fail("pattern", out.has('M') && !out.has_mamba ? "`mamba` is missing"
                                                       : "`linear_attention` is missing");
  }
  return out;
}

void write_compressed(const model::Architecture& a, Node& out) {
  Node ratios = Node::sequence();
  const layer::CompressedAttentionSpec* any = nullptr;
  const auto add = [&](const layer::BlockSpec& block) {
    const auto* c = std::get_if<layer::CompressedAttentionSpec>(&block.mixer);
    if (c == nullptr) return;
    any = c;
    ratios.append(Node::integer(c->ratio));
  };
  for (const std::uint8_t kind : a.pattern) add(a.blocks[kind]);
  if (any == nullptr) return;
  if (a.mtp_layers > 0) add(a.mtp_block());
  Node keys = Node::mapping();
  keys.set("compress_ratios", std::move(ratios));
  keys.set("q_lora_rank", Node::integer(any->q_lora_rank));
  keys.set("o_lora_rank", Node::integer(any->o_lora_rank));
  keys.set("o_groups", Node::integer(any->o_groups));
  Node indexer = Node::mapping();
  indexer.set("heads", Node::integer(any->index_heads));
  indexer.set("head_dim", Node::integer(any->index_dim));
  indexer.set("topk", Node::integer(any->index_top));
  keys.set("indexer", std::move(indexer));
  out.set("compressed_attention", std::move(keys));
  // The shape that attention shares with other models.
  out.set("heads", Node::integer(any->heads));
  out.set("kv_heads", Node::integer(1));
  out.set("head_dim", Node::integer(any->head_dim));
  out.set("sliding_window", Node::integer(any->window));
  out.set("attention_sinks", Node::boolean(any->sinks));
}

void write_mixers(const layer::MambaSpec* mamba, const layer::DeltaNetSpec* delta_net, Node& out) {
  const auto put = [](Node& to, const char* key, int value) { to.set(key, Node::integer(value)); };
  if (mamba != nullptr) {
    Node keys = Node::mapping();
    put(keys, "heads", mamba->heads);
    put(keys, "head_dim", mamba->head_dim);
    put(keys, "state", mamba->state);
    put(keys, "groups", mamba->groups);
    put(keys, "conv", mamba->conv);
    keys.set("conv_bias", Node::boolean(mamba->conv_bias));
    put(keys, "chunk", mamba->chunk);
    out.set("mamba", std::move(keys));
  }
  if (delta_net != nullptr) {
    Node keys = Node::mapping();
    for (const auto& [name, rule] : kRules) {
      if (rule == delta_net->rule) keys.set("kind", Node::string(std::string(name)));
    }
    put(keys, "key_heads", delta_net->key_heads);
    put(keys, "value_heads", delta_net->value_heads);
    put(keys, "key_dim", delta_net->key_dim);
    put(keys, "value_dim", delta_net->value_dim);
    put(keys, "conv", delta_net->conv);
    put(keys, "chunk", delta_net->chunk);
    out.set("linear_attention", std::move(keys));
  }
}

}  // namespace eratos::reader
