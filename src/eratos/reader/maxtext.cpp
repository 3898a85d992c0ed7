#include "eratos/reader/maxtext.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/keys_maxtext.h"
#include "eratos/reader/pattern_table.h"
#include "eratos/reader/translation.h"

namespace eratos::reader {

namespace {

using text::Node;

void read_sizes(Translation& t) {
  static constexpr struct {
    const char* key;
    const char* field;
  } kSizes[] = {{"base_num_decoder_layers", "model.layers"},
                {"base_emb_dim", "model.hidden"},
                {"base_mlp_dim", "model.ffn"},
                {"base_num_query_heads", "model.heads"},
                {"base_num_kv_heads", "model.kv_heads"},
                {"head_dim", "model.head_dim"},
                {"vocab_size", "model.vocab"}};
  for (const auto& [key, field] : kSizes) {
    if (const auto value = t.integer(key)) {
      t.put(field, Node::integer(*value), key);
    } else if (!t.says(key)) {
      t.fail(key, "`" + std::string(key) + "` is missing, and `model_name` names no known model",
             "give the sizes, or a model_name of data/maxtext_models.csv", field);
    }
  }
  if (const int experts = t.integer("num_experts").value_or(1); experts > 1) {
    t.put("model.moe.experts", Node::integer(experts), "num_experts");
    t.put("model.moe.top_k", Node::integer(t.integer("num_experts_per_tok").value_or(1)),
          "num_experts_per_tok");
    const auto ffn = t.integer("base_moe_mlp_dim");
    t.put("model.moe.ffn", Node::integer(ffn.value_or(t.integer("base_mlp_dim").value_or(0))),
          "base_moe_mlp_dim");
  }
  bool gated = false;
  std::string activation = "relu";
  if (const Node* words = t.node("mlp_activations"); words != nullptr) {
    for (const Node& each : words->items()) {
      if (each.raw() == "linear") gated = true;
      if (each.raw() != "linear") activation = each.raw();
    }
  }
  const bool known = activation == "silu" || activation == "gelu" || activation == "relu";
  if (!known) {
    t.fail("mlp_activations", "activation `" + activation + "` is not modelled",
           "silu, gelu and relu are", "model.activation");
  }
  t.put("model.gated_mlp", Node::boolean(gated), "mlp_activations");
  t.put("model.activation", Node::string(activation), "mlp_activations");
  t.put("model.tie_embeddings", Node::boolean(t.is_on("logits_via_embedding")),
        "logits_via_embedding");
  t.assume("model.norm", Node::string("rmsnorm"), "MaxText's decoders have it");
}

void read_model(Translation& t) {
  static const PatternTable table("maxtext_models");
  const std::string name = t.word("model_name").value_or("default");
  (void)t.word("decoder_block");
  if (const auto row = table.find(name)) {
    const std::string known(table.cell(*row, "model"));
    if (find_file(Kind::models, known) == nullptr) {
      t.fail("model_name", "`" + name + "` is " + known + ", which the catalogue does not have yet",
             "give a model_name of data/maxtext_models.csv", "model");
      return;
    }
    t.put("model", Node::string(known), "model_name", name + " (data/maxtext_models.csv)");
    return;
  }
  if (name != "default" && !t.says("base_emb_dim")) {
    t.fail("model_name", "model_name `" + name + "` is not known",
           "data/maxtext_models.csv lists the known ones; or give its sizes (base_emb_dim, ...)",
           "model");
    return;
  }
  read_sizes(t);
}

// An axis within and across nodes together; `open` when a -1 takes what is left.
struct Axis {
  int degree = 1;
  bool open = false;
};

Axis axis_of(Translation& t, const std::string& name) {
  Axis out;
  for (const char* where : {"ici_", "dcn_"}) {
    const auto value = t.integer(where + name + "_parallelism");
    if (!value) continue;
    if (*value == -1) {
      out.open = true;
    } else if (*value < 1 || *value > 1'000'000) {
      t.fail(where + name + "_parallelism",
             "`" + std::string(where) + name + "_parallelism` is " + std::to_string(*value),
             "it is a positive degree, or -1 for what is left", "parallel");
    } else {
      out.degree *= *value;
    }
  }
  return out;
}

struct Mesh {
  int tp = 1;
  int pp = 1;
  int cp = 1;
};

Mesh read_mesh(Translation& t) {
  const Axis data = axis_of(t, "data");
  const Axis fsdp = axis_of(t, "fsdp");
  const Axis transposed = axis_of(t, "fsdp_transpose");
  const Axis tensor = axis_of(t, "tensor");
  const Axis tensor_transposed = axis_of(t, "tensor_transpose");
  Axis tensor_sequence = axis_of(t, "tensor_sequence");
  const Axis pipeline = axis_of(t, "pipeline");
  const Axis context = axis_of(t, "context");
  const Axis sequence = axis_of(t, "sequence");
  const Axis expert = axis_of(t, "expert");
  (void)axis_of(t, "context_autoregressive");
  (void)axis_of(t, "autoregressive");
  for (const Axis* each : {&tensor, &pipeline, &context, &sequence, &expert}) {
    if (!each->open) continue;
    t.fail("ici_tensor_parallelism", "a degree of -1 on an axis other than data and fsdp",
           "say how many", "parallel");
  }
  if (tensor_sequence.open) {
    t.warn("mesh",
           "`ici_tensor_sequence_parallelism: -1` takes what the other axes leave of a node: read "
           "as 1",
           "ici_tensor_sequence_parallelism");
  }
  const Mesh out{.tp = tensor.degree * tensor_transposed.degree * tensor_sequence.degree,
                 .pp = pipeline.degree,
                 .cp = context.degree * sequence.degree};
  const auto product = [&](const char* field, int value, std::vector<std::string_view> keys) {
    t.derive(field, Node::integer(value), keys, "within a node x across nodes");
  };
  product("parallel.tp", out.tp, {"ici_tensor_parallelism", "dcn_tensor_parallelism"});
  product("parallel.pp", out.pp, {"ici_pipeline_parallelism", "dcn_pipeline_parallelism"});
  product("parallel.cp", out.cp, {"ici_context_parallelism", "ici_sequence_parallelism"});
  product("parallel.ep", expert.degree, {"ici_expert_parallelism", "dcn_expert_parallelism"});
  t.derive("parallel.sequence_parallel", Node::boolean(tensor_sequence.degree > 1),
           {"ici_tensor_sequence_parallelism"},
           "activations cut over the sequence between products");
  const int shards = fsdp.degree * transposed.degree;
  if (shards == 1 && !fsdp.open) {
    t.put("sharding.stage", Node::string("none"), "ici_fsdp_parallelism");
  } else if (fsdp.open && data.degree > 1) {
    t.put("sharding.stage", Node::string("hsdp"), "ici_fsdp_parallelism");
    t.put("sharding.group", Node::integer(1), "ici_data_parallelism");
    t.follows.replicas = data.degree;
  } else if (!fsdp.open && (data.open || data.degree > 1)) {
    t.put("sharding.stage", Node::string("hsdp"), "ici_fsdp_parallelism",
          "copies over the data axis");
    t.put("sharding.group", Node::integer(shards), "ici_fsdp_parallelism");
  } else {
    t.put("sharding.stage", Node::string("zero3"), "ici_fsdp_parallelism");
  }
  if (!data.open && !fsdp.open && !tensor_sequence.open) {
    const double world =
        static_cast<double>(data.degree) * shards * out.tp * out.pp * out.cp * expert.degree;
    if (world > 1 && world < 1e7) t.follows.accelerators = static_cast<int>(world);
  }
  return out;
}

void read_batch(Translation& t, const Mesh& mesh) {
  const double device = t.number("per_device_batch_size").value_or(12);
  const int accumulate = t.integer("gradient_accumulation_steps").value_or(1);
  const double replica = device * mesh.tp * mesh.pp * mesh.cp;
  const auto pipelined = t.integer("num_pipeline_microbatches");
  double micro = replica;
  if (mesh.pp > 1) {
    // -1: as many as stages.
    const int count = pipelined && *pipelined > 0 ? *pipelined : mesh.pp;
    micro = replica / count;
  }
  if (micro < 1 || micro != std::floor(micro) || micro > 1e6 || accumulate < 1) {
    t.fail("per_device_batch_size",
           "a micro-batch of " + std::to_string(micro) + " sequences is not modelled",
           "choose per_device_batch_size so that a replica has whole sequences", "batch.micro");
    return;
  }
  t.put("batch.micro", Node::integer(static_cast<std::int64_t>(micro)), "per_device_batch_size",
        mesh.tp * mesh.pp * mesh.cp > 1 ? "times the devices of a replica" : "");
  t.derive("batch.global", Node::integer(static_cast<std::int64_t>(replica)),
           {"per_device_batch_size"}, "");
  t.follows.replica_sequences = replica * accumulate;
  if (!t.says("max_target_length")) {
    t.put("batch.sequence", Node::integer(2048), "max_target_length");
  }
}

void read_precision(Translation& t) {
  const std::string dtype = t.word("dtype").value_or("bfloat16");
  const std::string quantization = t.word("quantization").value_or("");
  static constexpr struct {
    const char* word;
    const char* recipe;
  } kRecipes[] = {{"fp8", "fp8-delayed"},
                  {"nanoo_fp8", "fp8-delayed"},
                  {"fp8_gpu", "fp8-delayed"},
                  {"fp8_full", "fp8-delayed"},
                  {"te_fp8_delayedscaling", "fp8-delayed"},
                  {"te_fp8_currentscaling", "fp8-current"},
                  {"te_mxfp8", "mxfp8"}};
  std::string recipe = dtype == "float32" ? "fp32" : "bf16";
  if (!quantization.empty() && quantization != "none") {
    std::vector<std::string> known;
    recipe.clear();
    for (const auto& [word, ours] : kRecipes) {
      known.emplace_back(word);
      if (quantization == word) recipe = ours;
    }
    if (recipe.empty()) {
      t.fail("quantization", "quantization `" + quantization + "` is not modelled",
             suggestion(quantization, known), "precision.recipe");
      return;
    }
    t.put("precision.recipe", Node::string(recipe), "quantization");
  } else {
    t.put("precision.recipe", Node::string(recipe), "dtype");
  }
  // The stored weights are all there is: optax updates them where they stand.
  const bool narrow = t.word("weight_dtype").value_or("float32") == "bfloat16";
  const auto mu = t.word("mu_dtype");
  const bool narrow_mu = mu && !mu->empty() ? *mu == "bfloat16" : narrow;
  t.put("framework.state.stores_fp32_parameters", Node::boolean(!narrow), "weight_dtype");
  t.put("framework.state.master_weights", Node::boolean(!narrow), "weight_dtype",
        narrow ? "bfloat16 is all there is of a parameter" : "");
  t.put("optimizer.exp_avg", Node::string(narrow_mu ? "bf16" : "fp32"), "mu_dtype",
        mu && !mu->empty() ? "" : "as weight_dtype");
  t.put("optimizer.exp_avg_sq", Node::string(narrow ? "bf16" : "fp32"), "weight_dtype");
  t.put("optimizer.main_gradient", Node::string(narrow ? "bf16" : "fp32"), "weight_dtype");
  t.put("precision.gradient_reduce", Node::string(narrow ? "bf16" : "fp32"), "weight_dtype");
}

// What each policy lets be made again. A policy names what it saves.
// Source: AI-Hypercomputer/maxtext src/MaxText/layers/decoders.py, get_remat_policy.
void read_recompute(Translation& t) {
  const std::string policy = t.word("remat_policy").value_or("full");
  static constexpr const char* kElementwise = "norm,rotary,activation,expert_activation";
  static const struct {
    const char* policy;
    std::string modules;
  } kPolicies[] = {
      {"minimal", std::string(kElementwise) + ",core_attention"},
      {"minimal_with_context", kElementwise},
      {"minimal_flash", kElementwise},
      {"save_dot_with_context_except_mlp", std::string(kElementwise) + ",mlp_in,expert_in"},
      {"save_dot_except_mlpwi", std::string(kElementwise) + ",core_attention,mlp_in,expert_in"},
      {"save_dot_except_mlp",
       std::string(kElementwise) + ",core_attention,mlp_in,mlp_out,expert_in,expert_out"},
      {"save_qkv_proj", std::string(kElementwise) +
                            ",core_attention,attention_out,mlp_in,mlp_out,expert_in,expert_out"},
      {"save_out_proj",
       std::string(kElementwise) + ",qkv,core_attention,mlp_in,mlp_out,expert_in,expert_out"},
  };
  if (policy == "full") {
    t.put("recompute.granularity", Node::string("full"), "remat_policy");
    return;
  }
  if (policy == "none") {
    t.put("recompute.granularity", Node::string("none"), "remat_policy");
    return;
  }
  std::vector<std::string> known = {"full", "none"};
  for (const auto& [name, modules] : kPolicies) {
    known.emplace_back(name);
    if (policy != name) continue;
    Node list = Node::sequence();
    for (std::string_view rest = modules; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(','));
      list.append(Node::string(std::string(word)));
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
    t.put("recompute.granularity", Node::string("selective"), "remat_policy");
    t.put("recompute.modules", std::move(list), "remat_policy", "what `" + policy + "` drops");
    return;
  }
  t.fail("remat_policy", "remat_policy `" + policy + "` is not modelled", suggestion(policy, known),
         "recompute.granularity");
}

}  // namespace

Result<JobRead> read_maxtext(const Node& root, const MaxtextSource& source) {
  Translation t(root, kMaxtextKeys, source.format, source.preset_root);
  t.assume("framework.profile", Node::string("maxtext"), "the profile of " + source.format);
  read_model(t);
  t.copy_rows();
  read_batch(t, read_mesh(t));
  read_precision(t);
  read_recompute(t);
  const double dropout = t.is_on("enable_dropout") ? t.number("dropout_rate").value_or(0) : 0;
  t.put("dropout.hidden", Node::number(dropout), "dropout_rate");
  const double capacity = t.number("capacity_factor").value_or(-1);
  if (capacity > 0) t.put("moe.capacity_factor", Node::number(capacity), "capacity_factor");
  // base.yml: sparse_matmul is true. Without it a capacity is kept by products with masks.
  const bool sparse = t.flag("sparse_matmul").value_or(true);
  if (!sparse && capacity > 0) t.put("moe.dispatcher", Node::string("einsum"), "sparse_matmul");
  t.assume("mtp.train", Node::boolean(false), "off unless mtp_num_layers is given");
  for (const char* key : {"optimizer_memory_host_offload", "parameter_memory_host_offload"}) {
    if (t.is_on(key)) {
      t.fail(key, "offloading to the host (`" + std::string(key) + "`) is not modelled here",
             "switch it off", "optimizer");
    }
  }
  return t.finish(source.name);
}

}  // namespace eratos::reader
