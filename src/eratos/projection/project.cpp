#include <algorithm>
#include <cstddef>
#include <variant>

#include "eratos/lower/lower.h"
#include "eratos/lower/step.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/likeness.h"
#include "eratos/projection/measured_prices.h"
#include "eratos/projection/passes.h"
#include "eratos/projection/routing.h"
#include "eratos/projection/state.h"
#include "eratos/projection/steps.h"
#include "eratos/projection/warnings.h"

namespace eratos::projection {

namespace {

void answer_parameters(const job::CheckedJob& job, const Workspace& w, ParameterAnswer& out) {
  const model::Architecture& a = job.spec->model;
  const model::ParameterCount count = model::count_parameters(a, 0, job.spec->mtp);
  out.total = count.total;
  out.active = count.active;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    double local = 0;
    for (int part = 0; part < lower::parts_of(job); ++part) {
      for (const ops::StageItem& item : lower::part_of(job, w.lowered, rank, part).items) {
        const memory::ProgramMemory& p = w.program_memory[item.program];
        local += item.repeat * (p.dense_parameters + p.expert_parameters);
      }
    }
    out.per_stage.push_back(local);
  }
}

void answer_memory(const job::CheckedJob& job, const Options& options, Workspace& w,
                   MemoryAnswer& out) {
  const memory::StateRules state = state_rules(job);
  const memory::StageInput frame = frame_of(job);
  out.capacity = job.spec->cluster.accelerator.memory_visible;
  out.margin = options.memory_margin;
  const ops::LoadSpread spread = spread_of(job);
  if (!spread.even()) {
    uneven_memory(job, spread, options, false, w, out.routing);
    prepare_at(out.routing.at_peak, job, w);
  }
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    memory::StageMemory stage;
    rank_memory(job, state, frame, rank, w.program_memory, w, stage);
    if (rank == 0 || stage.device > out.device_peak) {
      out.device_peak = stage.device;
      out.peak_stage = rank;
    }
    out.allocated_peak = max(out.allocated_peak, stage.allocated);
    out.reserved_peak = max(out.reserved_peak, stage.reserved);
    out.least_peak = max(out.least_peak, stage.least);
    out.stages.push_back(stage);
  }
  out.fits = spread.even() ? out.least_peak <= out.capacity * (1.0 - options.memory_margin)
                           : enough(out.routing);
  memory::module_memory(w.lowered.programs, rank_input(job, out.peak_stage, w), out.saved_by_module);
}

// Takes `less` off the modules, as much of each as its share of them all.
void take_off(double less, PassTime& sum) {
  double all = 0;
  for (const double module : sum.module) all += module;
  if (all <= 0) return;
  for (double& module : sum.module) module *= 1.0 - std::min(1.0, less / all);
}

// What a pair of passes side by side hides comes off the communication of experts first, then off
// whatever else is exposed. Experts' traffic is dispatch's and combine's.
void hide_in_pairs(double hidden, PassTime& sum) {
  const double of_experts = std::clamp(hidden, 0.0, sum.ep);
  constexpr auto kDispatch = static_cast<std::size_t>(ops::Module::dispatch);
  constexpr auto kCombine = static_cast<std::size_t>(ops::Module::combine);
  const double both = sum.module[kDispatch] + sum.module[kCombine];
  const double theirs = std::min(of_experts, both);
  if (both > 0) {
    const double left = 1.0 - theirs / both;
    sum.module[kDispatch] *= left;
    sum.module[kCombine] *= left;
  }
  take_off(std::max(0.0, hidden) - theirs, sum);
  for (double* exposed : {&sum.ep, &sum.cp, &sum.tp, &sum.dp, &sum.copies, &sum.compute}) {
    const double less = std::clamp(hidden, 0.0, *exposed);
    *exposed -= less;
    hidden -= less;
  }
}

