#include <algorithm>
#include <cstddef>

#include "eratos/projection/compose.h"
#include "eratos/projection/state.h"
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
    for (int chunk = 0; chunk < job.parallel.vpp; ++chunk) {
      const auto& stage = w.lowered.stages[static_cast<std::size_t>(chunk * job.parallel.pp + rank)];
      for (const ops::StageItem& item : stage.items) {
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
  out.capacity = job.spec->cluster.accelerator.memory_visible;
  out.margin = options.memory_margin;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    memory::StageMemory stage;
    rank_memory(job, state, rank, w, stage);
    if (rank == 0 || stage.device > out.device_peak) {
      out.device_peak = stage.device;
      out.peak_stage = rank;
    }
    out.allocated_peak = max(out.allocated_peak, stage.allocated);
    out.reserved_peak = max(out.reserved_peak, stage.reserved);
    out.stages.push_back(stage);
  }
  out.fits = out.device_peak <= out.capacity * (1.0 - options.memory_margin);
  memory::module_memory(w.lowered.programs, rank_input(job, out.peak_stage, w), out.saved_by_module);
}

struct RankPasses {
  ChunkTime forward;
  ChunkTime backward;
};

void sum_into(ChunkTime& to, const ChunkTime& from) {
  to.sum.compute += from.sum.compute;
  to.sum.tp += from.sum.tp;
  to.sum.cp += from.sum.cp;
  to.sum.ep += from.sum.ep;
  to.sum.dp += from.sum.dp;
  to.sum.copies += from.sum.copies;
  to.sum.flops += from.sum.flops;
  for (std::size_t i = 0; i < kModules; ++i) to.sum.module[i] += from.sum.module[i];
  to.duration += from.duration;
}

// Passes of every rank, and the costs the schedule needs.
std::vector<RankPasses> time_ranks(const job::CheckedJob& job, const Pricing& pricing, Workspace& w) {
  const job::JobSpec& spec = *job.spec;
  const int pp = job.parallel.pp;
  const int vpp = job.parallel.vpp;
  if (w.program_time.size() < w.lowered.program_count) w.program_time.resize(w.lowered.program_count);
  for (std::size_t i = 0; i < w.lowered.program_count; ++i) {
    time_program(w.lowered.programs[i], pricing, w.program_time[i]);
  }
  std::vector<RankPasses> ranks(static_cast<std::size_t>(pp));
  w.links.assign(static_cast<std::size_t>(pp * vpp), schedule::LinkCost{});
  const double exposed = spec.overlap.p2p ? spec.framework.overlap.pp_exposed : 1.0;
  for (int rank = 0; rank < pp; ++rank) {
    for (int chunk = 0; chunk < vpp; ++chunk) {
      const auto& stage = w.lowered.stages[static_cast<std::size_t>(chunk * pp + rank)];
      const ChunkTime f = time_chunk(stage, w.program_time.data(), false, pricing);
      const ChunkTime b = time_chunk(stage, w.program_time.data(), true, pricing);
      const auto slot = static_cast<std::size_t>(rank * vpp + chunk);
      w.chunks[slot].forward = to_picoseconds(Seconds{f.duration});
      w.chunks[slot].backward = to_picoseconds(Seconds{b.duration});
      const double send =
          collective::time_of(ops::CollectiveKind::send_recv, w.lowered.stages[0].send,
                              pricing.placements[static_cast<std::size_t>(Axis::pp)], pricing.links)
              .value;
      const Picoseconds link = pp > 1 ? to_picoseconds(Seconds{exposed * send}) : 0;
      w.links[slot] = {link, link};
      sum_into(ranks[static_cast<std::size_t>(rank)].forward, f);
      sum_into(ranks[static_cast<std::size_t>(rank)].backward, b);
    }
  }
  return ranks;
}

