// Degrees, layout, sharding and schedule from Megatron's keys.
#include <string>
#include <vector>

#include "eratos/reader/layout.h"
#include "eratos/reader/megatron_job.h"
#include "eratos/reader/schedule_words.h"

namespace eratos::reader {

namespace {

using parallel::Sharding;
using text::Node;

int degree(MegatronKeys& keys, const char* path, const char* key) {
  keys.note(path, key);
  return keys.integer(key).value_or(1);
}

// The layout as one string, whether it stands as a string or as a list of stages.
std::string layout_of(MegatronKeys& keys) {
  const Node* node = keys.node("pipeline_model_parallel_layout");
  if (node == nullptr) return {};
  if (node->is_scalar()) return node->raw();
  std::string out;
  for (const Node& stage : node->items()) out += (out.empty() ? "" : "|") + stage.raw();
  return out;
}

void read_layout(MegatronKeys& keys, job::JobSpec& job) {
  keys.note("parallel.layout", "pipeline_model_parallel_layout");
  const std::string text = layout_of(keys);
  if (!text.empty()) {
    auto layout = parse_layout(text);
    if (!layout) {
      for (const Diagnostic& d : layout.error()) {
        keys.fail("pipeline_model_parallel_layout", d.message, d.cure, d.field);
      }
      return;
    }
    job.layout.stages = std::move(layout->stages);
    job.layout.text = std::move(layout->text);
  }
  if (const Node* split = keys.node("decoder_pipeline_manual_split_list"); split != nullptr) {
    if (!job.layout.stages.empty()) {
      keys.fail("decoder_pipeline_manual_split_list",
                "`decoder_pipeline_manual_split_list` beside `pipeline_model_parallel_layout`",
                "keep one of them", "parallel.layout");
      return;
    }
    for (const Node& each : split->items()) {
      job.layout.stages.push_back(
          {.layers = static_cast<int>(each.as_int64("layers").value_or(0))});
    }
    if (!job.layout.stages.empty()) {
      job.layout.stages.front().embedding = true;
      job.layout.stages.back().output = true;
      job.layout.stages.back().mtp = job.model.mtp_layers;  // with the output, as without a layout
      job.layout.text = layout_text(job.layout.stages);
      keys.note("parallel.layout", "decoder_pipeline_manual_split_list", "layers of each stage");
    }
  }
}

void read_vpp(MegatronKeys& keys, job::JobSpec& job) {
  const auto given = keys.integer("virtual_pipeline_model_parallel_size");
  const auto layers = keys.integer("num_layers_per_virtual_pipeline_stage");
  const auto per_rank = keys.integer("num_virtual_stages_per_pipeline_rank");
  const int pp = job.parallel.pp;
  const int stages = static_cast<int>(job.layout.stages.size());
  if ((given ? 1 : 0) + (layers ? 1 : 0) + (per_rank ? 1 : 0) > 1) {
    keys.fail(
        given ? "virtual_pipeline_model_parallel_size" : "num_layers_per_virtual_pipeline_stage",
        "the number of virtual stages is given twice",
        "keep one of virtual_pipeline_model_parallel_size, "
        "num_layers_per_virtual_pipeline_stage and num_virtual_stages_per_pipeline_rank",
        "parallel.vpp");
    return;
  }
  if (stages > 0) {
    if (pp < 1 || stages % pp != 0) {
      keys.fail("pipeline_model_parallel_layout",
                "the layout has " + std::to_string(stages) +
                    " stages, which pp=" + std::to_string(pp) + " does not divide",
                "write pp times vpp stages", "parallel.layout");
      return;
    }
    job.parallel.vpp = stages / pp;
    keys.derive("parallel.vpp",
                {"pipeline_model_parallel_layout", "decoder_pipeline_manual_split_list"},
                std::to_string(stages) + " stages of the layout / pp " + std::to_string(pp));
    if (given && *given != job.parallel.vpp) {
      keys.fail("virtual_pipeline_model_parallel_size",
                "vpp is " + std::to_string(*given) + ", but the layout has " +
                    std::to_string(stages) + " stages for pp=" + std::to_string(pp),
                "remove one of them", "parallel.vpp");
    }
    return;
  }
  if (given) {
    job.parallel.vpp = *given;
    keys.note("parallel.vpp", "virtual_pipeline_model_parallel_size");
  } else if (per_rank) {
    job.parallel.vpp = *per_rank;
    keys.note("parallel.vpp", "num_virtual_stages_per_pipeline_rank");
  } else if (layers) {
    const int slice = *layers * pp;
    if (slice < 1 || job.model.layers() % slice != 0) {
      keys.fail("num_layers_per_virtual_pipeline_stage",
                std::to_string(*layers) + " layers a virtual stage and pp=" + std::to_string(pp) +
                    " do not divide " + std::to_string(job.model.layers()) + " layers",
                "choose a divisor", "parallel.vpp");
      return;
    }
    job.parallel.vpp = job.model.layers() / slice;
    keys.derive("parallel.vpp", {"num_layers_per_virtual_pipeline_stage"},
                "num_layers / (layers a virtual stage * pp)");
  } else {
    keys.note("parallel.vpp", "virtual_pipeline_model_parallel_size", {});
  }
}

void read_context(MegatronKeys& keys, job::JobSpec& job) {
  job.parallel.cp = degree(keys, "parallel.cp", "context_parallel_size");
  keys.note("parallel.cp_kind", "cp_comm_type");
  const Node* kind = keys.node("cp_comm_type");
  std::string word = "p2p";
  if (kind != nullptr && kind->is_sequence() && kind->size() > 0) word = kind->items()[0].raw();
  if (kind != nullptr && kind->is_scalar()) word = kind->raw();
  if (word == "p2p") {
    job.parallel.cp_kind = parallel::CpKind::p2p;
  } else if (word == "allgather" || word == "all_gather") {
    job.parallel.cp_kind = parallel::CpKind::all_gather;
  } else if (word == "a2a") {
    job.parallel.cp_kind = parallel::CpKind::a2a;
  } else {
    job.parallel.cp_kind = parallel::CpKind::p2p;
    if (job.parallel.cp > 1) {
      keys.warn("context-parallel", "`cp_comm_type: " + word + "` is projected as p2p",
                "cp_comm_type");
    }
  }
}

void read_sharding(MegatronKeys& keys, job::JobSpec& job) {
  const bool distributed = keys.is_on("use_distributed_optimizer");
  const bool fsdp2 = keys.is_on("use_torch_fsdp2");
  const bool megatron_fsdp = keys.is_on("use_megatron_fsdp") || keys.is_on("use_custom_fsdp");
  const std::string strategy = keys.word("data_parallel_sharding_strategy").value_or("no_shard");
  const int replicas = keys.integer("data_parallel_replicate_degree").value_or(1);
  const int instances = keys.integer("num_distributed_optimizer_instances").value_or(1);
  keys.note("sharding.group", "data_parallel_replicate_degree");
  if (fsdp2 && distributed) {
    // Source: NVIDIA/Megatron-LM megatron/training/arguments.py, validate_args.
    keys.fail("use_torch_fsdp2",
              "`use_torch_fsdp2` beside `use_distributed_optimizer`: "
              "Megatron refuses both together",
              "set use_distributed_optimizer: false, or use_torch_fsdp2: false", "sharding.stage");
    return;
  }
  if (fsdp2 && megatron_fsdp) {
    keys.fail("use_torch_fsdp2", "`use_torch_fsdp2` beside Megatron's own FSDP", "keep one of them",
              "sharding.stage");
    return;
  }
  if (fsdp2 || megatron_fsdp) {
    keys.note("sharding.stage",
              fsdp2                             ? "use_torch_fsdp2"
              : keys.is_on("use_megatron_fsdp") ? "use_megatron_fsdp"
                                                : "use_custom_fsdp",
              "parameters, gradients and optimizer sharded");
    job.parallel.sharding = Sharding::zero3;
    if (megatron_fsdp) {
      if (strategy == "no_shard") job.parallel.sharding = Sharding::none;
      if (strategy == "optim") job.parallel.sharding = Sharding::zero1;
      if (strategy == "optim_grads") job.parallel.sharding = Sharding::zero2;
      keys.note("sharding.stage", "data_parallel_sharding_strategy");
    }
    if (replicas > 1) {
      keys.fail("data_parallel_replicate_degree",
                "sharding with replicas: how many ranks share a copy depends on the cluster",
                "set data_parallel_replicate_degree: 1 and give sharding.stage=hsdp and "
                "sharding.group with --set",
                "sharding.group");
    }
    return;
  }
  job.parallel.sharding = distributed ? Sharding::zero1 : Sharding::none;
  keys.note("sharding.stage", "use_distributed_optimizer", "shards the optimizer state");
  if (instances > 1) {
    keys.warn("sharding", "`num_distributed_optimizer_instances` is projected as 1",
              "num_distributed_optimizer_instances");
  }
}

void read_schedule(MegatronKeys& keys, job::JobSpec& job) {
  job.schedule.group_size = keys.integer("microbatch_group_size_per_vp_stage").value_or(0);
  keys.note("schedule.group_size", "microbatch_group_size_per_vp_stage");
  job.schedule.algorithm = "auto";
  keys.note("schedule.algorithm", "pp_algorithm", "Megatron's own: 1F1B, interleaved with vpp > 1");
  const bool own = keys.is_on("patch_primus_pipeline");
  const std::string algorithm = keys.word("pp_algorithm").value_or("1f1b-interleaved");
  if (own && job.parallel.pp > 1) {
    // Its own 1F1B orders are Megatron's, which vpp chooses; a name that says the same is kept.
    if (algorithm == "1f1b" || algorithm == "1f1b-interleaved") {
      const bool said =
          keys.word("pp_algorithm") && (algorithm == "1f1b") == (job.parallel.vpp <= 1);
      if (said) job.schedule.algorithm = std::string(primus_schedule(algorithm));
      return;
    }
    const std::string_view ours = primus_schedule(algorithm);
    if (ours.empty()) {
      keys.fail(
          "pp_algorithm", "pipeline schedule `" + algorithm + "` is not modelled",
          "use 1f1b, 1f1b-interleaved, zero-bubble, zero-bubble-heuristic, zbv-formatted, v-half "
          "or v-min");
      return;
    }
    job.schedule.algorithm = std::string(ours);
    keys.note("schedule.algorithm", "pp_algorithm");
    return;
  }
  const bool zero_bubble = keys.is_on("patch_zero_bubble");
  const bool enabled = keys.is_on("enable_zero_bubble");
  const bool v_schedule = keys.is_on("zero_bubble_v_schedule");
  const std::string setup = keys.word("zero_bubble_v_schedule_mem_setup").value_or("half");
  const std::string pending = keys.word("zero_bubble_max_pending_backward").value_or("auto");
  const bool post_validation = keys.is_on("enable_optimizer_post_validation");
  if (!zero_bubble || !(enabled || v_schedule) || job.parallel.pp == 1) return;
  if (v_schedule) {
    const std::string_view ours = zero_bubble_v(setup);
    if (ours.empty()) {
      keys.fail("zero_bubble_v_schedule_mem_setup",
                "`zero_bubble_v_schedule_mem_setup` cannot be `" + setup + "`",
                "it is min, half or zb", "schedule.algorithm");
      return;
    }
    job.schedule.algorithm = std::string(ours);
    keys.note("schedule.algorithm", "zero_bubble_v_schedule_mem_setup");
  } else {
    job.schedule.algorithm = "zb-auto";
    keys.note("schedule.algorithm", "patch_zero_bubble");
    int limit = job.parallel.pp;
    if (pending != "auto") limit = std::atoi(pending.c_str());
    if (pending == "auto") {
      keys.warn("schedule.activation_limit",
                "a limit found from the memory left at run time is projected as pp micro-batches",
                "zero_bubble_max_pending_backward");
    }
    job.schedule.activation_limit = std::max(limit, 0);
    keys.note("schedule.activation_limit", "zero_bubble_max_pending_backward");
  }
  job.schedule.post_validation = post_validation;
  keys.note("schedule.post_validation", "enable_optimizer_post_validation");
}

}  // namespace

void read_megatron_parallel(MegatronKeys& keys, job::JobSpec& job) {
  parallel::ParallelSpec& p = job.parallel;
  p.tp = degree(keys, "parallel.tp", "tensor_model_parallel_size");
  p.pp = degree(keys, "parallel.pp", "pipeline_model_parallel_size");
  read_context(keys, job);
  p.ep = degree(keys, "parallel.ep", "expert_model_parallel_size");
  p.sequence_parallel = keys.is_on("sequence_parallel");
  keys.note("parallel.sequence_parallel", "sequence_parallel",
            p.sequence_parallel && p.tp == 1 ? "no effect at tensor_model_parallel_size 1" : "");
  const bool moe = keys.integer("num_experts").value_or(0) > 0;
  if (const auto etp = keys.integer("expert_tensor_parallel_size")) {
    p.etp = *etp;
    keys.note("parallel.etp", "expert_tensor_parallel_size");
  } else if (moe) {
    p.etp = p.tp;
    keys.derive("parallel.etp", {"expert_tensor_parallel_size"}, std::string(kEtpFollowsTp));
  } else {
    keys.derive("parallel.etp", {"num_experts"}, "no experts");
  }
  if (keys.is_on("use_tp_pp_dp_mapping")) {
    p.order = {parallel::Axis::tp, parallel::Axis::cp, parallel::Axis::ep, parallel::Axis::pp,
               parallel::Axis::dp};
  }
  keys.note("parallel.order", "use_tp_pp_dp_mapping");
  read_layout(keys, job);
  read_vpp(keys, job);
  job.layout.first_stage_layers = keys.integer("decoder_first_pipeline_num_layers").value_or(0);
  job.layout.last_stage_layers = keys.integer("decoder_last_pipeline_num_layers").value_or(0);
  job.layout.embedding_counts = keys.is_on("account_for_embedding_in_pipeline_split");
  job.layout.output_counts = keys.is_on("account_for_loss_in_pipeline_split");
  keys.note("parallel.first_stage_layers", "decoder_first_pipeline_num_layers");
  keys.note("parallel.last_stage_layers", "decoder_last_pipeline_num_layers");
  keys.note("parallel.embedding_counts", "account_for_embedding_in_pipeline_split");
  keys.note("parallel.output_counts", "account_for_loss_in_pipeline_split");
  read_sharding(keys, job);
  read_schedule(keys, job);
}

}  // namespace eratos::reader