// Returns matrix FLOPs of the whole step over all pipeline ranks.
double answer_time(const job::CheckedJob& job, const Pricing& pricing, Workspace& w, TimeAnswer& out,
                   std::vector<Warning>& warnings) {
  const int pp = job.parallel.pp;
  std::vector<OnePass> passes;
  double work = 0;
  for (int rank = 0; rank < pp; ++rank) {
    passes.push_back(one_pass(job, w, rank));
    work += passes.back().forward + passes.back().backward;
  }
  if (!(work * job.micro_batches < kLongestSeconds)) {
    warnings.push_back({"step-too-long", "one step would take more than 11 days of work on its pipeline "
                                         "ranks; is the batch or the sequence right?"});
    return 0;
  }
  const schedule::Schedule& schedule = schedule_of(job);
  const auto simulated = simulated_step(job, w);
  if (!simulated) {
    warnings.push_back({"schedule-refused", simulated.error().front().message});
    return 0;
  }
  const bool overlapping = job.spec->schedule.post_validation;
  double end = 0;
  double optimizer = 0;
  double flops = 0;
  std::vector<StepTime> steps;
  for (int rank = 0; rank < pp; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (pricing.measured != nullptr) pricing.measured->own(owned_parameters(job, w, rank));
    steps.push_back(
        step_time(job, step_price(job, pricing, w.lowered.step_ops[r]), passes[r]));
    const schedule::RankTime& t = w.timing.ranks[r];
    // Steps that run into one another are as far apart as the longest rank's own work lasts.
    const double last =
        to_seconds(overlapping ? t.last_end - t.first_start : t.last_end).value;
    end = std::max(end, last + steps.back().dp_exposed);
    optimizer = std::max(optimizer, steps.back().optimizer);
    flops += total_of(job, w, rank).sum.flops;
    out.stage_forward.push_back(Seconds{passes[r].forward});
    out.stage_backward.push_back(Seconds{passes[r].backward});
  }
  const double per_step = host_step(job, w);
  out.step = Seconds{end + optimizer + per_step};
  const int rank = w.timing.critical_rank;
  out.critical_stage = rank;
  RankTotal total = total_of(job, w, rank);
  const double launch = total.launch();
  const schedule::RankTime& critical = w.timing.ranks[static_cast<std::size_t>(rank)];
  if (schedule.side_by_side) {
    const double hidden = total.duration - to_seconds(critical.busy).value;
    hide_in_pairs(hidden, total.sum);
  }
  const PassTime& sum = total.sum;
  out.compute = Seconds{sum.compute};
  out.launch = Seconds{launch + per_step};
  out.exposed.tp = Seconds{sum.tp};
  out.exposed.cp = Seconds{sum.cp};
  out.exposed.ep = Seconds{sum.ep};
  out.exposed.pp = to_seconds(critical.transfer);
  out.exposed.dp = Seconds{sum.dp + steps[static_cast<std::size_t>(rank)].dp_exposed};
  out.exposed.host = Seconds{sum.copies};
  out.optimizer = Seconds{optimizer};
  out.busy = Seconds{kernels_of_step(job, pricing, w) + optimizer};
  out.bubble = out.step - out.compute - out.launch - out.exposed.total() - out.optimizer;
  // Where steps run into one another, a rank receives its first input beside the step before.
  if (overlapping && out.bubble.value < 0) {
    const Seconds beside = min(Seconds{-out.bubble.value}, out.exposed.pp);
    out.exposed.pp -= beside;
    out.bubble += beside;
  }
  // Rounding to picoseconds can leave a hair below zero where there is no bubble.
  if (out.bubble.value < 0) {
    out.compute += out.bubble;
    out.bubble = Seconds{0};
  }
  for (std::size_t i = 0; i < kModules; ++i) out.by_module[i] = Seconds{sum.module[i]};
  if (pricing.measured != nullptr) pricing.measured->own(owned_parameters(job, w, rank));
  for (const ops::Op& op : w.lowered.step_ops[static_cast<std::size_t>(rank)]) {
    const auto* c = std::get_if<ops::Collective>(&op.work);
    const bool on_dp = c != nullptr && op.stream == ops::Stream::dp;
    const double share = on_dp ? steps[static_cast<std::size_t>(rank)].dp_share : 1.0;
    out.by_module[static_cast<std::size_t>(op.module)] += Seconds{share * step_op_price(op, pricing)};
  }
  return flops;
}

