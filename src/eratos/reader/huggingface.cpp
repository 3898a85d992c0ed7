#include "eratos/reader/huggingface.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "eratos/reader/decode.h"
#include "eratos/reader/default_job.h"
#include "eratos/reader/fields.h"

namespace eratos::reader {

namespace {

// Keys of config.json that change no shape: numerics, tokens, generation, routing among the same
// experts. Source: transformers configuration_utils.py, and configuration_*.py of the models read
// here.
constexpr std::string_view kSizeless[] = {"_name_or_path",
                                          "_attn_implementation",
                                          "_attn_implementation_autoset",
                                          "architectures",
                                          "attention_dropout",
                                          "attn_pdrop",
                                          "attn_implementation",
                                          "auto_map",
                                          "aux_loss_alpha",
                                          "bad_words_ids",
                                          "begin_suppress_tokens",
                                          "bos_token_id",
                                          "chunk_size_feed_forward",
                                          "decoder_start_token_id",
                                          "dtype",
                                          "embd_pdrop",
                                          "eos_token_id",
                                          "exponential_decay_length_penalty",
                                          "finetuning_task",
                                          "forced_bos_token_id",
                                          "forced_eos_token_id",
                                          "hidden_dropout",
                                          "hidden_dropout_prob",
                                          "id2label",
                                          "initializer_range",
                                          "is_decoder",
                                          "keys_to_ignore_at_inference",
                                          "label2id",
                                          "layer_norm_eps",
                                          "layer_norm_epsilon",
                                          "layernorm_epsilon",
                                          "max_position_embeddings",
                                          "max_window_layers",
                                          "model_type",
                                          "n_group",
                                          "norm_eps",
                                          "norm_topk_prob",
                                          "output_attentions",
                                          "output_hidden_states",
                                          "output_router_logits",
                                          "pad_token_id",
                                          "prefix",
                                          "pretraining_tp",
                                          "problem_type",
                                          "quantization_config",
                                          "resid_pdrop",
                                          "return_dict",
                                          "rms_norm_eps",
                                          "rope_scaling",
                                          "rope_parameters",
                                          "rope_theta",
                                          "rotary_base",
                                          "routed_scaling_factor",
                                          "router_aux_loss_coef",
                                          "router_jitter_noise",
                                          "router_z_loss_coef",
                                          "scoring_func",
                                          "seq_aux",
                                          "sep_token_id",
                                          "summary_activation",
                                          "summary_first_dropout",
                                          "summary_proj_to_labels",
                                          "summary_type",
                                          "summary_use_proj",
                                          "task_specific_params",
                                          "tokenizer_class",
                                          "topk_group",
                                          "topk_method",
                                          "torch_dtype",
                                          "torchscript",
                                          "transformers.js_config",
                                          "transformers_version",
                                          "use_cache",
                                          "use_bfloat16",
                                          "use_return_dict"};

bool is_sizeless(std::string_view key) {
  return std::find(std::begin(kSizeless), std::end(kSizeless), key) != std::end(kSizeless);
}

using text::Node;

enum class Family { llama, mixtral, qwen_moe, deepseek, gpt2 };

struct ModelType {
  std::string_view name;
  Family family;
  bool qkv_bias = false;  // always, whatever the file says
  bool qk_norm = false;
  bool tied = false;                   // where tie_word_embeddings is absent
  bool shared_gate = false;            // of the shared expert
  const char* window_ratio = nullptr;  // local to global layers where the file does not say
  bool gemma = false;  // embedding scaled, norms behind the branches from the second on
  bool post_norms = false;
  bool pre_norms = true;
  bool qk_norm_full = false;
  bool gpt_oss = false;  // sinks, biases everywhere
};

constexpr ModelType kTypes[] = {
    {.name = "llama", .family = Family::llama},
    {.name = "mistral", .family = Family::llama},
    {.name = "qwen2", .family = Family::llama, .qkv_bias = true},
    {.name = "qwen3", .family = Family::llama, .qk_norm = true},
    {.name = "mixtral", .family = Family::mixtral},
    {.name = "qwen2_moe", .family = Family::qwen_moe, .qkv_bias = true, .shared_gate = true},
    {.name = "qwen3_moe", .family = Family::qwen_moe, .qk_norm = true},
    {.name = "deepseek_v2", .family = Family::deepseek},
    {.name = "deepseek_v3", .family = Family::deepseek},
    {.name = "gpt2", .family = Family::gpt2, .tied = true},
    {.name = "gemma", .family = Family::llama, .tied = true, .gemma = true},
    {.name = "gemma2",
     .family = Family::llama,
     .tied = true,
     .window_ratio = "1:1",
     .gemma = true,
     .post_norms = true},
    {.name = "gemma3_text",
     .family = Family::llama,
     .qk_norm = true,
     .tied = true,
     .window_ratio = "5:1",
     .gemma = true,
     .post_norms = true},
    {.name = "phi3", .family = Family::llama},
    {.name = "olmo2",
     .family = Family::llama,
     .post_norms = true,
     .pre_norms = false,
     .qk_norm_full = true},
    {.name = "gpt_oss", .family = Family::mixtral, .window_ratio = "1:1", .gpt_oss = true},
};

struct Config {
  const Node& root;
  Diagnostics bad;
  ImportReport report;
  std::set<std::string> used;
  Node tree = Node::mapping();

