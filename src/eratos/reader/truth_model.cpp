#include "eratos/reader/truth_model.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"

namespace eratos::reader {

namespace {

using text::Node;

// Parts that no size tells. Sizes, ties, biases and prediction modules are the run's own.
constexpr std::string_view kUnsaid[] = {"activation",         "qk_norm",          "qk_norm_full",
                                        "qk_norm_weight",     "value_norm",       "rotary_share",
                                        "attention_soft_cap", "attention_sinks",  "sliding_window",
                                        "attention_chunk",    "window_pattern",   "global_head_dim",
                                        "global_kv_heads",    "global_shared_kv", "no_rope_layers",
                                        "norm_weight",        "embedding_scale",  "final_soft_cap",
                                        "norm_per_branch",    "pre_norms",        "post_norms"};
constexpr std::string_view kUnsaidOfExperts[] = {"router_bias", "shared_gate", "own_norms", "groups",
                                                 "top_groups"};

bool same(const Node& a, const Node& b, std::initializer_list<std::string_view> keys) {
  return std::all_of(keys.begin(), keys.end(), [&](std::string_view key) {
    const Node* left = a.find(key);
    const Node* right = b.find(key);
    return left != nullptr && right != nullptr && left->raw() == right->raw();
  });
}

template <std::size_t N>
void fill(Node& to, const Node& from, const std::string_view (&keys)[N]) {
  for (const std::string_view key : keys) {
    const Node* known = from.find(key);
    if (known != nullptr && to.find(key) == nullptr) to.set(std::string(key), *known);
  }
}

}  // namespace

Node completed_model(const Node& run, const std::string& name) {
  const Result<model::Architecture> known = load_model(name);
  if (!known) return run;
  const Node from = model_to_node(*known);
  if (!same(run, from, {"layers", "hidden", "heads"})) return run;
  Node out = run;
  fill(out, from, kUnsaid);
  Node* experts = out.find("moe");
  const Node* known_experts = from.find("moe");
  if (experts != nullptr && known_experts != nullptr &&
      same(*experts, *known_experts, {"experts"})) {
    fill(*experts, *known_experts, kUnsaidOfExperts);
  }
  return out;
}

}  // namespace eratos::reader