void answer_throughput(const job::CheckedJob& job, double flops_per_step, Seconds step,
                       ThroughputAnswer& out) {
  const job::JobSpec& spec = *job.spec;
  if (step.value <= 0) return;
  const double gpus = job.parallel.world();
  const double tokens = static_cast<double>(spec.batch.global) * spec.batch.sequence;
  out.tokens_per_s = tokens / step.value;
  out.tokens_per_s_per_gpu = out.tokens_per_s / gpus;
  out.samples_per_s = spec.batch.global / step.value;
  const int seen = spec.batch.packed_length > 0 ? spec.batch.packed_length : spec.batch.sequence;
  // Frozen weights have no gradient: two products of three.
  // Assumes: attention's own products, which keep theirs, are counted so as well.
  const double per_token = model_flops_per_token(spec.model, seen, FlopConvention::causal,
                                                 job.padded_vocab) *
                           (spec.lora.on() ? 2.0 / 3.0 : 1.0);
  out.model_flops_per_gpu = Flops{per_token * tokens / gpus} / step;
  out.hardware_flops_per_gpu =
      Flops{flops_per_step / job.parallel.pp} / step;
  const FlopsPerSecond peak = spec.cluster.accelerator.peak_of(job::gemm_dtype(spec.precision));
  if (peak.value > 0) {
    out.mfu = out.model_flops_per_gpu / peak;
    out.hfu = out.hardware_flops_per_gpu / peak;
  }
}

}  // namespace

double owned_parameters(const job::CheckedJob& job, const Workspace& w, int rank) {
  const lower::RankParameters n = lower::rank_parameters(job, w.lowered, rank);
  return n.dense / lower::dense_shards(job) + n.expert / lower::expert_shards(job);
}

void prepare_for_answer(const job::CheckedJob& job, Workspace& w) {
  prepare(job, w, ops::mean_of_most(spread_of(job), job.parallel.ep));
}

Projection project(const job::CheckedJob& job, const calibration::Calibration& calibration,
                   const Options& options, Workspace& w) {
  prepare_for_answer(job, w);
  return answer_of(job, calibration, make_pricing(job, calibration), options, w);
}

Projection answer_of(const job::CheckedJob& job, const calibration::Calibration& calibration,
                     const Pricing& pricing, const Options& options, Workspace& w) {
  Projection out;
  fill_held(job, w);
  answer_parameters(job, w, out.parameters);
  fill_times(job, pricing, w);
  const auto peaks = fill_peaks(job, w);
  if (!peaks) {
    out.warnings.push_back({"schedule-refused", peaks.error().front().message});
    return out;
  }
  answer_memory(job, options, w, out.memory);
  const double flops = answer_time(job, pricing, w, out.time, out.warnings);
  answer_throughput(job, flops, out.time.step, out.throughput);
  out.confidence = confidence_of(job, calibration, out);
  out.calibration = calibration.name;
  append_warnings(job, calibration, out);
  return out;
}

void project_steps(const job::CheckedJob& job, const calibration::Calibration& calibration,
                   const std::function<bool(std::size_t)>& set, Workspace& w,
                   std::span<Seconds> out) {
  bool lowered = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool other_programs = set(i);
    if (!lowered || other_programs) {
      prepare(job, w);
      fill_held(job, w);
    }
    // The next setting takes back what this one changed.
    lowered = !other_programs;
    const Pricing pricing = make_pricing(job, calibration);
    fill_times(job, pricing, w);
    TimeAnswer time;
    std::vector<Warning> warnings;
    answer_time(job, pricing, w, time, warnings);
    out[i] = time.step;
  }
}

}  // namespace eratos::projection
