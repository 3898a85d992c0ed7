#include "eratos/reader/layer_pattern.h"

#include <cstddef>
#include <cstdlib>
#include <string>
#include <variant>

namespace eratos::reader {

namespace {

using layer::AttentionSpec;
using layer::Position;
using text::Node;

bool has(const std::string& text, const char* word) { return text.find(word) != std::string::npos; }

bool says_every_other(const std::string& words) {
  return has(words, "every other") || has(words, "every second") || has(words, "alternate");
}

// A list with an entry for each layer; empty when it has another length, which is a fault.
std::vector<int> read_list(Fields& top, const char* key, int layers) {
  std::vector<int> list;
  if (top.read(key, list) && static_cast<int>(list.size()) != layers) {
    top.fail(key, "`" + std::string(key) + "` has " + std::to_string(list.size()) +
                      " entries for " + std::to_string(layers) + " layers");
    list.clear();
  }
  return list;
}

std::vector<int> repeated(int local, int global, int layers) {
  std::vector<int> out;
  for (int i = 0; i < layers; ++i) out.push_back(i % (local + global) < local ? 1 : 0);
  return out;
}

// "5:1", or a list.
std::vector<int> read_pattern(Fields& top, int layers) {
  const Node* node = top.get("window_pattern");
  if (node == nullptr) return repeated(1, 0, layers);
  if (!node->is_scalar()) return read_list(top, "window_pattern", layers);
  const std::string text = node->raw();
  char* end = nullptr;
  const long local = std::strtol(text.c_str(), &end, 10);
  const bool ratio = *end == ':' && end[1] >= '0' && end[1] <= '9';
  const long global = ratio ? std::strtol(end + 1, &end, 10) : -1;
  constexpr long kMost = 10'000;
  if (*end != '\0' || local < 1 || global < 0 || local > kMost || global > kMost) {
    top.fail("window_pattern", "`window_pattern: " + text + "` is no ratio of layers",
             "write local:global as \"5:1\", or a list with 1 for each local layer");
    return repeated(1, 0, layers);
  }
  return repeated(static_cast<int>(local), static_cast<int>(global), layers);
}

// "1024", or in words: "128 in every other layer".
int read_window(Fields& top, bool& every_other) {
  const Node* node = top.get("sliding_window");
  if (node == nullptr || node->raw() == "false") return 0;
  const std::string text = node->raw();
  every_other = says_every_other(text);
  int window = 0;
  if (every_other) return std::atoi(text.c_str());
  top.read("sliding_window", window);
  return window;
}

// other: {attention: "sliding window 128 on every other layer, sinks"}
void read_words(Fields& top, LayerPattern& out, bool& every_other) {
  const Node* other = top.get("other");
  const Node* words = other == nullptr ? nullptr : other->find("attention");
  if (words == nullptr || !words->is_scalar()) return;
  const std::string text = words->raw();
  constexpr const char* kWindow = "sliding window ";
  const std::size_t at = text.find(kWindow);
  if (at == std::string::npos) {
    top.fail("other", "`other.attention: " + text + "` is not modelled");
    return;
  }
  out.window = std::atoi(text.c_str() + at + std::string(kWindow).size());
  every_other = says_every_other(text);
  out.sinks_in_words = has(text, "sink");
}

void read_no_rope(Fields& top, LayerPattern& out, int layers) {
  out.no_rope = read_list(top, "no_rope_layers", layers);
  int every = 0;
  top.read("no_rope_every", every);
  if (const Node* other = top.get("other"); other != nullptr) {
    if (const Node* interval = other->find("nope_interval"); interval != nullptr) {
      every = std::atoi(interval->raw().c_str());
    }
  }
  if (every < 0) top.fail("no_rope_every", "`no_rope_every` must be positive");
  if (!out.no_rope.empty() || every < 1) return;
  for (int i = 0; i < layers; ++i) out.no_rope.push_back((i + 1) % every == 0 ? 1 : 0);
}

}  // namespace

AttentionSpec LayerPattern::at(int layer, AttentionSpec shared) const {
  const auto i = static_cast<std::size_t>(layer);
  if (i < no_rope.size() && no_rope[i] != 0) shared.position = Position::none;
  if (i < local.size() && local[i] != 0) {
    shared.window = window;
    shared.chunk = chunk;
    return shared;
  }
  if (global_head_dim > 0) shared.head_dim = global_head_dim;
  if (global_kv_heads > 0) shared.kv_heads = global_kv_heads;
  shared.shared_kv = shared.shared_kv || global_shared_kv;
  return shared;
}

int LayerPattern::kind(int layer) const {
  const auto i = static_cast<std::size_t>(layer);
  const bool is_local = i < local.size() && local[i] != 0;
  const bool without = i < no_rope.size() && no_rope[i] != 0;
  return (is_local ? 2 : 0) + (without ? 1 : 0);
}

LayerPattern read_layer_pattern(Fields& top, int layers) {
  LayerPattern out;
  bool every_other = false;
  out.window = read_window(top, every_other);
  top.read("attention_chunk", out.chunk);
  read_words(top, out, every_other);
  top.read("global_head_dim", out.global_head_dim);
  top.read("global_kv_heads", out.global_kv_heads);
  top.read("global_shared_kv", out.global_shared_kv);
  read_no_rope(top, out, layers);
  top.skip("window_pattern");
  if (out.window > 0 || out.chunk > 0) {
    out.local = every_other ? repeated(1, 1, layers) : read_pattern(top, layers);
  }
  if (out.window < 0 || out.chunk < 0) {
    top.fail(out.window < 0 ? "sliding_window" : "attention_chunk",
             "a window of fewer than no keys", "give a positive number");
  }
  return out;
}

const AttentionSpec* shared_attention(const model::Architecture& a) {
  const AttentionSpec* first = nullptr;
  for (const layer::BlockSpec& block : a.blocks) {
    const auto* attention = std::get_if<AttentionSpec>(&block.mixer);
    if (attention == nullptr) continue;
    if (attention->window > 0 || attention->chunk > 0) return attention;
    if (first == nullptr) first = attention;
  }
  return first;
}

void write_layer_pattern(const model::Architecture& a, Node& out) {
  const AttentionSpec* shared = shared_attention(a);
  if (shared == nullptr) return;
  Node local = Node::sequence();
  Node no_rope = Node::sequence();
  const AttentionSpec* global = nullptr;
  bool any_local = false;
  bool any_no_rope = false;
  for (const std::uint8_t kind : a.pattern) {
    const auto* each = std::get_if<AttentionSpec>(&a.blocks[kind].mixer);
    const bool is_local = each != nullptr && (each->window > 0 || each->chunk > 0);
    const bool without =
        each != nullptr && a.position == Position::rotary && each->position == Position::none;
    any_local = any_local || is_local;
    any_no_rope = any_no_rope || without;
    if (each != nullptr && !is_local && global == nullptr) global = each;
    local.append(Node::integer(is_local ? 1 : 0));
    no_rope.append(Node::integer(without ? 1 : 0));
  }
  if (any_local) {
    if (shared->window > 0) out.set("sliding_window", Node::integer(shared->window));
    if (shared->chunk > 0) out.set("attention_chunk", Node::integer(shared->chunk));
    out.set("window_pattern", std::move(local));
    if (global != nullptr && global->head_dim != shared->head_dim) {
      out.set("global_head_dim", Node::integer(global->head_dim));
    }
    if (global != nullptr && global->kv_heads != shared->kv_heads) {
      out.set("global_kv_heads", Node::integer(global->kv_heads));
    }
    if (global != nullptr && global->shared_kv && !shared->shared_kv) {
      out.set("global_shared_kv", Node::boolean(true));
    }
  }
  if (any_no_rope) out.set("no_rope_layers", std::move(no_rope));
}

}  // namespace eratos::reader