// Returns matrix FLOPs of one micro-batch over all pipeline ranks.
double answer_time(const job::CheckedJob& job, const Pricing& pricing, Workspace& w, TimeAnswer& out,
                   std::vector<Warning>& warnings) {
  const std::vector<RankPasses> ranks = time_ranks(job, pricing, w);
  double work = 0;
  for (const RankPasses& r : ranks) work += r.forward.duration + r.backward.duration;
  if (!(work * job.micro_batches < kLongestSeconds)) {
    warnings.push_back({"step-too-long", "one step would take more than 11 days of work on its pipeline "
                                         "ranks; is the batch or the sequence right?"});
    return 0;
  }
  const schedule::Schedule& schedule = schedule_of(job);
  const schedule::Shape shape = shape_of(job);
  const auto ordered = schedule::make_order(schedule, shape, w.order);
  const auto simulated =
      ordered ? schedule::simulate(w.order, {w.chunks, w.links, schedule::Sends::blocking},
                                   w.schedule, w.timing)
              : ordered;
  if (!simulated) {
    warnings.push_back({"schedule-refused", simulated.error().front().message});
    return 0;
  }
  double end = 0;
  double optimizer = 0;
  double flops = 0;
  std::vector<StepTime> steps;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    const RankPasses& r = ranks[static_cast<std::size_t>(rank)];
    steps.push_back(step_time(job, pricing, w, rank, r.forward.duration, r.backward.duration));
    const double last = to_seconds(w.timing.ranks[static_cast<std::size_t>(rank)].last_end).value;
    end = std::max(end, last + steps.back().dp_exposed);
    optimizer = std::max(optimizer, steps.back().optimizer);
    flops += r.forward.sum.flops + r.backward.sum.flops;
    out.stage_forward.push_back(Seconds{r.forward.duration});
    out.stage_backward.push_back(Seconds{r.backward.duration});
  }
  const double per_step = job.spec->framework.host.per_step.value;
  out.step = Seconds{end + optimizer + per_step};
  const int rank = w.timing.critical_rank;
  out.critical_stage = rank;
  const RankPasses& r = ranks[static_cast<std::size_t>(rank)];
  const double m = job.micro_batches;
  out.compute = Seconds{m * (r.forward.sum.compute + r.backward.sum.compute)};
  out.launch = Seconds{m * (r.forward.launch() + r.backward.launch()) + per_step};
  out.exposed.tp = Seconds{m * (r.forward.sum.tp + r.backward.sum.tp)};
  out.exposed.cp = Seconds{m * (r.forward.sum.cp + r.backward.sum.cp)};
  out.exposed.ep = Seconds{m * (r.forward.sum.ep + r.backward.sum.ep)};
  out.exposed.pp = to_seconds(w.timing.ranks[static_cast<std::size_t>(rank)].transfer);
  out.exposed.dp = Seconds{m * (r.forward.sum.dp + r.backward.sum.dp) +
                           steps[static_cast<std::size_t>(rank)].dp_exposed};
  out.exposed.host = Seconds{m * (r.forward.sum.copies + r.backward.sum.copies)};
  out.optimizer = Seconds{optimizer};
  out.bubble = out.step - out.compute - out.launch - out.exposed.total() - out.optimizer;
  // Rounding to picoseconds can leave a hair below zero where there is no bubble.
  if (out.bubble.value < 0) {
    out.compute += out.bubble;
    out.bubble = Seconds{0};
  }
  for (std::size_t i = 0; i < kModules; ++i) {
    out.by_module[i] = Seconds{m * (r.forward.sum.module[i] + r.backward.sum.module[i])};
  }
  for (const ops::Op& op : w.lowered.step_ops[static_cast<std::size_t>(rank)]) {
    out.by_module[static_cast<std::size_t>(op.module)] += Seconds{price(op, pricing)};
  }
  return flops;
}

void answer_throughput(const job::CheckedJob& job, double flops_per_micro_batch, Seconds step,
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
      Flops{flops_per_micro_batch * job.micro_batches / job.parallel.pp} / step;
  const FlopsPerSecond peak = spec.cluster.accelerator.peak_of(job::gemm_dtype(spec.precision));
  if (peak.value > 0) {
    out.mfu = out.model_flops_per_gpu / peak;
    out.hfu = out.hardware_flops_per_gpu / peak;
  }
}

}  // namespace

Projection project(const job::CheckedJob& job, const calibration::Calibration& calibration,
                   const Options& options, Workspace& w) {
  Projection out;
  prepare(job, w);
  fill_held(job, w);
  answer_parameters(job, w, out.parameters);
  const auto peaks = schedule::find_peaks(
      schedule_of(job), shape_of(job), {.chunks = w.chunks, .links = {}}, w.order, w.peaks);
  if (!peaks) {
    out.warnings.push_back({"schedule-refused", peaks.error().front().message});
    return out;
  }
  answer_memory(job, options, w, out.memory);
  const Pricing pricing = make_pricing(job, calibration);
  const double flops = answer_time(job, pricing, w, out.time, out.warnings);
  answer_throughput(job, flops, out.time.step, out.throughput);
  const calibration::Residuals& r = calibration.residuals;
  // error = projected / measured - 1, so measured lies between projected / (1 + high) and / (1 + low).
  out.confidence.step = {out.time.step / (1.0 + r.step_high), out.time.step / (1.0 + r.step_low)};
  out.confidence.peak = {out.memory.device_peak / (1.0 + r.peak_high),
                         out.memory.device_peak / (1.0 + r.peak_low)};
  out.confidence.basis = r.basis;
  out.calibration = calibration.name;
  append_warnings(job, calibration, out);
  return out;
}

}  // namespace eratos::projection
