// Batch, numerics, recomputation, optimizer, overlap and kernels from Megatron's keys.
#include <cctype>
#include <string>
#include <vector>

#include "eratos/job/optimizer.h"
#include "eratos/reader/graph_scopes.h"
#include "eratos/reader/megatron_job.h"

namespace eratos::reader {

namespace {

using job::Granularity;
using job::Recipe;
using ops::Module;
using text::Node;

void read_batch(MegatronKeys& keys, job::JobSpec& job) {
  job.batch.micro = keys.integer("micro_batch_size").value_or(1);
  keys.note("batch.micro", "micro_batch_size");
  const auto global = keys.integer("global_batch_size");
  if (global) {
    job.batch.global = *global;
  } else if (!keys.is_open("global_batch_size")) {
    keys.fail("global_batch_size", "`global_batch_size` is missing",
              "Megatron would take one micro-batch a data-parallel rank; say how many sequences "
              "a step has",
              "batch.global");
  }
  keys.note("batch.global", "global_batch_size");
  const auto sequence = keys.integer("seq_length");
  if (sequence) {
    job.batch.sequence = *sequence;
  } else if (!keys.is_open("seq_length")) {
    keys.fail("seq_length", "`seq_length` is missing", "set it", "batch.sequence");
  }
  keys.note("batch.sequence", "seq_length");
  if (keys.node("rampup_batch_size") != nullptr) {
    keys.warn("batch", "`rampup_batch_size` is left out: the projection is of the full batch",
              "rampup_batch_size");
  }
}

void read_precision(MegatronKeys& keys, job::JobSpec& job) {
  const bool bf16 = keys.is_on("bf16");
  const bool fp16 = keys.is_on("fp16");
  if (bf16 && fp16) {
    keys.fail("fp16", "`fp16` and `bf16` are both on", "switch one of them off",
              "precision.recipe");
  }
  job.precision = fp16 ? Recipe::fp16 : bf16 ? Recipe::bf16 : Recipe::fp32;
  keys.note("precision.recipe", fp16 ? "fp16" : "bf16");
  const auto fp8 = keys.word("fp8");
  const std::string fp8_recipe = keys.word("fp8_recipe").value_or("delayed");
  const auto fp4 = keys.word("fp4");
  const std::string fp4_recipe = keys.word("fp4_recipe").value_or("nvfp4");
  if (fp8 && *fp8 != "false") {
    // Names: NVIDIA/Megatron-LM megatron/core/enums.py, Fp8Recipe.
    static constexpr struct {
      const char* name;
      Recipe recipe;
    } kRecipes[] = {{"delayed", Recipe::fp8_delayed},
                    {"tensorwise", Recipe::fp8_current},
                    {"blockwise", Recipe::fp8_blockwise},
                    {"mxfp8", Recipe::mxfp8}};
    bool found = false;
    for (const auto& [name, recipe] : kRecipes) {
      if (fp8_recipe != name) continue;
      job.precision = recipe;
      found = true;
    }
    if (!found) {
      keys.fail("fp8_recipe", "`fp8_recipe` cannot be `" + fp8_recipe + "`",
                "it is one of delayed, tensorwise, blockwise or mxfp8", "precision.recipe");
    }
    keys.note("precision.recipe", "fp8", "fp8 with fp8_recipe " + fp8_recipe);
  }
  if (fp4 && *fp4 != "false") {
    job.precision = fp4_recipe == "mxfp4" ? Recipe::mxfp4 : Recipe::nvfp4;
    keys.note("precision.recipe", "fp4", "fp4 with fp4_recipe " + fp4_recipe);
    if (fp8 && *fp8 != "false") {
      keys.fail("fp4", "`fp4` and `fp8` are both on", "switch one of them off", "precision.recipe");
    }
  }
  if (!job::is_narrow(job.precision)) return;
  if (keys.is_on("fp8_param_gather")) {
    job.narrow.parameter_gather = true;
    keys.note("precision.parameter_gather", "fp8_param_gather");
  }
  job.narrow.attention = keys.is_on("fp8_dot_product_attention");
  keys.note("precision.narrow_attention", "fp8_dot_product_attention");
  job.narrow.output_layer = keys.is_on("fp8_output_proj");
  keys.note("precision.narrow_output_layer", "fp8_output_proj");
  if (keys.is_on("first_last_layers_bf16")) {
    // Source: NVIDIA/Megatron-LM core/transformer/transformer_config.py: one layer at either end.
    job.narrow.bf16_first_layers = keys.integer("num_layers_at_start_in_bf16").value_or(1);
    job.narrow.bf16_last_layers = keys.integer("num_layers_at_end_in_bf16").value_or(1);
    keys.note("precision.bf16_first_layers", "num_layers_at_start_in_bf16");
    keys.note("precision.bf16_last_layers", "num_layers_at_end_in_bf16");
  }
}

// Megatron turns fp32 accumulation on by itself for bf16, unless told to reduce in bf16 or to hold
// main gradients in another format, whatever accumulate_allreduce_grads_in_fp32 reads before.
// Source: NVIDIA/Megatron-LM megatron/training/arguments.py, validate_args.
void read_gradients(MegatronKeys& keys, job::JobSpec& job) {
  const bool bf16 = keys.is_on("bf16");
  const bool fp16 = keys.is_on("fp16");
  const bool asked = keys.is_on("accumulate_allreduce_grads_in_fp32");
  const bool reduce_bf16 = keys.is_on("grad_reduce_in_bf16");
  const DType main = keys.dtype("main_grads_dtype").value_or(DType::fp32);
  const bool aware = keys.is_on("use_precision_aware_optimizer");
  const bool promoted = bf16 && !reduce_bf16 && main == DType::fp32;
  const bool wide = asked || promoted || (!bf16 && !fp16);
  job.optimizer.main_gradient = wide ? DType::fp32 : fp16 ? DType::fp16 : DType::bf16;
  job.gradient_reduce_bf16 = !wide;
  const char* rule = promoted ? "bf16 without grad_reduce_in_bf16: fp32 accumulation"
                     : wide   ? "fp32 accumulation"
                              : "the gradient buffer has the parameters' format";
  const std::vector<std::string_view> from =
      reduce_bf16 ? std::vector<std::string_view>{"grad_reduce_in_bf16"}
                  : std::vector<std::string_view>{"main_grads_dtype", "bf16"};
  keys.derive("optimizer.main_gradient", from, rule);
  keys.derive("precision.gradient_reduce", from, rule);
  const auto first = keys.dtype("exp_avg_dtype");
  const auto second = keys.dtype("exp_avg_sq_dtype");
  const auto master = keys.dtype("main_params_dtype");
  job.optimizer.precision_aware = aware;
  keys.note("optimizer.precision_aware", "use_precision_aware_optimizer");
  keys.note("optimizer.exp_avg", "exp_avg_dtype");
  keys.note("optimizer.exp_avg_sq", "exp_avg_sq_dtype");
  keys.note("optimizer.main_parameter", "main_params_dtype");
  job.optimizer.exp_avg = first.value_or(DType::fp32);
  job.optimizer.exp_avg_sq = second.value_or(DType::fp32);
  job.optimizer.main_parameter = master.value_or(DType::fp32);
  if (aware) return;
  // Source: NVIDIA/Megatron-LM megatron/training/arguments.py: these need the precision-aware
  // optimizer.
  for (const char* key :
       {"main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"}) {
    if (keys.dtype(key).value_or(DType::fp32) != DType::fp32) {
      keys.fail(key,
                "`" + std::string(key) +
                    "` other than fp32 without "
                    "use_precision_aware_optimizer: Megatron refuses it",
                "set use_precision_aware_optimizer: true, or " + std::string(key) + ": fp32",
                "optimizer.precision_aware");
    }
  }
}

// Megatron's names of what can be recomputed selectively.
// Source: NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py, recompute_modules.
bool add_modules(const std::string& name, job::ModuleSet& set) {
  static const struct {
    const char* name;
    std::vector<Module> modules;
  } kModules[] = {
      {"core_attn", {Module::core_attention}},
      {"moe_act", {Module::expert_activation}},
      {"layernorm", {Module::norm}},
      {"mla_up_proj", {Module::mla_up}},
      {"mlp", {Module::mlp_in, Module::activation, Module::mlp_out}},
      {"shared_experts", {Module::shared_expert}},
      {"moe",
       {Module::router, Module::dispatch, Module::expert_in, Module::expert_activation,
        Module::expert_out, Module::combine, Module::shared_expert}},
  };
  for (const auto& [known, modules] : kModules) {
    if (name != known) continue;
    for (const Module module : modules) set.set(static_cast<std::size_t>(module));
    return true;
  }
  return false;
}

std::vector<int> layer_ids_of(MegatronKeys& keys) {
  std::vector<int> out;
  const Node* node = keys.node("recompute_layer_ids");
  if (node == nullptr) return out;
  if (node->is_sequence()) {
    for (const Node& item : node->items()) {
      if (auto id = item.as_int64("recompute_layer_ids"); id) {
        out.push_back(static_cast<int>(*id));
      } else {
        keys.take(id.error().front());
      }
    }
    return out;
  }
  std::string word;
  for (const char c : node->raw() + ",") {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0 && word.size() < 7) {
      word += c;
    } else if (c == ',' && !word.empty()) {
      out.push_back(std::stoi(word));
      word.clear();
    } else if (c != ',' && c != ' ') {
      keys.fail("recompute_layer_ids", "`recompute_layer_ids` is no list of layer numbers",
                "write 0,3,4", "recompute.layer_ids");
      return {};
    }
  }
  return out;
}

void read_recompute(MegatronKeys& keys, job::JobSpec& job) {
  job::RecomputeSpec& r = job.recompute;
  const std::string granularity = keys.word("recompute_granularity").value_or("");
  const auto method = keys.word("recompute_method");
  const auto layers = keys.integer("recompute_num_layers");
  const bool selective = keys.is_on("recompute_activations");
  r.layer_ids = layer_ids_of(keys);
  std::vector<std::string> modules;
  if (const Node* node = keys.node("recompute_modules"); node != nullptr) {
    for (const Node& item : node->items()) modules.push_back(item.raw());
  }
  if (keys.is_on("moe_layer_recompute")) modules.emplace_back("moe");
  if (keys.is_on("distribute_saved_activations")) {
    keys.warn("recompute", "`distribute_saved_activations` is not modelled",
              "distribute_saved_activations");
  }
  for (const char* path : {"granularity", "method", "layers", "layer_ids", "modules"}) {
    const std::string key =
        std::string("recompute_") + (std::string_view(path) == "layers" ? "num_layers" : path);
    keys.note(std::string("recompute.") + path, key);
  }
  if (granularity.empty() && !selective && modules.empty()) {
    r.layer_ids.clear();
    return;
  }
  if (granularity == "selective" || granularity.empty()) {
    r.granularity = Granularity::selective;
    if (modules.empty()) modules.emplace_back("core_attn");
    for (const std::string& name : modules) {
      if (!add_modules(name, r.modules)) {
        keys.fail("recompute_modules", "unknown module `" + name + "`",
                  "known: core_attn, moe_act, layernorm, mla_up_proj, mlp, moe or shared_experts",
                  "recompute.modules");
      }
    }
    return;
  }
  if (granularity != "full") {
    keys.fail("recompute_granularity", "`recompute_granularity` cannot be `" + granularity + "`",
              "it is full or selective", "recompute.granularity");
    return;
  }
  r.granularity = Granularity::full;
  if (!r.layer_ids.empty()) {
    // Source: AMD-AGI/Primus@fd1eeabb primus_megatron_module.yaml, recompute_layer_ids.
    if (method) {
      keys.fail("recompute_layer_ids", "`recompute_layer_ids` beside `recompute_method`",
                "set recompute_method: null", "recompute.layer_ids");
    }
    return;
  }
  if (!method || (*method != "uniform" && *method != "block")) {
    keys.fail(method ? "recompute_method" : "recompute_granularity",
              method ? "`recompute_method` cannot be `" + *method + "`"
                     : "`recompute_granularity: full` without `recompute_method`",
              "it is uniform or block", "recompute.method");
    return;
  }
  if (!layers) {
    keys.fail("recompute_method", "`recompute_granularity: full` without `recompute_num_layers`",
              "say how many layers", "recompute.layers");
    return;
  }
  r.method = *method == "block" ? job::RecomputeMethod::block : job::RecomputeMethod::uniform;
  r.layers = *layers;
  if (r.method == job::RecomputeMethod::block && r.layers == 0) {
    keys.note("recompute.granularity", "recompute_granularity", "block of 0 layers: none is");
  }
}

void read_optimizer(MegatronKeys& keys, job::JobSpec& job) {
  const std::string kind = keys.word("optimizer").value_or("adam");
  keys.note("optimizer.kind", "optimizer");
  job.optimizer.kind = kind;
  if (job::find_optimizer(kind) == nullptr) {
    keys.fail("optimizer", "optimizer `" + kind + "` is not modelled",
              "use adam, adamw, adam8bit, sgd, lion, adafactor, muon or lamb", "optimizer.kind");
  }
  if (keys.is_on("optimizer_cpu_offload")) {
    // Source: NVIDIA/Megatron-LM megatron/training/arguments.py, --optimizer-offload-fraction.
    job.offload.optimizer = keys.number("optimizer_offload_fraction").value_or(1.0);
    keys.note("offload.optimizer", "optimizer_cpu_offload");
  }
  if (keys.is_on("cpu_offloading")) {
    job.offload.layers = keys.integer("cpu_offloading_num_layers").value_or(0);
    keys.note("offload.layers", "cpu_offloading_num_layers");
  }
  if (keys.is_on("cpu_offload")) {
    keys.fail("cpu_offload", "offloading of parameters (`cpu_offload`) is not modelled",
              "switch it off; optimizer_cpu_offload and cpu_offloading are", "optimizer");
  }
}

void read_overlap(MegatronKeys& keys, job::JobSpec& job) {
  const bool reduce = keys.is_on("overlap_grad_reduce");
  const bool gather = keys.is_on("overlap_param_gather");
  keys.note("overlap.grad_reduce", "overlap_grad_reduce");
  keys.note("overlap.param_gather", "overlap_param_gather");
  job.overlap.grad_reduce = reduce;
  job.overlap.param_gather = gather;
  const bool fsdp = job.parallel.sharding == parallel::Sharding::zero3;
  if (fsdp) {
    job.overlap.grad_reduce = true;
    job.overlap.param_gather = true;
    keys.derive("overlap.grad_reduce", {"use_torch_fsdp2"}, "FSDP reduces in the background");
    keys.derive("overlap.param_gather", {"use_torch_fsdp2"}, "FSDP prefetches");
  } else if (gather) {
    // Source: NVIDIA/Megatron-LM megatron/training/arguments.py, validate_args.
    if (job.parallel.sharding == parallel::Sharding::none) {
      keys.fail("overlap_param_gather",
                "`overlap_param_gather` without `use_distributed_optimizer`: Megatron refuses it",
                "set use_distributed_optimizer: true, or overlap_param_gather: false",
                "overlap.param_gather");
    } else if (!reduce) {
      keys.fail("overlap_param_gather",
                "`overlap_param_gather` without `overlap_grad_reduce`: Megatron refuses it",
                "set overlap_grad_reduce: true", "overlap.param_gather");
    }
  }
  job.overlap.tp = keys.is_on("tp_comm_overlap");
  keys.note("overlap.tp", "tp_comm_overlap");
  job.overlap.moe_a2a = keys.is_on("overlap_moe_expert_parallel_comm");
  keys.note("overlap.moe_a2a", "overlap_moe_expert_parallel_comm");
  job.overlap.p2p = keys.flag("overlap_p2p_comm").value_or(true);
  keys.note("overlap.p2p", "overlap_p2p_comm");
}

void read_routing(MegatronKeys& keys, job::JobSpec& job) {
  using job::Dispatcher;
  const std::string word = keys.word("moe_token_dispatcher_type").value_or("allgather");
  const bool deepep = keys.is_on("moe_enable_deepep");
  const std::string backend = keys.word("moe_flex_dispatcher_backend").value_or("");
  const bool turbo = keys.is_on("enable_primus_turbo");
  const bool turbo_deepep = keys.is_on("use_turbo_deepep");
  const bool moe = keys.integer("num_experts").value_or(0) > 0;
  keys.note("moe.dispatcher", "moe_token_dispatcher_type");
  job.routing.dispatcher = Dispatcher::alltoall;
  if (word == "allgather") {
    job.routing.dispatcher = Dispatcher::allgather;
  } else if (word == "flex") {
    job.routing.dispatcher = backend == "hybridep" ? Dispatcher::hybridep : Dispatcher::deepep;
  } else if (word != "alltoall" && word != "alltoall_seq") {
    keys.fail("moe_token_dispatcher_type", "unknown dispatcher `" + word + "`",
              "it is one of alltoall, allgather or flex", "moe.dispatcher");
  }
  if (deepep) {
    job.routing.dispatcher = Dispatcher::deepep;
    keys.note("moe.dispatcher", "moe_enable_deepep");
  }
  if (turbo && turbo_deepep) {
    job.routing.dispatcher = Dispatcher::deepep;
    keys.note("moe.dispatcher", "use_turbo_deepep",
              "replaces moe_token_dispatcher_type at run time");
  }
  job.routing.capacity_factor = keys.number("moe_expert_capacity_factor").value_or(0);
  keys.note("moe.capacity_factor", "moe_expert_capacity_factor");
  job.routing.pad_to_capacity = keys.is_on("moe_pad_expert_input_to_capacity");
  keys.note("moe.pad_to_capacity", "moe_pad_expert_input_to_capacity");
  for (const char* key : {"moe_router_padding_for_quantization", "moe_router_padding_for_fp8"}) {
    if (!keys.is_on(key)) continue;
    job.routing.row_multiple = job::row_multiple(job.precision);
    keys.note("moe.row_multiple", key);
  }
  const bool balanced = keys.is_on("moe_router_force_load_balancing");
  keys.note("moe.routing", "moe_router_force_load_balancing");
  if (moe && !balanced) {
    keys.warn("routing", "the router is free to be uneven; projected as balanced",
              "moe_router_force_load_balancing");
  }
}

void read_kernels(MegatronKeys& keys, job::JobSpec& job) {
  const std::string backend = keys.word("attention_backend").value_or("auto");
  const bool local = keys.word("transformer_impl").value_or("transformer_engine") == "local";
  const bool flash = keys.flag("use_flash_attn").value_or(false);
  const bool turbo = keys.is_on("enable_primus_turbo") && keys.is_on("use_turbo_attention");
  const bool unfused = !turbo && (backend == "unfused" || backend == "local" || (local && !flash));
  job.attention = unfused ? layer::AttentionKernel::unfused : layer::AttentionKernel::flash;
  keys.note("attention.implementation", "attention_backend");

  job.loss_fused = keys.is_on("cross_entropy_loss_fusion");
  (void)keys.word("cross_entropy_fusion_impl");
  keys.note("loss.fused", "cross_entropy_loss_fusion");
  job.hidden_dropout = keys.number("hidden_dropout").value_or(0.1);
  job.attention_dropout = keys.number("attention_dropout").value_or(0.1);
  keys.note("dropout.hidden", "hidden_dropout");
  keys.note("dropout.attention", "attention_dropout");
  job.mtp = true;
  keys.note("mtp.train", "mtp_num_layers");

  // Assumes: a graph of whole layers leaves no launch to the host.
  const bool graphs = keys.is_on("enable_cuda_graph") || keys.is_on("external_cuda_graph");
  const std::string scope = keys.word("cuda_graph_scope").value_or("full");
  const bool part = graphs && add_graph_scope(scope, job.graph_modules);
  job.graph_share = !graphs || part ? 0.0 : 1.0;
  keys.note(part ? "graphs.modules" : "graphs.share", "enable_cuda_graph",
            graphs ? "scope " + scope : "");
}

// Switches of single kernels change the profile's fields of the same meaning.
void read_profile(MegatronKeys& keys, job::JobSpec& job) {
  framework::FrameworkProfile& f = job.framework;
  const auto change = [&](const char* key, const char* path, bool& field) {
    if (const auto value = keys.flag(key)) {
      field = *value;
      keys.note(std::string("framework.") + path, key);
    }
  };
  const bool gated = keys.is_on("swiglu");
  change(gated ? "bias_swiglu_fusion" : "bias_gelu_fusion", "fusions.activation",
         f.fusions.activation);
  change("apply_rope_fusion", "fusions.rotary", f.fusions.rotary);
  change("masked_softmax_fusion", "fusions.softmax", f.fusions.softmax);
  change("bias_dropout_fusion", "fusions.residual", f.fusions.residual);
  change("moe_permute_fusion", "fusions.permute", f.fusions.permute);
  change("moe_router_fusion", "fusions.router", f.fusions.router);
  change("moe_use_fused_router_with_aux_score", "fusions.router", f.fusions.router);
  change("moe_grouped_gemm", "fusions.grouped_gemm", f.fusions.grouped_gemm);
  change("gradient_accumulation_fusion", "state.wgrad_fused_accumulation",
         f.state.wgrad_fused_accumulation);
  if (!f.state.wgrad_fused_accumulation && f.state.gradient_placeholders) {
    f.state.gradient_placeholders = false;
    keys.derive("framework.state.gradient_placeholders", {"gradient_accumulation_fusion"},
                "only a fused product leaves placeholders");
  }
  if (const auto multiple = keys.integer("make_vocab_size_divisible_by")) {
    f.vocab_divisible_by = *multiple;
    keys.note("framework.vocab_divisible_by", "make_vocab_size_divisible_by");
    if (*multiple < 1) {
      keys.fail("make_vocab_size_divisible_by", "`make_vocab_size_divisible_by` is below 1",
                "use 1 for no padding", "framework.vocab_divisible_by");
      f.vocab_divisible_by = 1;
    }
  }
}

}  // namespace

void read_megatron_training(MegatronKeys& keys, job::JobSpec& job) {
  read_batch(keys, job);
  read_precision(keys, job);
  read_gradients(keys, job);
  read_recompute(keys, job);
  read_optimizer(keys, job);
  read_overlap(keys, job);
  read_routing(keys, job);
  read_kernels(keys, job);
  read_profile(keys, job);
}

}  // namespace eratos::reader
