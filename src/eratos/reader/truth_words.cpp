#include "eratos/reader/truth_words.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "eratos/base/check.h"
#include "eratos/reader/graph_scopes.h"
#include "eratos/reader/pattern_table.h"
#include "eratos/reader/recompute_policy.h"
#include "eratos/reader/schedule_words.h"

namespace eratos::reader {

namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool starts(std::string_view text, std::string_view part) {
  return text.substr(0, part.size()) == part;
}

// The whole number that stands right before `after`, as in "21 of 80 layers".
std::optional<int> number_before(std::string_view text, std::string_view after) {
  const std::size_t at = text.find(after);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  std::size_t end = at;
  while (end > 0 && text[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(text[begin - 1])) != 0) --begin;
  if (begin == end) return std::nullopt;
  return std::atoi(std::string(text.substr(begin, end - begin)).c_str());
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : text) {
    const bool part = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    if (part) {
      word += c;
    } else if (!word.empty()) {
      out.push_back(std::exchange(word, {}));
    }
  }
  if (!word.empty()) out.push_back(word);
  return out;
}

// Megatron-LM's recompute modules. Source: Megatron-LM transformer_config.py, recompute_modules.
bool add_modules(std::string_view word, job::ModuleSet& out) {
  using ops::Module;
  const auto add = [&](std::initializer_list<Module> modules) {
    for (const Module m : modules) out.set(static_cast<std::size_t>(m));
    return true;
  };
  if (word == "core_attn") return add({Module::core_attention});
  if (word == "layernorm" || word == "norm" || word == "norms") return add({Module::norm});
  if (word == "mla_up_proj") return add({Module::mla_up});
  if (word == "moe_act") return add({Module::expert_activation});
  if (word == "act") return add({Module::activation, Module::expert_activation});
  if (word == "mlp") return add({Module::mlp_in, Module::activation, Module::mlp_out});
  if (word == "mlp_in") return add({Module::mlp_in});
  if (word == "qkv") return add({Module::qkv});
  if (word == "attention_out") return add({Module::attention_out});
  if (word == "rotary") return add({Module::rotary});
  if (word == "moe") {
    return add({Module::router, Module::dispatch, Module::expert_in, Module::expert_activation,
                Module::expert_out, Module::combine, Module::shared_expert});
  }
  if (word == "shared_experts") return add({Module::shared_expert});
  return false;
}

std::string read_full(std::string_view words, job::RecomputeSpec& out) {
  out.granularity = job::Granularity::full;
  out.method = job::RecomputeMethod::uniform;
  out.layers = 1;
  if (has(words, "not stated")) return "how many layers are recomputed is not stated";
  if (const std::size_t at = words.find("by id "); at != std::string_view::npos) {
    for (const std::string& id : words_of(words.substr(at + 6))) {
      out.layer_ids.push_back(std::atoi(id.c_str()));
    }
    return "";
  }
  if (has(words, "block,") || has(words, "(block)")) {
    out.method = job::RecomputeMethod::block;
    // "per virtual stage" wins over "of all layers": block counts layers of a virtual stage.
    for (const std::string_view after :
         {"layer per virtual stage", "layers per virtual stage", "of ", "layers"}) {
      if (const std::optional<int> n = number_before(words, after)) {
        out.layers = *n;
        return "";
      }
    }
    return "how many layers are recomputed is not stated";
  }
  if (const std::optional<int> n = number_before(words, "layers per checkpoint")) out.layers = *n;
  return "";
}

// The `what` of a line of data/run_recompute.csv: "full", "block 3" (layers of each virtual stage),
// "every other layer", "policy op-level" (of data/recompute_policies.csv), or module names.
std::string read_policy(std::string_view what, int layers, job::RecomputeSpec& out) {
  out.granularity = job::Granularity::full;
  if (what == "full") return "";
  constexpr std::string_view kBlock = "block ";
  if (starts(what, kBlock)) {
    out.method = job::RecomputeMethod::block;
    out.layers = std::atoi(std::string(what.substr(kBlock.size())).c_str());
    return "";
  }
  if (what == "every other layer") {
    for (int layer = 0; layer < layers; layer += 2) out.layer_ids.push_back(layer);
    return "";
  }
  constexpr std::string_view kPolicy = "policy ";
  if (starts(what, kPolicy)) {
    ERATOS_CHECK(set_policy(what.substr(kPolicy.size()), out));
    return "";
  }
  out.granularity = job::Granularity::selective;
  for (const std::string& word : words_of(what)) ERATOS_CHECK(add_modules(word, out.modules));
  return "";
}

std::string read_selective(std::string_view words, job::RecomputeSpec& out) {
  out.granularity = job::Granularity::selective;
  const std::string_view list = words.substr(std::string_view("selective").size());
  for (const std::string& word : words_of(list)) {
    if (word == "core" && has(list, "core attention")) {
      add_modules("core_attn", out.modules);
      return "";
    }
    if (word == "granularity") break;  // "(granularity selective, ...)": prose from here on
    if (!add_modules(word, out.modules)) return "recompute policy `" + std::string(words) + '`';
  }
  return "";
}

}  // namespace