  const Node* get(std::string_view key) {
    used.emplace(key);
    const Node* node = root.find(key);
    return node == nullptr || node->is_null() ? nullptr : node;
  }
  std::optional<std::int64_t> integer(std::string_view key) {
    const Node* node = get(key);
    if (node == nullptr) return std::nullopt;
    auto value = node->as_int64(key);
    if (value) return *value;
    bad.push_back(value.error().front());
    return std::nullopt;
  }
  bool flag(std::string_view key, bool otherwise) {
    const Node* node = get(key);
    if (node == nullptr) return otherwise;
    auto value = node->as_bool(key);
    if (value) return *value;
    bad.push_back(value.error().front());
    return otherwise;
  }
  void put(const std::string& path, std::string_view key, Node value,
           const std::string& rule = {}) {
    const Node* from = root.find(key);
    Provenance p{.value = value.is_null() ? "null" : value.raw(), .rule = std::string(key)};
    if (from == nullptr || from->is_null()) {
      p.origin = Origin::framework_default;
      p.rule = rule.empty() ? "`" + std::string(key) + "` not given" : rule;
    } else {
      p.where = from->where();
      if (!rule.empty()) p.rule += ": " + rule;
      value.set_place(from->place());
    }
    report.provenance["model." + path] = std::move(p);
    (void)text::set_at(tree, path, std::move(value));
  }
  // A size that has to be there.
  std::int64_t need(const std::string& path, std::string_view key) {
    const auto value = integer(key);
    if (!value) {
      if (get(key) == nullptr) {
        bad.push_back({.where = root.where(),
                       .message = "`" + std::string(key) + "` is missing",
                       .cure = "config.json of this model type has it",
                       .field = "model." + path});
      }
      return 0;
    }
    put(path, key, Node::integer(*value));
    return *value;
  }
};

void put_activation(Config& c, const char* key, bool gated) {
  const Node* node = c.get(key);
  const bool gelu = !gated || std::string_view(key) == "hidden_activation";
  const std::string word = node == nullptr ? (gelu ? "gelu_new" : "silu") : node->raw();
  const char* name = "";
  if (word == "silu" || word == "swish") name = "silu";
  if (word.rfind("gelu", 0) == 0) name = "gelu";
  if (word == "relu") name = "relu";
  if (word == "relu2") name = "squared_relu";
  if (*name == '\0') {
    c.bad.push_back({.where = node->where(),
                     .message = "activation `" + word + "` is not modelled",
                     .field = "model.activation"});
    return;
  }
  c.put("activation", key, Node::string(name));
}

void read_gpt2(Config& c) {
  c.need("layers", "n_layer");
  const std::int64_t hidden = c.need("hidden", "n_embd");
  c.need("heads", "n_head");
  c.need("vocab", "vocab_size");
  const auto inner = c.integer("n_inner");
  c.put("ffn", "n_inner", Node::integer(inner.value_or(4 * hidden)), inner ? "" : "4 n_embd");
  c.put("position", "n_positions", Node::string("learned"));
  c.put("max_sequence", "n_positions", Node::integer(c.integer("n_positions").value_or(1024)));
  c.put("gated_mlp", "model_type", Node::boolean(false));
  c.put("bias", "model_type", Node::boolean(true));
  c.put("norm", "model_type", Node::string("layernorm"));
  c.put("norm_bias", "model_type", Node::boolean(true));
  put_activation(c, "activation_function", false);
}

void read_mla(Config& c) {
  const auto rank = c.integer("q_lora_rank");
  c.put("mla.q_lora_rank", "q_lora_rank", Node::integer(rank.value_or(0)));
  c.need("mla.kv_lora_rank", "kv_lora_rank");
  c.need("mla.qk_nope_head_dim", "qk_nope_head_dim");
  c.need("mla.qk_rope_head_dim", "qk_rope_head_dim");
  c.need("mla.v_head_dim", "v_head_dim");
}

void read_experts(Config& c, const ModelType& type, std::int64_t layers) {
  if (type.family == Family::mixtral) {
    c.need("moe.experts", "num_local_experts");
    c.need("moe.top_k", "num_experts_per_tok");
    c.need("moe.ffn", "intermediate_size");
    return;
  }
  c.need("moe.top_k", "num_experts_per_tok");
  const std::int64_t wide = c.need("moe.ffn", "moe_intermediate_size");
  if (type.family == Family::deepseek) {
    c.need("moe.experts", "n_routed_experts");
    const std::int64_t shared = c.integer("n_shared_experts").value_or(0);
    c.put("moe.shared_ffn", "n_shared_experts", Node::integer(shared * wide),
          "n_shared_experts * moe_intermediate_size");
    c.put("moe.dense_layers_first", "first_k_dense_replace",
          Node::integer(c.integer("first_k_dense_replace").value_or(0)));
    const std::int64_t every = c.integer("moe_layer_freq").value_or(1);
    c.put("moe.every", "moe_layer_freq", Node::integer(every));
    const Node* method = c.get("topk_method");
    const bool bias =
        type.name == "deepseek_v3" || (method != nullptr && method->raw() == "noaux_tc");
    c.put("moe.router_bias", "topk_method", Node::boolean(bias));
    const bool greedy = method != nullptr && method->raw() == "greedy";
    const std::int64_t groups = c.integer("n_group").value_or(1);
    const std::int64_t chosen = c.integer("topk_group").value_or(groups);
    if (groups > 1 && !greedy) {
      c.put("moe.groups", "n_group", Node::integer(groups));
      c.put("moe.top_groups", "topk_group", Node::integer(chosen));
    }
    return;
  }
  c.need("moe.experts", "num_experts");
  if (const auto shared = c.integer("shared_expert_intermediate_size")) {
    c.put("moe.shared_ffn", "shared_expert_intermediate_size", Node::integer(*shared));
    c.put("moe.shared_gate", "model_type", Node::boolean(type.shared_gate && *shared > 0));
  }
  // Layer i has experts when (i + 1) divides by decoder_sparse_step and it is not listed.
  const std::int64_t step = c.integer("decoder_sparse_step").value_or(1);
  std::set<std::int64_t> dense;
  if (const Node* only = c.get("mlp_only_layers"); only != nullptr) {
    for (const Node& each : only->items()) dense.insert(each.as_int64().value_or(-1));
  }
  if (step == 1 && dense.empty()) return;
  Node pattern = Node::sequence();
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool expert = step > 0 && (i + 1) % step == 0 && !dense.contains(i);
    pattern.append(Node::integer(expert ? 1 : 0));
  }
  c.put("moe.pattern", "decoder_sparse_step", std::move(pattern));
}

// Layers with a window: by name, by period, or by the model type's habit. Source: huggingface/
// transformers configuration_gemma3.py (layer_types, sliding_window_pattern),
// configuration_qwen2.py.
void put_windows(Config& c, const ModelType& type) {
  const bool on = c.flag("use_sliding_window", true);
  const auto window = c.integer("sliding_window");
  const auto period = c.integer("sliding_window_pattern");
  const Node* kinds = c.get("layer_types");
  c.used.insert("max_window_layers");
  if (!window || !on) return;
  Node local = Node::sequence();
  bool any = kinds == nullptr;
  if (kinds != nullptr) {
    for (const Node& each : kinds->items()) {
      const bool is = each.raw() == "sliding_attention";
      any = any || is;
      local.append(Node::integer(is ? 1 : 0));
    }
  }
  if (!any) return;
  c.put("sliding_window", "sliding_window", Node::integer(*window));
  if (kinds != nullptr) {
    c.put("window_pattern", "layer_types", std::move(local));
  } else if (period && *period > 1) {
    c.put("window_pattern", "sliding_window_pattern",
          Node::string(std::to_string(*period - 1) + ":1"));
  } else if (type.window_ratio != nullptr) {
    c.put("window_pattern", "model_type", Node::string(type.window_ratio));
  }
}

void put_norms_and_caps(Config& c, const ModelType& type) {
  if (type.gemma) c.put("embedding_scale", "model_type", Node::boolean(true));
  if (type.post_norms) c.put("post_norms", "model_type", Node::boolean(true));
  if (!type.pre_norms) c.put("pre_norms", "model_type", Node::boolean(false));
  if (type.qk_norm_full) c.put("qk_norm_full", "model_type", Node::boolean(true));
  for (const auto& [path, key] : {std::pair{"attention_soft_cap", "attn_logit_softcapping"},
                                  std::pair{"final_soft_cap", "final_logit_softcapping"}}) {
    if (const Node* cap = c.get(key); cap != nullptr) c.put(path, key, *cap);
  }
  if (type.gpt_oss) {
    c.put("attention_sinks", "model_type", Node::boolean(true));
    c.put("mlp_bias", "model_type", Node::boolean(true));
    c.put("moe.router_bias", "model_type", Node::boolean(true));
  }
}

void read_decoder(Config& c, const ModelType& type) {
  const std::int64_t layers = c.need("layers", "num_hidden_layers");
  const std::int64_t hidden = c.need("hidden", "hidden_size");
  const std::int64_t heads = c.need("heads", "num_attention_heads");
  c.need("vocab", "vocab_size");
  c.put("gated_mlp", "model_type", Node::boolean(true));
  c.put("norm", "model_type", Node::string("rmsnorm"));
  c.put("position", "model_type", Node::string("rotary"));
  put_activation(c, type.gemma ? "hidden_activation" : "hidden_act", true);
  if (type.family != Family::mixtral) c.need("ffn", "intermediate_size");

  const bool bias = c.flag("attention_bias", false);
  c.put("mlp_bias", "mlp_bias", Node::boolean(c.flag("mlp_bias", false)));
  c.put("out_bias", "attention_bias", Node::boolean(bias));
  c.put("qkv_bias", type.qkv_bias ? "model_type" : "attention_bias",
        Node::boolean(bias || type.qkv_bias));
  if (type.family == Family::deepseek) {
    read_mla(c);
  } else {
    c.put("kv_heads", "num_key_value_heads",
          Node::integer(c.integer("num_key_value_heads").value_or(heads)));
    c.put("head_dim", "head_dim",
          Node::integer(c.integer("head_dim").value_or(heads > 0 ? hidden / heads : 0)),
          c.get("head_dim") == nullptr ? "hidden_size / num_attention_heads" : "");
    c.put("qk_norm", "model_type", Node::boolean(type.qk_norm));
  }
  put_windows(c, type);
  put_norms_and_caps(c, type);
  if (type.family != Family::llama) read_experts(c, type, layers);
  if (type.name == "deepseek_v3") {
    c.put("mtp_layers", "num_nextn_predict_layers",
          Node::integer(c.integer("num_nextn_predict_layers").value_or(0)));
  }
}

}  // namespace

