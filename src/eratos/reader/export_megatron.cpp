// A job as Megatron's flat arguments: megatron_model.cpp, _parallel.cpp and _training.cpp
// backwards.
#include <cstdint>
#include <string>
#include <utility>

#include "eratos/reader/export_job.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/reader/schedule_words.h"

namespace eratos::reader {

namespace {

using text::Node;

// The written job, every name spelt out, read by path.
class Written {
 public:
  explicit Written(const job::JobSpec& job)
      : tree_(job_to_node(job, {.model = true, .framework = true, .cluster = false})) {}

  const Node* at(const std::string& path) const {
    const Node* node = text::find_at(tree_, path);
    return node == nullptr || node->is_null() ? nullptr : node;
  }
  bool has(const std::string& path) const { return at(path) != nullptr; }
  std::string word(const std::string& path) const { return has(path) ? at(path)->raw() : ""; }
  std::int64_t count(const std::string& path) const {
    return has(path) ? at(path)->as_int64().value_or(0) : 0;
  }
  bool is_on(const std::string& path) const {
    return has(path) && at(path)->as_bool().value_or(false);
  }

 private:
  Node tree_;
};

struct Keys {
  const Written& job;
  Node out = Node::mapping();

  void copy(const char* key, const std::string& path) {
    if (const Node* value = job.at(path); value != nullptr) out.set(key, *value);
  }
  // As copy(), left out where it is 0 and Megatron takes that for "not given".
  void copy_some(const char* key, const std::string& path) {
    if (job.count(path) > 0) copy(key, path);
  }
  void put(const char* key, bool value) { out.set(key, Node::boolean(value)); }
  void put(const char* key, const std::string& value) { out.set(key, Node::string(value)); }
  void put(const char* key, std::int64_t value) { out.set(key, Node::integer(value)); }
};

void write_experts(Keys& keys) {
  const Written& job = keys.job;
  if (!job.has("model.moe")) return;
  keys.copy("num_experts", "model.moe.experts");
  keys.copy("moe_router_topk", "model.moe.top_k");
  keys.copy("moe_ffn_hidden_size", "model.moe.ffn");
  keys.copy_some("moe_shared_expert_intermediate_size", "model.moe.shared_ffn");
  if (job.is_on("model.moe.shared_gate")) keys.put("moe_shared_expert_gate", true);
  keys.put("moe_router_enable_expert_bias", job.is_on("model.moe.router_bias"));
  if (job.has("model.moe.groups")) {
    keys.copy("moe_router_num_groups", "model.moe.groups");
    keys.copy("moe_router_group_topk", "model.moe.top_groups");
  }
  if (const Node* pattern = job.at("model.moe.pattern"); pattern != nullptr) {
    std::string list;
    for (const Node& each : pattern->items()) list += (list.empty() ? "" : ", ") + each.raw();
    keys.put("moe_layer_freq", "[" + list + "]");
  } else {
    const std::int64_t first = job.count("model.moe.dense_layers_first");
    const std::int64_t rest = job.count("model.layers") - first;
    if (first > 0) {
      keys.put("moe_layer_freq",
               "([0]*" + std::to_string(first) + "+[1]*" + std::to_string(rest) + ")");
    } else {
      keys.put("moe_layer_freq", std::int64_t{1});
    }
  }
}

void write_attention(Keys& keys) {
  const Written& job = keys.job;
  const bool bias =
      job.is_on("model.mlp_bias") && (job.is_on("model.out_bias") || job.has("model.mla"));
  keys.put("add_bias_linear", bias);
  if (!bias && job.is_on("model.qkv_bias")) keys.put("add_qkv_bias", true);
  keys.put("qk_layernorm", job.is_on("model.qk_norm"));
  if (job.has("model.mla")) {
    keys.put("multi_latent_attention", true);
    keys.copy_some("q_lora_rank", "model.mla.q_lora_rank");
    keys.copy("kv_lora_rank", "model.mla.kv_lora_rank");
    keys.copy("qk_head_dim", "model.mla.qk_nope_head_dim");
    keys.copy("qk_pos_emb_head_dim", "model.mla.qk_rope_head_dim");
    keys.copy("v_head_dim", "model.mla.v_head_dim");
    return;
  }
  if (job.count("model.kv_heads") != job.count("model.heads")) {
    keys.put("group_query_attention", true);
    keys.copy("num_query_groups", "model.kv_heads");
  }
  keys.copy("kv_channels", "model.head_dim");
}

void write_model(Keys& keys) {
  const Written& job = keys.job;
  keys.copy("num_layers", "model.layers");
  keys.copy("hidden_size", "model.hidden");
  keys.copy("ffn_hidden_size", job.has("model.ffn") ? "model.ffn" : "model.moe.ffn");
  keys.copy("num_attention_heads", "model.heads");
  write_attention(keys);
  const std::string activation = job.word("model.activation");
  const bool gated = job.is_on("model.gated_mlp");
  if (gated && activation == "silu") keys.put("swiglu", true);
  if (gated && activation != "silu") keys.put("quick_geglu", true);
  if (activation == "squared_relu") keys.put("squared_relu", true);
  write_experts(keys);
  keys.copy_some("moe_latent_size", "model.moe.latent");
  if (job.has("model.mamba") && job.has("model.pattern")) {
    keys.copy("hybrid_override_pattern", "model.pattern");
    keys.copy("mamba_num_heads", "model.mamba.heads");
    keys.copy("mamba_head_dim", "model.mamba.head_dim");
    keys.copy("mamba_state_dim", "model.mamba.state");
    keys.copy("mamba_num_groups", "model.mamba.groups");
  }
  keys.put("normalization",
           std::string(job.word("model.norm") == "rmsnorm" ? "RMSNorm" : "LayerNorm"));
  const std::string position = job.word("model.position");
  keys.put("position_embedding_type", std::string(position == "learned" ? "learned_absolute"
                                                  : position == "none"  ? "none"
                                                                        : "rope"));
  keys.copy("max_position_embeddings",
            position == "learned" ? "model.max_sequence" : "batch.sequence");
  keys.put("untie_embeddings_and_output_weights", !job.is_on("model.tie_embeddings"));
  // Megatron takes the vocabulary from a tokenizer; this one is as long as it is told to be, less
  // the token that it adds for the end.
  // Source: NVIDIA/Megatron-LM megatron/training/tokenizer, _NullTokenizer.
  keys.put("tokenizer_type", std::string("NullTokenizer"));
  keys.put("vocab_size", job.count("model.vocab") - 1);
  keys.copy_some("mtp_num_layers", "model.mtp_layers");
}

void write_schedule(Keys& keys, bool primus) {
  const Written& job = keys.job;
  keys.copy_some("microbatch_group_size_per_vp_stage", "schedule.group_size");
  const std::string algorithm = job.word("schedule.algorithm");
  if (!primus || algorithm == "auto") return;
  const bool checked = job.is_on("schedule.post_validation");
  const std::string_view setup = zero_bubble_v_word(algorithm);
  if (algorithm == "zb-auto") {
    keys.put("patch_zero_bubble", true);
    keys.put("enable_zero_bubble", true);
    keys.copy_some("zero_bubble_max_pending_backward", "schedule.activation_limit");
    keys.put("enable_optimizer_post_validation", checked);
  } else if (checked && !setup.empty()) {  // Primus's own pipeline steps after a barrier
    keys.put("patch_zero_bubble", true);
    keys.put("zero_bubble_v_schedule", true);
    keys.put("zero_bubble_v_schedule_mem_setup", std::string(setup));
    keys.put("enable_optimizer_post_validation", true);
  } else if (const std::string_view word = primus_schedule_word(algorithm); !word.empty()) {
    keys.put("patch_primus_pipeline", true);
    keys.put("pp_algorithm", std::string(word));
  }
}

void write_parallel(Keys& keys, bool primus) {
  const Written& job = keys.job;
  keys.copy("tensor_model_parallel_size", "parallel.tp");
  keys.copy("pipeline_model_parallel_size", "parallel.pp");
  keys.copy("context_parallel_size", "parallel.cp");
  const std::string kind = job.word("parallel.cp_kind");
  keys.put("cp_comm_type", kind == "all_gather" ? std::string("allgather") : kind);
  keys.copy("expert_model_parallel_size", "parallel.ep");
  if (job.has("model.moe")) keys.copy("expert_tensor_parallel_size", "parallel.etp");
  keys.copy("sequence_parallel", "parallel.sequence_parallel");
  if (job.word("parallel.order") == "tp-cp-ep-pp-dp") keys.put("use_tp_pp_dp_mapping", true);
  if (job.has("parallel.layout")) {
    keys.copy("pipeline_model_parallel_layout", "parallel.layout");
  } else if (job.count("parallel.vpp") > 1) {
    keys.copy("num_virtual_stages_per_pipeline_rank", "parallel.vpp");
  }
  keys.copy_some("decoder_first_pipeline_num_layers", "parallel.first_stage_layers");
  keys.copy_some("decoder_last_pipeline_num_layers", "parallel.last_stage_layers");
  if (job.is_on("parallel.embedding_counts")) {
    keys.put("account_for_embedding_in_pipeline_split", true);
  }
  if (job.is_on("parallel.output_counts")) keys.put("account_for_loss_in_pipeline_split", true);
  const std::string stage = job.word("sharding.stage");
  if (stage == "zero1") keys.put("use_distributed_optimizer", true);
  if (stage == "zero2") {
    keys.put("use_megatron_fsdp", true);
    keys.put("data_parallel_sharding_strategy", std::string("optim_grads"));
  }
  if (stage == "zero3" || stage == "hsdp") keys.put("use_torch_fsdp2", true);
  write_schedule(keys, primus);
}

void write_precision(Keys& keys) {
  const Written& job = keys.job;
  const std::string recipe = job.word("precision.recipe");
  if (recipe == "fp16") keys.put("fp16", true);
  if (recipe != "fp16" && recipe != "fp32") keys.put("bf16", true);
  static constexpr struct {
    const char* recipe;
    const char* key;
    const char* format;
    const char* name;
  } kNarrow[] = {{"fp8-delayed", "fp8", "hybrid", "delayed"},
                 {"fp8-current", "fp8", "hybrid", "tensorwise"},
                 {"fp8-blockwise", "fp8", "e4m3", "blockwise"},
                 {"mxfp8", "fp8", "e4m3", "mxfp8"},
                 {"mxfp4", "fp4", "e2m1", "mxfp4"},
                 {"nvfp4", "fp4", "e2m1", "nvfp4"}};
  for (const auto& n : kNarrow) {
    if (recipe != n.recipe) continue;
    keys.put(n.key, std::string(n.format));
    keys.put((std::string(n.key) + "_recipe").c_str(), std::string(n.name));
  }
  if (job.is_on("precision.parameter_gather")) keys.put("fp8_param_gather", true);
  if (job.is_on("precision.narrow_attention")) keys.put("fp8_dot_product_attention", true);
  if (job.is_on("precision.narrow_output_layer")) keys.put("fp8_output_proj", true);
  if (job.count("precision.bf16_first_layers") + job.count("precision.bf16_last_layers") > 0) {
    keys.put("first_last_layers_bf16", true);
    keys.copy("num_layers_at_start_in_bf16", "precision.bf16_first_layers");
    keys.copy("num_layers_at_end_in_bf16", "precision.bf16_last_layers");
  }
  const bool narrow_gradients = job.word("optimizer.main_gradient") == "bf16";
  if (narrow_gradients) {
    keys.put("grad_reduce_in_bf16", true);
    keys.put("accumulate_allreduce_grads_in_fp32", false);
  } else if (recipe == "fp16" && job.word("optimizer.main_gradient") == "fp32") {
    keys.put("accumulate_allreduce_grads_in_fp32", true);
  }
}

void write_optimizer(Keys& keys) {
  const Written& job = keys.job;
  keys.copy("optimizer", "optimizer.kind");
  const Node* offloaded = job.at("offload.optimizer");
  if (offloaded != nullptr && offloaded->as_double().value_or(0) > 0) {
    keys.put("optimizer_cpu_offload", true);
    keys.copy("optimizer_offload_fraction", "offload.optimizer");
  }
  if (job.count("offload.layers") > 0) {
    keys.put("cpu_offloading", true);
    keys.copy("cpu_offloading_num_layers", "offload.layers");
  }
  if (!job.is_on("optimizer.precision_aware")) return;
  keys.put("use_precision_aware_optimizer", true);
  keys.copy("main_params_dtype", "optimizer.main_parameter");
  keys.copy("exp_avg_dtype", "optimizer.exp_avg");
  keys.copy("exp_avg_sq_dtype", "optimizer.exp_avg_sq");
  if (job.word("optimizer.main_gradient") == "bf16") {
    keys.put("main_grads_dtype", std::string("bf16"));
  }
}

// Megatron's names of modules; each stands for all modules of a row.
// Source: NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py, recompute_modules.
constexpr struct {
  const char* name;
  const char* modules;  // between blanks
} kRecomputed[] = {
    {"moe", " router dispatch expert_in expert_activation expert_out combine shared_expert "},
    {"mlp", " mlp_in activation mlp_out "},
    {"core_attn", " core_attention "},
    {"moe_act", " expert_activation "},
    {"layernorm", " norm "},
    {"mla_up_proj", " mla_up "},
    {"shared_experts", " shared_expert "},
};

void write_recompute(Keys& keys) {
  const Written& job = keys.job;
  const std::string granularity = job.word("recompute.granularity");
  if (granularity == "none") return;
  keys.put("recompute_granularity", granularity);
  if (granularity == "selective") {
    std::string left = " ";
    for (const Node& each : job.at("recompute.modules")->items()) left += each.raw() + ' ';
    Node names = Node::sequence();
    for (const auto& row : kRecomputed) {
      std::string rest = left;
      bool all = true;
      const std::string modules = row.modules;
      for (std::size_t at = 1; at < modules.size();) {
        const std::size_t end = modules.find(' ', at);
        const std::string word = ' ' + modules.substr(at, end - at) + ' ';
        const std::size_t found = rest.find(word);
        all = all && found != std::string::npos;
        if (found != std::string::npos) rest.replace(found, word.size(), " ");
        at = end + 1;
      }
      if (!all) continue;
      names.append(Node::string(row.name));
      left = rest;
    }
    keys.out.set("recompute_modules", std::move(names));
    return;
  }
  const Node* ids = job.at("recompute.layer_ids");
  if (ids != nullptr && ids->size() > 0) {
    keys.out.set("recompute_layer_ids", *ids);
    return;
  }
  keys.copy("recompute_method", "recompute.method");
  keys.copy("recompute_num_layers", "recompute.layers");
}

void write_overlap(Keys& keys) {
  const Written& job = keys.job;
  const std::string stage = job.word("sharding.stage");
  if (stage != "zero3" && stage != "hsdp") {
    keys.copy("overlap_grad_reduce", "overlap.grad_reduce");
    keys.copy("overlap_param_gather", "overlap.param_gather");
  }
  if (job.is_on("overlap.tp")) keys.put("tp_comm_overlap", true);
  if (job.is_on("overlap.moe_a2a")) keys.put("overlap_moe_expert_parallel_comm", true);
  keys.copy("overlap_p2p_comm", "overlap.p2p");
}

void write_kernels(Keys& keys) {
  const Written& job = keys.job;
  if (job.has("model.moe")) {
    const std::string dispatcher = job.word("moe.dispatcher");
    const bool flex = dispatcher == "deepep" || dispatcher == "hybridep";
    keys.put("moe_token_dispatcher_type", flex ? std::string("flex") : dispatcher);
    if (dispatcher == "deepep") keys.put("moe_enable_deepep", true);
    if (dispatcher == "hybridep") keys.put("moe_flex_dispatcher_backend", dispatcher);
    keys.copy("moe_expert_capacity_factor", "moe.capacity_factor");
    if (job.is_on("moe.pad_to_capacity")) keys.put("moe_pad_expert_input_to_capacity", true);
    if (job.count("moe.row_multiple") > 0) keys.put("moe_router_padding_for_quantization", true);
    keys.put("moe_router_force_load_balancing", job.word("moe.routing") == "balanced");
  } else if (job.word("moe.dispatcher") != "allgather") {
    keys.put("moe_token_dispatcher_type", job.word("moe.dispatcher"));
  }
  keys.put("attention_backend",
           job.word("attention.implementation") == "flash" ? std::string("auto") : "unfused");
  keys.copy("cross_entropy_loss_fusion", "loss.fused");
  keys.copy("hidden_dropout", "dropout.hidden");
  keys.copy("attention_dropout", "dropout.attention");
  const Node* share = job.at("graphs.share");
  const double graphs = share == nullptr ? 0 : share->as_double().value_or(0);
  const Node* modules = job.at("graphs.modules");
  const bool part = modules != nullptr && !modules->items().empty();
  if (graphs > 0 || part) {
    keys.put("enable_cuda_graph", true);
    keys.put("cuda_graph_scope", std::string(graphs < 1 ? "attn" : "full"));
  }
  const std::string f = "framework.fusions.";
  keys.copy(job.is_on("model.gated_mlp") && job.word("model.activation") == "silu"
                ? "bias_swiglu_fusion"
                : "bias_gelu_fusion",
            f + "activation");
  keys.copy("apply_rope_fusion", f + "rotary");
  keys.copy("masked_softmax_fusion", f + "softmax");
  keys.copy("bias_dropout_fusion", f + "residual");
  keys.copy("moe_permute_fusion", f + "permute");
  keys.copy("moe_router_fusion", f + "router");
  keys.copy("moe_grouped_gemm", f + "grouped_gemm");
  keys.copy("gradient_accumulation_fusion", "framework.state.wgrad_fused_accumulation");
  keys.copy("make_vocab_size_divisible_by", "framework.vocab_divisible_by");
}

}  // namespace

Node megatron_keys_of(const job::JobSpec& job, bool primus) {
  const Written written(job);
  Keys keys{written};
  write_parallel(keys, primus);
  keys.copy("micro_batch_size", "batch.micro");
  keys.copy("global_batch_size", "batch.global");
  keys.copy("seq_length", "batch.sequence");
  write_precision(keys);
  write_recompute(keys);
  write_overlap(keys);
  write_optimizer(keys);
  write_model(keys);
  write_kernels(keys);
  return std::move(keys.out);
}

}  // namespace eratos::reader
