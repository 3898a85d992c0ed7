#include "eratos/projection/state.h"

#include "eratos/base/check.h"
#include "eratos/job/optimizer.h"
#include "eratos/lower/lower.h"
#include "eratos/lower/step.h"
#include "eratos/projection/projection.h"

namespace eratos::projection {

namespace {

using parallel::Sharding;

// Do gathered units outlive their pass?
// Source: pytorch torch/distributed/pipelining/stage.py, backward_maybe_with_nosync (no reduction and no
// resharding before the last micro-batch); NVIDIA-NeMo/Automodel components/moe/parallelizer.py
// (reshard_after_forward=False).
// Assumes: FSDP2 then still pays for a gather in every pass; memory alone knows that it does not.
bool stays_gathered(const job::CheckedJob& job) {
  const framework::StateRules& rules = job.spec->framework.state;
  return (rules.gathered_in_pipeline && job.parallel.pp > 1) ||
         (rules.gathered_with_experts && model::is_moe(job.spec->model));
}

// ZeRO-3: what stays whole beside the shards.
// Source: pytorch torch/distributed/fsdp/_fully_shard, unsharded_accumulated_grad (in reduce_dtype).
void keep_whole(const job::CheckedJob& job, memory::StateBytes& b) {
  const framework::StateRules& rules = job.spec->framework.state;
  const bool pipeline = rules.gathered_in_pipeline && job.parallel.pp > 1;
  const bool defers = rules.deferred_gradient_bytes > 0 && job.micro_batches > 1;
  if (stays_gathered(job)) {
    b.parameter = b.parameter / b.parameter_shards + bytes_per_element(rules.gather_dtype);
    b.parameter_shards = 1;
  }
  if (!pipeline && !defers) return;
  const double reduced = rules.gradient_reduce_fp32 ? 4.0 : 2.0;
  b.gradient = b.gradient / b.gradient_shards +
               (rules.deferred_gradient_bytes > 0 ? rules.deferred_gradient_bytes : reduced);
  b.gradient_shards = 1;
}

memory::StateBytes bytes_for(const job::CheckedJob& job, double shards) {
  const job::JobSpec& spec = *job.spec;
  const auto& rules = spec.framework.state;
  const DType activation = job::activation_dtype(spec.precision);
  const bool narrow = activation != DType::fp32;
  const Sharding sharding = job.parallel.sharding;
  const bool whole = sharding == Sharding::zero3 || sharding == Sharding::hsdp;
  const bool fp32_parameters = narrow && rules.stores_fp32_parameters;
  memory::StateBytes b;
  b.parameter = fp32_parameters ? 4.0 : bytes_per_element(activation);
  const double held_bytes = bytes_per_element(job::held_gradient(spec));
  // Beside a wider one only: a main gradient of 16 bits is the parameter's own.
  const bool buckets = rules.keeps_narrow_gradient && narrow && job.parallel.dp > 1 &&
                       held_bytes > bytes_per_element(activation);
  // Assumes: they stand there when most is kept. Published peaks of nanotron's pipelines ask for 1.6 to 2
  // bytes a parameter of the first stage beyond what the same job without a pipeline holds.
  const bool beside = rules.narrow_gradient_in_pipeline && narrow && job.parallel.pp > 1 &&
                      held_bytes > bytes_per_element(activation);
  const int narrow_copies = (buckets ? 1 : 0) + (beside ? 1 : 0);
  b.gradient = held_bytes + narrow_copies * bytes_per_element(activation);
  const DType stored = fp32_parameters ? DType::fp32 : activation;
  const auto held = [&](bool matrix) {
    return job::optimizer_bytes(spec.optimizer, stored, matrix, rules.master_weights).held() *
           (1.0 - spec.offload.optimizer);
  };
  b.optimizer = held(false);
  b.widened = job::optimizer_bytes(spec.optimizer, stored, false, rules.master_weights).widened *
              (1.0 - spec.offload.optimizer);
  b.optimizer_matrix = held(true) - b.optimizer;
  if (job::is_narrow(spec.precision)) {
    // The copies of a weight live on, along rows and along columns: beside the 16-bit parameter, from
    // one step to the next, or in its place. ZeRO-3 keeps no copy of what it gathers.
    // Source: NVIDIA/TransformerEngine pytorch/module/base.py, get_weight_workspace (cached between
    // micro-batches); Megatron-LM fp8_param_gather.
    const double copies = job::copies_of(spec.precision, spec.cluster.accelerator) *
                          (bytes_per_element(job::gemm_dtype(spec.precision)) +
                                 job::cast_rule(spec.precision).scale_bytes);
    if (spec.narrow.parameter_gather) {
      b.narrow = copies - b.parameter;
    } else if (!whole) {
      b.narrow = copies;
    }
  }
  b.parameter_shards = whole ? shards : 1;
  if (sharding == Sharding::zero3 && job.parallel.hsdp_group > 0) {
    // ZeRO++ holds a 16-bit secondary copy, cut over the group alone.
    const double secondary = bytes_per_element(activation) / job.parallel.hsdp_group;
    b.parameter_shards = b.parameter / (b.parameter / shards + secondary);
  }
  b.gradient_shards = whole || sharding == Sharding::zero2 ? shards : 1;
  if (whole && shards > 1) keep_whole(job, b);
  b.optimizer_shards = sharding == Sharding::none ? 1 : shards;
  return b;
}

}  // namespace

memory::StateRules state_rules(const job::CheckedJob& job) {
  memory::StateRules rules;
  rules.dense = bytes_for(job, lower::dense_shards(job));
  rules.expert = bytes_for(job, lower::expert_shards(job));
  const Sharding sharding = job.parallel.sharding;
  rules.gathers = (sharding == Sharding::zero3 || sharding == Sharding::hsdp) && !stays_gathered(job);
  rules.gathered_bytes = bytes_per_element(job.spec->framework.state.gather_dtype);
  if (job.spec->framework.state.gradient_placeholders) {
    rules.placeholder_bytes = bytes_per_element(job::activation_dtype(job.spec->precision));
  }
  return rules;
}

Bytes kept_output(const job::CheckedJob& job, int rank) {
  const job::JobSpec& spec = *job.spec;
  const bool last = rank == job.parallel.pp - 1 && parallel::chunks_of(job.parallel) == 1;
  if (!spec.framework.saved.stage_outputs || job.parallel.pp == 1 || last) return Bytes{0};
  const layer::LayerContext c = lower::context_of(job);
  return bytes_of(c.shard_tokens() * spec.model.hidden * spec.model.streams(), c.activation);
}

int communicators(const job::CheckedJob& job) {
  const auto& p = job.parallel;
  int n = 1;
  for (const int degree : {p.tp, p.cp, p.pp, p.dp, p.ep, p.etp}) n += degree > 1 ? 1 : 0;
  if (p.ep > 1 && p.edp() > 1) ++n;
  return p.world() > 1 ? n : 0;
}

int all_to_all_peers(const job::CheckedJob& job) {
  const auto& p = job.parallel;
  int peers = 0;
  if (model::is_moe(job.spec->model) && job.spec->routing.dispatcher == job::Dispatcher::alltoall) {
    peers += p.ep - 1;
  }
  if (p.cp_kind == parallel::CpKind::a2a) peers += p.cp - 1;
  return peers;
}

const schedule::Schedule& schedule_of(const job::CheckedJob& job) {
  const job::JobSpec& spec = *job.spec;
  const schedule::Schedule* found = nullptr;
  if (job.parallel.pp == 1) {
    found = schedule::find("none");
  } else if (spec.schedule.algorithm == "auto") {
    // Megatron-LM core/pipeline_parallel/schedules.py get_forward_backward_func.
    found = schedule::find(job.parallel.vpp > 1 ? "interleaved-1f1b" : "1f1b");
  } else {
    found = schedule::find(spec.schedule.algorithm);
  }
  ERATOS_CHECK(found != nullptr);
  return *found;
}

schedule::Shape shape_of(const job::CheckedJob& job) {
  return {job.parallel.pp, parallel::chunks_of(job.parallel), job.micro_batches,
          job.spec->schedule.group_size, job.parallel.output_layer};
}

Diagnostics schedule_faults(const job::CheckedJob& job) {
  Diagnostics faults;
  if (auto why = schedule::refusal(schedule_of(job), shape_of(job))) faults.push_back(std::move(*why));
  return faults;
}

}  // namespace eratos::projection
