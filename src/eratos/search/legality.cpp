#include "eratos/search/legality.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <memory>
#include <variant>

#include "eratos/job/optimizer.h"
#include "eratos/job/placement.h"
#include "eratos/layer/mixers.h"
#include "eratos/layer/moe.h"
#include "eratos/layer/output.h"
#include "eratos/layer/specs.h"
#include "eratos/parallel/schedules.h"
#include "eratos/schedule/registry.h"

namespace eratos::search {

namespace {

using job::Granularity;
using parallel::ParallelSpec;
using parallel::Sharding;

// Ranks of data parallelism; 0 where the degrees do not divide the accelerators.
int dp_of(const job::JobSpec& s) {
  const double cut = static_cast<double>(s.parallel.tp) * s.parallel.cp * s.parallel.pp;
  const int world = s.cluster.gpus();
  if (cut > world || world % static_cast<int>(cut) != 0) return 0;
  return world / static_cast<int>(cut);
}

// Ranks among which experts' gradients are reduced; 0 where the degrees do not divide.
int edp_of(const job::JobSpec& s) {
  const double cut = static_cast<double>(s.parallel.ep) * s.parallel.etp * s.parallel.pp;
  const int world = s.cluster.gpus();
  if (cut > world || world % static_cast<int>(cut) != 0) return 0;
  return world / static_cast<int>(cut);
}

// 0 where the batch does not divide.
int micro_batches_of(const job::JobSpec& s) {
  const long long slice = static_cast<long long>(s.batch.micro) * dp_of(s);
  return slice == 0 || s.batch.global % slice != 0 ? 0 : static_cast<int>(s.batch.global / slice);
}

template <class Check>
bool any_expert_layer(const job::JobSpec& s, Check check) {
  for (const layer::BlockSpec& block : s.model.blocks) {
    if (const auto* moe = std::get_if<layer::MoeSpec>(&block.feed_forward)) {
      if (check(*moe)) return true;
    }
  }
  return false;
}

bool divides(int degree, double width) { return static_cast<long long>(width) % degree == 0; }

const parallel::ScheduleFacts* asked_schedule(const job::JobSpec& s) {
  return s.schedule.algorithm == "auto" ? nullptr
                                        : parallel::find_schedule_facts(s.schedule.algorithm);
}

// What runs, as the framework chooses where nothing is asked. Source: Megatron-LM
// core/pipeline_parallel/schedules.py (get_forward_backward_func).
std::string_view schedule_run(const job::JobSpec& s) {
  if (s.parallel.pp == 1) return "none";
  if (s.schedule.algorithm != "auto") return s.schedule.algorithm;
  return s.parallel.vpp > 1 ? "interleaved-1f1b" : "1f1b";
}

bool splits_backward(const job::JobSpec& s) {
  const parallel::ScheduleFacts* facts = asked_schedule(s);
  return facts != nullptr && facts->splits_backward && s.parallel.pp > 1;
}

bool shards_parameters(Sharding s) { return s == Sharding::zero3 || s == Sharding::hsdp; }

// The value is not the one that stands for its axis.
bool is_other(const Partial& p, AxisId axis) { return p.at[axis] != 0; }

// --- job: the degrees ---------------------------------------------------------------------------

bool world_size(const Partial& p) { return dp_of(p.job) == 0; }

bool expert_world_size(const Partial& p) {
  return model::is_moe(p.job.model) && edp_of(p.job) == 0;
}

bool experts_of_dense(const Partial& p) {
  return !model::is_moe(p.job.model) && (p.job.parallel.ep > 1 || p.job.parallel.etp > 1);
}

bool tp_mixers(const Partial& p) {
  ParallelSpec cut = p.job.parallel;
  cut.cp = 1;
  Diagnostics faults;
  for (const layer::BlockSpec& block : p.job.model.blocks)
    layer::check_mixer(block.mixer, cut, faults);
  return !faults.empty();
}

bool cp_mixers(const Partial& p) {
  Diagnostics faults;
  for (const layer::BlockSpec& block : p.job.model.blocks) {
    layer::check_mixer(block.mixer, p.job.parallel, faults);
  }
  return !faults.empty();
}

bool tp_widths(const Partial& p) {
  const int tp = p.job.parallel.tp;
  for (const layer::BlockSpec& block : p.job.model.blocks) {
    const auto* mlp = std::get_if<layer::MlpSpec>(&block.feed_forward);
    if (mlp != nullptr && !divides(tp, mlp->ffn)) return true;
  }
  return any_expert_layer(p.job, [&](const layer::MoeSpec& moe) {
    return moe.shared_ffn > 0 && !divides(tp, moe.shared_ffn);
  });
}

double padded_vocab(const job::JobSpec& s) {
  const int by = s.framework.vocab_divisible_by;
  const double multiple = static_cast<double>(by) * (by > 1 ? s.parallel.tp : 1);
  return std::ceil(s.model.vocab / multiple) * multiple;
}

bool tp_vocabulary(const Partial& p) { return !divides(p.job.parallel.tp, padded_vocab(p.job)); }

bool tp_adapters(const Partial& p) {
  return p.job.lora.on() && p.job.lora.rank % p.job.parallel.tp != 0;
}

bool ep_experts(const Partial& p) {
  return any_expert_layer(
      p.job, [&](const layer::MoeSpec& moe) { return moe.experts % p.job.parallel.ep != 0; });
}

bool etp_widths(const Partial& p) {
  return any_expert_layer(
      p.job, [&](const layer::MoeSpec& moe) { return !divides(p.job.parallel.etp, moe.ffn); });
}

bool experts_need_sp(const Partial& p) {
  return model::is_moe(p.job.model) && p.job.parallel.tp > 1 && !p.job.parallel.sequence_parallel;
}

// --- job: the sequence, the numbers -------------------------------------------------------------

bool cp_sequence(const Partial& p) {
  const long long cut = p.job.parallel.cp > 1 ? 2LL * p.job.parallel.cp : 1;
  return p.job.batch.sequence % cut != 0;
}

bool sp_sequence(const Partial& p) {
  const job::JobSpec& s = p.job;
  return s.parallel.sequence_parallel && s.batch.sequence / s.parallel.cp % s.parallel.tp != 0;
}

bool precision_of_part(const Partial& p) {
  return p.job.cluster.accelerator.peak_of(job::gemm_dtype(p.job.precision)).value <= 0;
}

bool precision_kept_wide(const Partial& p) {
  const job::NarrowSpec& n = p.job.narrow;
  const int wide = n.bf16_first_layers + n.bf16_last_layers;
  if (n.bf16_first_layers < 0 || n.bf16_last_layers < 0 || wide > p.job.model.layers()) return true;
  return !job::is_narrow(p.job.precision) && (wide > 0 || n.parameter_gather);
}

bool einsum_capacity(const Partial& p) {
  return model::is_moe(p.job.model) && p.job.routing.dispatcher == job::Dispatcher::einsum &&
         p.job.routing.capacity_factor <= 0;
}

bool optimizer_shards(const Partial& p) {
  const job::OptimizerKind* kind = job::find_optimizer(p.job.optimizer.kind);
  return kind != nullptr && !kind->shards && p.job.parallel.sharding != Sharding::none;
}

bool host_link(const Partial& p) {
  return p.job.offload.optimizer > 0 && p.job.cluster.accelerator.host_link.value <= 0;
}

bool sharding_group(const Partial& p) {
  const ParallelSpec& parallel = p.job.parallel;
  const bool grouped = parallel.sharding == Sharding::hsdp ||
                       (parallel.sharding == Sharding::zero3 && parallel.hsdp_group != 0);
  const int ranks = dp_of(p.job) * parallel.cp;
  return grouped && ranks > 0 && (parallel.hsdp_group < 1 || ranks % parallel.hsdp_group != 0);
}

bool global_batch(const Partial& p) { return dp_of(p.job) > 0 && micro_batches_of(p.job) == 0; }

// --- job: the pipeline --------------------------------------------------------------------------

bool vpp_needs_pp(const Partial& p) { return p.job.parallel.vpp > 1 && p.job.parallel.pp == 1; }

bool group_size(const Partial& p) {
  const int group = p.job.schedule.group_size;
  return p.job.parallel.vpp > 1 && group > 0 && group < p.job.parallel.pp;
}

bool schedule_needs_pp(const Partial& p) {
  const parallel::ScheduleFacts* facts = asked_schedule(p.job);
  if (facts == nullptr) return p.job.schedule.algorithm != "auto";
  if (facts->name == "none") return p.job.parallel.pp > 1;
  return p.job.parallel.pp == 1 && facts->splits_backward;
}

bool schedule_chunks(const Partial& p) {
  const parallel::ScheduleFacts* facts = asked_schedule(p.job);
  if (facts == nullptr || p.job.parallel.pp == 1) return false;
  const int vpp = p.job.parallel.vpp;
  return vpp < facts->least_vpp || (facts->most_vpp > 0 && vpp > facts->most_vpp);
}

bool output_cut(const Partial& p) {
  const job::JobSpec& s = p.job;
  if (s.schedule.output_layer == parallel::OutputLayer::last_stage) return false;
  if (s.parallel.pp == 1 || (s.mtp && s.model.mtp_layers > 0)) return true;
  const parallel::ScheduleFacts* facts = asked_schedule(s);
  return facts == nullptr ? s.parallel.vpp > 1 : !facts->cuts_output;
}

// As job::check() bounds it: 2 p v m actions.
constexpr double kMostActions = 1e7;

bool too_many_actions(const Partial& p) {
  return 2.0 * p.job.parallel.pp * p.job.parallel.vpp * micro_batches_of(p.job) > kMostActions;
}

bool schedule_order(const Partial& p) {
  const job::JobSpec& s = p.job;
  const schedule::Schedule* order = schedule::find(schedule_run(s));
  const int m = micro_batches_of(s);
  if (order == nullptr || m == 0) return false;
  ParallelSpec parallel = s.parallel;
  parallel.placement = order->placement;
  const schedule::Shape shape{s.parallel.pp, parallel::chunks_of(parallel), m,
                              s.schedule.group_size, s.schedule.output_layer};
  return schedule::refusal(*order, shape).has_value();
}

bool too_many_stages(const Partial& p) {
  return static_cast<double>(p.job.parallel.pp) * p.job.parallel.vpp >
         static_cast<double>(job::kMaxVirtualStages);
}

bool even_split(const job::JobSpec& s) {
  const int slots =
      s.model.layers() + (s.layout.embedding_counts ? 1 : 0) + (s.layout.output_counts ? 1 : 0);
  return slots % (s.parallel.pp * s.parallel.vpp) == 0;
}

bool ends_split(const job::JobSpec& s) {
  const int first = s.layout.first_stage_layers;
  const int last = s.layout.last_stage_layers;
  const int rest = s.model.layers() - first - last;
  const int even = s.parallel.pp - (first > 0 ? 1 : 0) - (last > 0 ? 1 : 0);
  const int v = s.parallel.vpp;
  if (rest < 0 || even < 0 || first % v != 0 || last % v != 0) return false;
  return even == 0 ? rest == 0 : rest % (even * v) == 0;
}

bool layers_divide(const Partial& p) {
  const job::JobSpec& s = p.job;
  if (!s.layout.stages.empty()) {
    return static_cast<int>(s.layout.stages.size()) != s.parallel.pp * s.parallel.vpp;
  }
  if (s.layout.first_stage_layers > 0 || s.layout.last_stage_layers > 0) return !ends_split(s);
  return s.framework.pipeline_split == framework::PipelineSplit::even && !even_split(s);
}

bool recomputed_layers(const Partial& p) {
  const job::RecomputeSpec& r = p.job.recompute;
  if (r.granularity != Granularity::full) return false;
  const int layers = p.job.model.layers();
  const bool outside = std::any_of(r.layer_ids.begin(), r.layer_ids.end(),
                                   [&](int id) { return id < 0 || id >= layers; });
  const bool nothing =
      r.method == job::RecomputeMethod::uniform && r.layers == 0 && r.layer_ids.empty();
  return r.layers < 0 || outside || nothing;
}

bool recomputed_units(const Partial& p) {
  const job::RecomputeSpec& r = p.job.recompute;
  if (r.granularity != Granularity::full || r.method != job::RecomputeMethod::uniform ||
      r.layers <= 1 || !r.layer_ids.empty()) {
    return false;
  }
  p.scratch.padded_vocab = padded_vocab(p.job);
  Diagnostics faults;
  job::place_layers(p.job, p.scratch, faults);
  return !faults.empty();
}

// --- framework ----------------------------------------------------------------------------------

bool schedule_offered(const Partial& p) {
  const std::vector<std::string>& offered = p.job.framework.schedules.offered;
  if (offered.empty() || p.job.parallel.pp == 1) return false;
  return std::find(offered.begin(), offered.end(), schedule_run(p.job)) == offered.end();
}

bool recompute_beside_split(const Partial& p) {
  return splits_backward(p.job) && p.job.recompute.granularity != Granularity::none &&
         !p.job.framework.schedules.split_recompute;
}

bool overlap_beside_split(const Partial& p) {
  return splits_backward(p.job) && !p.job.framework.schedules.split_dp_overlap &&
         (p.job.overlap.grad_reduce || p.job.overlap.param_gather);
}

bool sharding_in_pipeline(const Partial& p) {
  const Sharding s = p.job.parallel.sharding;
  return p.job.parallel.pp > 1 && (s == Sharding::zero2 || shards_parameters(s)) &&
         !p.job.framework.state.gathered_in_pipeline;
}

bool stage_without_layer(const Partial& p) {
  const auto& stages = p.job.layout.stages;
  return std::any_of(stages.begin(), stages.end(),
                     [](const job::StageLayout& s) { return s.layers == 0 && s.mtp == 0; });
}

// A rank's experts and its other layers are of one stage: pipelines lie alike in both layouts. A
// dense model's feed-forward lies as its attention, but Megatron-LM asks it of the layout without
// cp all the same.
bool splits_pipeline(const RankOrder& order, const job::JobSpec& s) {
  if (s.parallel.pp == 1 || order.back() == Axis::pp) return false;
  const int dp = dp_of(s);
  return dp > 0 && (model::is_moe(s.model) ? edp_of(s) : dp * s.parallel.cp) != dp;
}

bool pipelines_apart(const Partial& p) { return splits_pipeline(p.job.parallel.order, p.job); }

bool gather_needs_reduce(const Partial& p) {
  const Sharding s = p.job.parallel.sharding;
  return (s == Sharding::zero1 || s == Sharding::zero2) && p.job.overlap.param_gather &&
         !p.job.overlap.grad_reduce;
}

// Only where the axis has the other value.
bool fsdp_overlaps(const Partial& p) {
  const auto off = [&](AxisId axis, bool on) { return !on && p.space.values(axis).size() > 1; };
  return shards_parameters(p.job.parallel.sharding) &&
         (off(AxisId::overlap_reduce, p.job.overlap.grad_reduce) ||
          off(AxisId::overlap_gather, p.job.overlap.param_gather));
}

bool tp_overlap_needs_sp(const Partial& p) {
  return p.job.overlap.tp && p.job.parallel.tp > 1 && !p.job.parallel.sequence_parallel;
}

bool two_ranks_need_p2p_overlap(const Partial& p) {
  return p.job.parallel.vpp > 1 && p.job.parallel.pp == 2 && !p.job.overlap.p2p;
}

bool moe_overlap_needs_ep(const Partial& p) {
  return p.job.overlap.moe_a2a && p.job.parallel.ep == 1;
}

bool moe_overlap_dispatcher(const Partial& p) {
  const job::Dispatcher d = p.job.routing.dispatcher;
  return p.job.overlap.moe_a2a && (d == job::Dispatcher::allgather || d == job::Dispatcher::einsum);
}

// Whole layers, or the experts of one: what is made again would exchange its rows again. Newer
// releases take whole model chunks, which no job here can say.
bool moe_overlap_recompute(const Partial& p) {
  const job::RecomputeSpec& r = p.job.recompute;
  const auto has = [&](ops::Module m) { return r.modules.test(static_cast<std::size_t>(m)); };
  return p.job.overlap.moe_a2a && (r.granularity == Granularity::full ||
                                   (r.granularity == Granularity::selective &&
                                    (has(ops::Module::expert_in) || has(ops::Module::expert_out))));
}

bool moe_overlap_chunks(const Partial& p) {
  return p.job.overlap.moe_a2a && p.job.parallel.pp > 1 && p.job.parallel.vpp == 1;
}

// Without expert parallelism experts are cut as everything else is.
bool file_expert_tensor(const Partial& p) {
  const ParallelSpec& c = p.job.parallel;
  if (!p.space.file.expert_tensor_all_or_none || !model::is_moe(p.job.model)) return false;
  return c.etp != c.tp && (c.ep == 1 || c.etp != 1);
}

bool file_sharding(const Partial& p) {
  const ParallelSpec& c = p.job.parallel;
  if (!p.space.file.sharding_spans_cp || c.cp == 1) return false;
  return c.sharding == Sharding::none || (c.sharding == Sharding::hsdp && c.hsdp_group % c.cp != 0);
}

// --- repeat -------------------------------------------------------------------------------------

// HSDP whose one group is all the ranks.
bool hsdp_is_zero3(const Partial& p) {
  const std::vector<Value>& values = p.space.values(AxisId::sharding);
  const bool has_zero3 =
      std::any_of(values.begin(), values.end(), [](const Value& v) { return v.word == "zero3"; });
  return has_zero3 && p.job.parallel.sharding == Sharding::hsdp &&
         p.job.parallel.hsdp_group == dp_of(p.job) * p.job.parallel.cp;
}

bool sp_needs_tp(const Partial& p) {
  return p.job.parallel.tp == 1 && is_other(p, AxisId::sequence_parallel);
}

bool kind_needs_cp(const Partial& p) {
  return p.job.parallel.cp == 1 && is_other(p, AxisId::cp_kind);
}

bool order_needs_pp(const Partial& p) {
  return p.job.parallel.pp == 1 && is_other(p, AxisId::schedule);
}

// Every group of more than one rank lies as in the other order.
bool lie_alike(const job::JobSpec& s, const RankOrder& other) {
  ParallelSpec here = s.parallel;
  here.dp = dp_of(s);
  ParallelSpec there = here;
  there.order = other;
  constexpr Axis kDense[] = {Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::tp_cp, Axis::dp_cp};
  constexpr Axis kExperts[] = {Axis::ep, Axis::etp, Axis::edp};
  const auto alike = [&](Axis a) {
    const parallel::Group group = parallel::group_of(here, a);
    return group.size == 1 || group.stride == parallel::group_of(there, a).stride;
  };
  return std::all_of(std::begin(kDense), std::end(kDense), alike) &&
         (!model::is_moe(s.model) || std::all_of(std::begin(kExperts), std::end(kExperts), alike));
}

// An order that stands before it in the list, and is legal, puts every group where it does.
bool order_repeats(const Partial& p) {
  if (!is_other(p, AxisId::order) || dp_of(p.job) == 0) return false;
  if (model::is_moe(p.job.model) && edp_of(p.job) == 0) return false;
  const std::vector<Value>& values = p.space.values(AxisId::order);
  for (std::size_t i = 0; i < p.at[AxisId::order]; ++i) {
    const RankOrder first = order_of(values[i].number);
    if (!splits_pipeline(first, p.job) && lie_alike(p.job, first)) return true;
  }
  return false;
}

bool balanced_is_even(const Partial& p) {
  const std::vector<Value>& values = p.space.values(AxisId::split);
  const bool has_even =
      std::any_of(values.begin(), values.end(), [](const Value& v) { return v.word == "even"; });
  return has_even && values[p.at[AxisId::split]].word == "balanced" &&
         p.job.model.layers() % (p.job.parallel.pp * p.job.parallel.vpp) == 0;
}

bool overlap_needs_tp(const Partial& p) {
  return p.job.parallel.tp == 1 && is_other(p, AxisId::overlap_tp);
}

bool overlap_needs_pp(const Partial& p) {
  return p.job.parallel.pp == 1 && is_other(p, AxisId::overlap_p2p);
}

// No group reduces gradients: neither the dense layers' nor the experts'.
bool alone(const job::JobSpec& s) {
  return dp_of(s) * s.parallel.cp == 1 && (!model::is_moe(s.model) || edp_of(s) == 1);
}

bool overlap_needs_reduction(const Partial& p) {
  return alone(p.job) && !shards_parameters(p.job.parallel.sharding) &&
         is_other(p, AxisId::overlap_reduce);
}

bool overlap_needs_gather(const Partial& p) {
  return p.job.parallel.sharding == Sharding::none && is_other(p, AxisId::overlap_gather);
}

constexpr AxisSet kDegrees = axes({AxisId::tp, AxisId::cp, AxisId::pp});
constexpr AxisSet kBatch = kDegrees | axes({AxisId::micro, AxisId::global});

constexpr std::string_view kMegatronArguments =
    "NVIDIA/Megatron-LM megatron/training/arguments.py, validate_args";
constexpr std::string_view kMegatronState =
    "NVIDIA/Megatron-LM core/parallel_state.py, initialize_model_parallel";
constexpr std::string_view kMegatronConfig =
    "NVIDIA/Megatron-LM core/transformer/transformer_config.py, __post_init__";
constexpr std::string_view kOwn = "the projection's own: nothing would differ";

constexpr Rule kRules[] = {
    {"world-size", Ground::job, kDegrees, world_size, "tp*cp*pp divides the accelerators",
     kMegatronArguments},
    {"expert-world-size", Ground::job, axes({AxisId::ep, AxisId::etp, AxisId::pp}),
     expert_world_size, "ep*etp*pp divides the accelerators", kMegatronState},
    {"experts-of-dense", Ground::job, axes({AxisId::ep, AxisId::etp}), experts_of_dense,
     "ep and etp are 1 without experts", kMegatronArguments},
    {"tp-mixers", Ground::job, axes({AxisId::tp}), tp_mixers,
     "tp divides the attention heads, and the key-value heads or they it; of other mixers, their "
     "groups",
     kMegatronConfig},
    {"cp-mixers", Ground::job, axes({AxisId::tp, AxisId::cp, AxisId::cp_kind}), cp_mixers,
     "cp by all-to-all divides the heads of a rank, and trades whole groups of other mixers",
     "NVIDIA/TransformerEngine pytorch/attention, context parallelism by a2a; "
     "core/ssm/mamba_context_parallel.py"},
    {"tp-widths", Ground::job, axes({AxisId::tp}), tp_widths,
     "tp divides the feed-forward and shared-expert widths",
     "NVIDIA/Megatron-LM core/tensor_parallel/layers.py (divide)"},
    {"tp-vocabulary", Ground::job, axes({AxisId::tp}), tp_vocabulary,
     "tp divides the padded vocabulary", "NVIDIA/Megatron-LM core/tensor_parallel/layers.py"},
    {"tp-adapters", Ground::job, axes({AxisId::tp}), tp_adapters, "tp divides LoRA's rank",
     "NVIDIA-NeMo/Megatron-Bridge peft/lora_layers.py"},
    {"ep-experts", Ground::job, axes({AxisId::ep}), ep_experts, "ep divides the experts",
     kMegatronConfig},
    {"etp-widths", Ground::job, axes({AxisId::etp}), etp_widths, "etp divides the experts' width",
     "NVIDIA/Megatron-LM core/transformer/moe/experts.py"},
    {"experts-need-sp", Ground::job, axes({AxisId::tp, AxisId::sequence_parallel}), experts_need_sp,
     "experts with tp need sequence parallelism",
     "NVIDIA/Megatron-LM core/transformer/moe/moe_layer.py"},
    {"cp-sequence", Ground::job, axes({AxisId::cp}), cp_sequence, "2*cp divides the sequence",
     kMegatronArguments},
    {"sp-sequence", Ground::job, axes({AxisId::tp, AxisId::cp, AxisId::sequence_parallel}),
     sp_sequence, "tp divides a rank's sequence under sequence parallelism",
     "NVIDIA/Megatron-LM core/tensor_parallel/mappings.py (scatter along the sequence)"},
    {"precision-of-part", Ground::job, axes({AxisId::precision}), precision_of_part,
     "the part has matrix products of the recipe", "the part's data sheet"},
    {"precision-kept-wide", Ground::job, axes({AxisId::precision}), precision_kept_wide,
     "only a narrow recipe keeps layers wide or gathers narrow parameters", kMegatronArguments},
    {"einsum-capacity", Ground::job, axes({AxisId::dispatcher}), einsum_capacity,
     "einsum gives every expert a fixed number of places",
     "AI-Hypercomputer/maxtext layers/moe.py"},
    {"optimizer-shards", Ground::job, axes({AxisId::sharding}), optimizer_shards,
     "an optimizer of whole matrices is not cut over ranks", "KellerJordan/Muon"},
    {"host-link", Ground::job, axes({AxisId::offload}), host_link,
     "offload needs a link to the host of known rate", "the part's data sheet"},
    {"sharding-group", Ground::job, kDegrees | axis_bit(AxisId::sharding), sharding_group,
     "the sharding group divides dp*cp", "pytorch/torchtitan distributed/parallel_dims.py"},
    {"global-batch", Ground::job, kBatch, global_batch, "micro*dp divides the global batch",
     "NVIDIA/Megatron-LM core/num_microbatches_calculator.py"},
    {"vpp-needs-pp", Ground::job, axes({AxisId::pp, AxisId::vpp}), vpp_needs_pp,
     "chunks need a pipeline", kMegatronArguments},
    {"group-size", Ground::job, axes({AxisId::pp, AxisId::vpp}), group_size,
     "groups of interleaving hold pp micro-batches or more", kMegatronConfig},
    {"schedule-needs-pp", Ground::job, axes({AxisId::pp, AxisId::schedule}), schedule_needs_pp,
     "an order of a pipeline needs one", "PRIMUS core/pipeline_parallel, pytorch pipelining"},
    {"schedule-chunks", Ground::job, axes({AxisId::pp, AxisId::vpp, AxisId::schedule}),
     schedule_chunks, "the schedule takes that many chunks a rank",
     "parallel/schedules.h, with a source for each"},
    {"output-cut", Ground::job, axes({AxisId::pp, AxisId::vpp, AxisId::schedule}), output_cut,
     "an output layer cut over ranks needs a schedule that places its parts", "arXiv 2411.05288"},
    {"too-many-actions", Ground::job, kBatch | axis_bit(AxisId::vpp), too_many_actions,
     "a step has at most 1e7 actions", "a bound of this program"},
    {"schedule-order", Ground::job, kBatch | axes({AxisId::vpp, AxisId::schedule}), schedule_order,
     "the schedule has an order for so many micro-batches and ranks",
     "schedule/, one file each with its source"},
    {"too-many-stages", Ground::job, axes({AxisId::pp, AxisId::vpp}), too_many_stages,
     "at most 1024 virtual stages", "a bound of this program"},
    {"layers-divide", Ground::job, axes({AxisId::pp, AxisId::vpp, AxisId::split}), layers_divide,
     "the layers divide into pp*vpp stages as the split says",
     "NVIDIA/Megatron-LM core/transformer/transformer_block.py, get_num_layers_to_build"},
    {"recomputed-layers", Ground::job, axes({AxisId::recompute}), recomputed_layers,
     "recomputed layers exist", kMegatronConfig},
    {"recomputed-units", Ground::job,
     axes({AxisId::tp, AxisId::recompute, AxisId::pp, AxisId::vpp, AxisId::split}),
     recomputed_units, "units of recomputed layers divide every stage",
     "NVIDIA/Megatron-LM core/transformer/transformer_block.py, _checkpointed_forward"},

    {"schedule-offered", Ground::framework, axes({AxisId::pp, AxisId::vpp, AxisId::schedule}),
     schedule_offered, "the framework runs the schedule", "data/frameworks, schedules.offered"},
    {"recompute-beside-split", Ground::framework,
     axes({AxisId::recompute, AxisId::pp, AxisId::schedule}), recompute_beside_split,
     "no recomputation beside weight gradients of their own",
     "data/frameworks, schedules.split_recompute (Primus refuses the two together)"},
    {"overlap-beside-split", Ground::framework,
     axes({AxisId::pp, AxisId::schedule, AxisId::overlap_reduce, AxisId::overlap_gather}),
     overlap_beside_split, "no data-parallel overlap beside weight gradients of their own",
     "data/frameworks, schedules.split_dp_overlap"},
    {"sharding-in-pipeline", Ground::framework, axes({AxisId::pp, AxisId::sharding}),
     sharding_in_pipeline, "gradients and parameters are not cut over ranks under a pipeline",
     "NVIDIA/Megatron-LM arguments.py (--use-torch-fsdp2: pp 1); deepspeedai/DeepSpeed "
     "runtime/pipe/engine.py (ZeRO-2 and 3 refused)"},
    {"pipelines-lie-alike", Ground::framework,
     kDegrees | axes({AxisId::ep, AxisId::etp, AxisId::order}), pipelines_apart,
     "where pp is not the outermost axis, experts have as many data-parallel ranks as other layers",
     kMegatronState},
    {"stage-without-layer", Ground::framework, axes({AxisId::pp, AxisId::vpp, AxisId::split}),
     stage_without_layer, "every stage of a balanced split has a layer",
     "a choice of this program: such a pipeline only loses"},
    {"gather-needs-reduce", Ground::framework,
     axes({AxisId::sharding, AxisId::overlap_reduce, AxisId::overlap_gather}), gather_needs_reduce,
     "overlapped parameter gather needs overlapped gradient reduction", kMegatronArguments},
    {"fsdp-overlaps", Ground::framework,
     axes({AxisId::sharding, AxisId::overlap_reduce, AxisId::overlap_gather}), fsdp_overlaps,
     "FSDP prefetches and reduces in the background: no switch",
     "pytorch torch/distributed/fsdp/_fully_shard; NVIDIA/Megatron-LM arguments.py "
     "(--use-torch-fsdp2)"},
    {"tp-overlap-needs-sp", Ground::framework,
     axes({AxisId::tp, AxisId::sequence_parallel, AxisId::overlap_tp}), tp_overlap_needs_sp,
     "overlapped tensor-parallel traffic needs sequence parallelism", kMegatronArguments},
    {"p2p-overlap-at-pp-2", Ground::framework, axes({AxisId::pp, AxisId::vpp, AxisId::overlap_p2p}),
     two_ranks_need_p2p_overlap, "interleaving over 2 ranks needs overlapped sends",
     kMegatronArguments},
    {"moe-overlap-needs-ep", Ground::framework, axes({AxisId::ep, AxisId::overlap_moe}),
     moe_overlap_needs_ep, "overlapped expert traffic needs ep above 1", kMegatronConfig},
    {"moe-overlap-dispatcher", Ground::framework, axes({AxisId::dispatcher, AxisId::overlap_moe}),
     moe_overlap_dispatcher, "overlapped expert traffic is an all-to-all", kMegatronConfig},
    {"moe-overlap-recompute", Ground::framework, axes({AxisId::recompute, AxisId::overlap_moe}),
     moe_overlap_recompute,
     "no recomputation of whole layers or of experts under overlapped expert traffic",
     kMegatronConfig},
    {"moe-overlap-chunks", Ground::framework, axes({AxisId::pp, AxisId::vpp, AxisId::overlap_moe}),
     moe_overlap_chunks, "under a pipeline, overlapped expert traffic needs chunks",
     kMegatronConfig},

    {"file-expert-tensor", Ground::framework, axes({AxisId::tp, AxisId::ep, AxisId::etp}),
     file_expert_tensor, "its file cuts experts by tp or not at all, and by tp without ep",
     "pytorch/torchtitan config/job_config.py, expert_tensor_parallel_degree; "
     "distributed/parallel_dims.py"},
    {"file-sharding", Ground::framework, axes({AxisId::cp, AxisId::sharding}), file_sharding,
     "its file shards over cp's ranks wherever there are some, in whole groups of them",
     "pytorch/torchtitan distributed/parallel_dims.py, mesh dp_shard_cp"},

    {"hsdp-is-zero3", Ground::repeat, kDegrees | axis_bit(AxisId::sharding), hsdp_is_zero3,
     "HSDP in one group of all ranks is zero3", kOwn},
    {"sp-needs-tp", Ground::repeat, axes({AxisId::tp, AxisId::sequence_parallel}), sp_needs_tp,
     "sequence parallelism at tp 1 changes nothing", kMegatronArguments},
    {"kind-needs-cp", Ground::repeat, axes({AxisId::cp, AxisId::cp_kind}), kind_needs_cp,
     "a kind of context parallelism at cp 1 changes nothing", kOwn},
    {"order-needs-pp", Ground::repeat, axes({AxisId::pp, AxisId::schedule}), order_needs_pp,
     "a schedule at pp 1 changes nothing", kOwn},
    {"order-repeats", Ground::repeat, kDegrees | axes({AxisId::ep, AxisId::etp, AxisId::order}),
     order_repeats, "the order of ranks puts every group where another one does", kOwn},
    {"balanced-is-even", Ground::repeat, axes({AxisId::pp, AxisId::vpp, AxisId::split}),
     balanced_is_even, "where the layers divide, balanced stages are the even ones", kOwn},
    {"overlap-needs-tp", Ground::repeat, axes({AxisId::tp, AxisId::overlap_tp}), overlap_needs_tp,
     "there is no tensor-parallel traffic at tp 1", kOwn},
    {"overlap-needs-pp", Ground::repeat, axes({AxisId::pp, AxisId::overlap_p2p}), overlap_needs_pp,
     "there are no sends at pp 1", kOwn},
    {"overlap-needs-reduction", Ground::repeat,
     kDegrees | axes({AxisId::ep, AxisId::etp, AxisId::sharding, AxisId::overlap_reduce}),
     overlap_needs_reduction, "one rank reduces nothing", kOwn},
    {"overlap-needs-gather", Ground::repeat, axes({AxisId::sharding, AxisId::overlap_gather}),
     overlap_needs_gather, "whole parameters are not gathered", kOwn},
};

// A recipe that the part has: bf16, or what came before it.
job::Recipe plain_recipe(const hardware::AcceleratorSpec& part) {
  for (const job::Recipe r : {job::Recipe::bf16, job::Recipe::fp16}) {
    if (part.peak_of(job::gemm_dtype(r)).value > 0) return r;
  }
  return job::Recipe::fp32;
}

// One accelerator's share of everything, and none of what an axis could have broken.
job::JobSpec without_axes(const job::JobSpec& base) {
  job::JobSpec s = base;
  const auto order = base.parallel.order;
  s.parallel = ParallelSpec{};
  s.parallel.order = order;
  s.layout = job::LayoutSpec{};
  s.batch.micro = 1;
  s.batch.global = base.cluster.gpus();
  s.precision = plain_recipe(base.cluster.accelerator);
  s.narrow = job::NarrowSpec{};
  s.recompute = job::RecomputeSpec{};
  s.routing.dispatcher = job::Dispatcher::alltoall;
  s.offload.optimizer = 0;
  s.schedule.algorithm = "auto";
  s.schedule.output_layer = parallel::OutputLayer::last_stage;
  return s;
}

}  // namespace

std::string_view name_of(Ground g) {
  switch (g) {
    case Ground::job:
      return "job";
    case Ground::framework:
      return "framework";
    case Ground::repeat:
      return "repeat";
  }
  return "?";
}

std::span<const Rule> rules() { return kRules; }

std::vector<const Rule*> rules_of(const Space& space) {
  const Candidate any;
  const auto scratch = std::make_unique<job::CheckedJob>();
  const Partial own{space, any, space.base, *scratch};
  std::vector<const Rule*> out;
  for (const Rule& r : kRules) {
    if (r.ground == Ground::framework && r.refuses(own)) continue;
    out.push_back(&r);
  }
  return out;
}

Diagnostics fixed_faults(const job::JobSpec& base) {
  const auto scratch = std::make_unique<job::CheckedJob>();
  Diagnostics out = job::check(without_axes(base), *scratch);
  if (!base.layout.stages.empty() && base.parallel.pp >= 1 && base.parallel.vpp >= 1) {
    job::JobSpec placed = base;
    placed.recompute = job::RecomputeSpec{};
    Diagnostics faults;
    job::place_layers(placed, *scratch, faults);
    for (Diagnostic& d : faults) out.push_back(std::move(d));
  }
  return out;
}

}  // namespace eratos::search
