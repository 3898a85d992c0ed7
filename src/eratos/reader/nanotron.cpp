#include "eratos/reader/nanotron.h"

#include <filesystem>
#include <set>
#include <string_view>

#include "eratos/reader/keys_nanotron.h"
#include "eratos/reader/translation.h"

namespace eratos::reader {

namespace {

using text::Node;

constexpr std::string_view kModel = "model.model_config.";

std::string in_model(std::string_view key) { return std::string(kModel) + std::string(key); }

void read_experts(Translation& t, int layers) {
  const Node* moe = t.node(in_model("moe_config"));
  if (moe == nullptr) return;
  const auto key = [](const char* name) { return in_model("moe_config.") + name; };
  // Defaults: MoEConfig of models_config.py.
  t.put("model.moe.experts", Node::integer(t.integer(key("num_experts")).value_or(8)),
        key("num_experts"));
  t.put("model.moe.top_k", Node::integer(t.integer(key("top_k")).value_or(2)), key("top_k"));
  const int wide = t.integer(in_model("intermediate_size")).value_or(11008);
  const auto ffn = t.integer(key("moe_intermediate_size"));
  t.put("model.moe.ffn", Node::integer(ffn.value_or(wide)), key("moe_intermediate_size"),
        ffn ? "" : "intermediate_size");
  const bool shared = t.is_on(key("enable_shared_expert"));
  const auto shared_ffn = t.integer(key("shared_expert_intermediate_size"));
  t.put("model.moe.shared_ffn", Node::integer(shared ? shared_ffn.value_or(wide) : 0),
        key("enable_shared_expert"));
  t.put("model.moe.shared_gate", Node::boolean(shared), key("enable_shared_expert"),
        "a sigmoid gate of one column");
  std::set<std::int64_t> chosen;
  if (const Node* list = t.node(key("layers")); list != nullptr) {
    for (const Node& each : list->items()) chosen.insert(each.as_int64().value_or(-2));
  }
  if (chosen.empty() || chosen.contains(-1)) return;
  Node pattern = Node::sequence();
  for (int i = 0; i < layers; ++i) pattern.append(Node::integer(chosen.contains(i) ? 1 : 0));
  t.put("model.moe.pattern", std::move(pattern), key("layers"));
}

int read_model(Translation& t) {
  // LlamaConfig's and Qwen2Config's defaults.
  // Source: huggingface/nanotron src/nanotron/config/models_config.py.
  static constexpr struct {
    const char* key;
    const char* field;
    int otherwise;
  } kSizes[] = {{"num_hidden_layers", "model.layers", 32},
                {"hidden_size", "model.hidden", 4096},
                {"intermediate_size", "model.ffn", 11008},
                {"num_attention_heads", "model.heads", 32},
                {"vocab_size", "model.vocab", 32000}};
  int layers = 32;
  for (const auto& [key, field, otherwise] : kSizes) {
    const auto value = t.integer(in_model(key));
    t.put(field, Node::integer(value.value_or(otherwise)), in_model(key));
    if (std::string_view(key) == "num_hidden_layers") layers = value.value_or(otherwise);
  }
  for (const char* other : {"is_starcoder2_config"}) {
    if (t.says(in_model(other))) {
      t.fail(in_model(other), "a Starcoder2 model is not read", "llama and qwen2 models are",
             "model");
    }
  }
  t.assume("model.gated_mlp", Node::boolean(true), "llama and qwen2 gate");
  t.assume("model.mlp_bias", Node::boolean(false), "no bias there");
  t.assume("model.out_bias", Node::boolean(false), "no bias there");
  t.assume("model.norm", Node::string("rmsnorm"), "llama and qwen2");
  t.assume("model.position", Node::string("rotary"), "llama and qwen2");
  read_experts(t, layers);
  if (const auto window = t.integer(in_model("sliding_window_size"))) {
    t.put("model.sliding_window", Node::integer(*window), in_model("sliding_window_size"));
  }
  return layers;
}

void read_batch(Translation& t) {
  const int micro = t.integer("tokens.micro_batch_size").value_or(1);
  const int accumulate = t.integer("tokens.batch_accumulation_per_replica").value_or(1);
  const auto dp = t.integer("parallelism.dp");
  if (!dp) {
    if (!t.says("parallelism.dp")) {
      t.fail("parallelism.dp", "`parallelism.dp` is missing", "add it", "batch.global");
    }
    return;
  }
  const int tp = t.integer("parallelism.tp").value_or(1);
  const int pp = t.integer("parallelism.pp").value_or(1);
  const int cp = t.integer("parallelism.context_parallel_size").value_or(1);
  const double global = static_cast<double>(micro) * accumulate * *dp;
  const double world = static_cast<double>(*dp) * tp * pp * cp;
  if (micro < 1 || accumulate < 1 || global < 1 || global > 1e9 || world < 1 || world > 1e9) {
    t.fail("parallelism.dp",
           "micro_batch_size x batch_accumulation_per_replica x dp is no number "
           "of sequences",
           "give positive numbers", "batch.global");
    return;
  }
  t.derive("batch.global", Node::integer(static_cast<std::int64_t>(global)),
           {"tokens.batch_accumulation_per_replica", "tokens.micro_batch_size", "parallelism.dp"},
           "micro_batch_size " + std::to_string(micro) + " x batch_accumulation_per_replica " +
               std::to_string(accumulate) + " x dp " + std::to_string(*dp));
  t.follows.accelerators = static_cast<int>(world);
}

}  // namespace

std::string nanotron_evidence(const Node& root) {
  for (const char* key :
       {"model.model_config", "tokens.batch_accumulation_per_replica", "tokens.micro_batch_size"}) {
    if (text::find_at(root, key) != nullptr) return key;
  }
  return {};
}

Result<JobRead> read_nanotron(const Node& root, const std::string& path) {
  Translation t(root, kNanotronKeys, "nanotron (YAML)");
  t.assume("framework.profile", Node::string("nanotron"), "the profile of nanotron");
  // What nanotron does where its file is silent (config.py, parallelism_config.py).
  t.assume("parallel.sequence_parallel", Node::boolean(false), "tp_mode ALL_REDUCE");
  t.assume("optimizer.main_gradient", Node::string("bf16"), "accumulate_grad_in_fp32 not given");
  read_model(t);
  t.copy_rows();
  read_batch(t);
  std::string name = std::filesystem::path(path).stem().string();
  if (const auto run = t.word("general.run"); run && run->find('%') == std::string::npos) {
    t.put("name", Node::string(*run), "general.run");
  }
  return t.finish(name);
}

}  // namespace eratos::reader