std::string read_recompute(std::string_view words, int layers, job::RecomputeSpec& out) {
  if (words.empty() || words == "none") return "";
  static const PatternTable policies("run_recompute");
  if (const std::optional<std::size_t> line = policies.find(words)) {
    return read_policy(policies.cell(*line, "what"), layers, out);
  }
  if (starts(words, "full")) return read_full(words, out);
  if (starts(words, "selective")) return read_selective(words, out);
  return "recompute policy `" + std::string(words) + '`';
}

int shard_group_in(std::string_view notes) {
  for (const std::string_view word : {"FSDP group ", "shard group "}) {
    if (const std::size_t at = notes.find(word); at != std::string_view::npos) {
      return std::atoi(std::string(notes.substr(at + word.size(), 8)).c_str());
    }
  }
  return 0;
}

std::string read_precision(std::string_view word, std::string_view notes, job::Recipe& out) {
  if (word == "fp8-hybrid") {
    out = has(notes, "tensorwise") ? job::Recipe::fp8_current : job::Recipe::fp8_delayed;
    return "";
  }
  if (word.empty()) {
    out = job::Recipe::bf16;
    return "";
  }
  for (const job::Recipe r :
       {job::Recipe::bf16, job::Recipe::fp16, job::Recipe::fp32, job::Recipe::fp8_delayed,
        job::Recipe::fp8_current, job::Recipe::fp8_blockwise, job::Recipe::mxfp8,
        job::Recipe::mxfp4, job::Recipe::nvfp4}) {
    if (job::name_of(r) == word) {
      out = r;
      return "";
    }
  }
  return "precision " + std::string(word);
}

std::string read_schedule(std::string_view word, job::JobSpec& out) {
  // A row without pipeline says "none"; the framework's own choice is the same then.
  if (word.empty() || word == "none") return "";
  const std::string_view name = word.substr(0, word.find(' '));  // a remark in brackets may follow
  return set_schedule(name, out) ? "" : "schedule " + std::string(word);
}

void read_overlap(std::string_view words, job::OverlapSpec& out) {
  if (words.empty()) return;
  if (starts(words, "none")) {
    out = {
        .grad_reduce = false, .param_gather = false, .tp = false, .moe_a2a = false, .p2p = false};
    return;
  }
  const bool says_dp = has(words, "grad-reduce") || has(words, "param-gather");
  if (says_dp) {
    out.grad_reduce = has(words, "grad-reduce");
    out.param_gather = has(words, "param-gather");
    out.p2p = has(words, "p2p");
  }
  out.tp = has(words, "tp-comm") || has(words, "tp_linear_async") ||
           has(words, "sequence-parallel all-gather") || has(words, "async TP");
  out.moe_a2a = has(words, "moe-a2a");
}

layer::AttentionKernel read_attention(std::string_view words) {
  for (const std::string_view unfused :
       {"unfused", "fused softmax", "no flash", "eager", "dot_product"}) {
    if (has(words, unfused)) return layer::AttentionKernel::unfused;
  }
  return layer::AttentionKernel::flash;
}

std::string read_dispatch(std::string_view words, job::RoutingSpec& out) {
  if (has(words, "megamoe")) {
    return "expert dispatch `" + std::string(words) + '`';
  }
  if (has(words, "deepep") || has(words, "DeepEP")) out.dispatcher = job::Dispatcher::deepep;
  if (has(words, "hybridep")) out.dispatcher = job::Dispatcher::hybridep;
  // MaxText's name of its dispatch by masks (sparse_matmul: false).
  if (starts(words, "dense matmul")) out.dispatcher = job::Dispatcher::einsum;
  if (starts(words, "all-gather")) out.dispatcher = job::Dispatcher::allgather;
  constexpr std::string_view kFactor = "capacity factor ";
  if (const std::size_t at = words.find(kFactor); at != std::string_view::npos) {
    out.capacity_factor =
        std::strtod(std::string(words.substr(at + kFactor.size())).c_str(), nullptr);
  }
  return "";
}

void read_graphs(std::string_view words, std::string_view notes, job::JobSpec& out) {
  if (words.empty()) {
    const std::size_t at = notes.find("cuda graph");
    if (at == std::string_view::npos) return;
    words = notes.substr(at, notes.find(';', at) - at);
    // In prose: "cuda graphs for attention and mamba".
    if (has(words, "attention")) add_graph_scope("attn", out.graph_modules);
  }
  if (starts(words, "none")) return;
  if (starts(words, "full_iteration") || has(words, "FULL_CUDA_GRAPH") ||
      starts(words, "local scope=full_iteration")) {
    out.graph_share = 1;
    return;
  }
  // Assumes: graphs of whole layers replay all but the launches between them.
  if (has(words, "LAYER_CUDA_GRAPH") || has(words, "MCORE_CUDA_GRAPH")) {
    out.graph_share = 0.9;
    return;
  }
  for (const std::string& word : words_of(words)) add_graph_scope(word, out.graph_modules);
  if (out.graph_modules.none() && starts(words, "transformer_engine")) {
    out.graph_modules = all_graph_scopes();
  }
}

}  // namespace eratos::reader