bool is_huggingface(const Node& root) {
  return root.find("model_type") != nullptr &&
         (root.find("hidden_size") != nullptr || root.find("n_embd") != nullptr ||
          root.find("architectures") != nullptr);
}

Result<JobRead> read_huggingface(const Node& root, const std::string& path) {
  const Node* name = root.find("model_type");
  const ModelType* type = nullptr;
  std::vector<std::string> known;
  for (const ModelType& each : kTypes) {
    known.emplace_back(each.name);
    if (name != nullptr && name->raw() == each.name) type = &each;
  }
  if (type == nullptr) {
    return fault({.where = name == nullptr ? root.where() : name->where(),
                  .message = "model type `" + (name == nullptr ? std::string() : name->raw()) +
                             "` is not known",
                  .cure = suggestion(name == nullptr ? "" : name->raw(), known),
                  .field = "model"});
  }
  Config c{.root = root};
  c.used.insert("model_type");
  if (type->family == Family::gpt2) {
    read_gpt2(c);
  } else {
    read_decoder(c, *type);
  }
  c.put("tie_embeddings", "tie_word_embeddings",
        Node::boolean(c.flag("tie_word_embeddings", type->tied)));
  Result<model::Architecture> model = decode_model(c.tree, "model");
  if (!model) {
    for (const Diagnostic& d : model.error()) {
      if (d.message.find("is missing") == std::string::npos) c.bad.push_back(d);
    }
  }
  if (!c.bad.empty()) return faults(std::move(c.bad));

  std::string title = path;
  if (const Node* origin = root.find("_name_or_path");
      origin != nullptr && !origin->raw().empty()) {
    title = origin->raw();
  }
  model->name = title;
  model->source = path;
  auto out = default_job(std::move(*model), title, "Hugging Face config.json");
  if (!out) return out;
  for (auto& [field, from] : c.report.provenance) out->report.provenance[field] = std::move(from);
  out->report.resolved = root;
  for (const text::Entry& entry : root.entries()) {
    if (c.used.contains(entry.key)) continue;
    out->report.unused.push_back({.key = entry.key,
                                  .where = entry.key_location(),
                                  .reason = is_sizeless(entry.key)
                                                ? "does not change the sizes"
                                                : "not known: a size that only it says is missed"});
  }
  return out;
}

}  // namespace eratos::reader
