#include "eratos/projection/compose.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "eratos/kernel/kernel.h"
#include "eratos/lower/lower.h"
#include "eratos/lower/step.h"
#include "eratos/projection/measured_prices.h"
#include "eratos/projection/state.h"
#include "eratos/schedule/steady.h"

namespace eratos::projection {

WorkspacePtr make_workspace() { return WorkspacePtr(new Workspace); }
void WorkspaceDeleter::operator()(Workspace* w) const { delete w; }

double bound_of(const std::vector<ops::Op>& list, const kernel::KernelContext& kernels) {
  double seconds = 0;
  for (const ops::Op& op : list) {
    if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
      seconds += kernel::lower_bound(*g, kernels).value;
    } else if (const auto* a = std::get_if<ops::Attention>(&op.work)) {
      seconds += kernel::lower_bound(*a, kernels).value;
    } else if (const auto* e = std::get_if<ops::Elementwise>(&op.work); e != nullptr && op.kernels > 0) {
      seconds += kernel::lower_bound(*e, kernels).value;
    }
  }
  return seconds;
}

namespace {

// Share of a part's 16-bit peak that a whole layer reaches: norms, attention and tensor parallelism's
// collectives are counted as time of its products.
// Assumes: three tenths. Of 375 published peaks with two pipeline ranks those with a lag begin where a
// layer's products at 0.2 to 0.4 of the peak outlast what the host needs for the layer.
constexpr double kLayerOfPeak = 0.3;

// Layers of a rank, and the weights of their products, both summed over its chunks.
struct RankLayers {
  double count = 0;
  double weights = 0;
};

RankLayers layers_of(const job::CheckedJob& job, int rank, const Workspace& w) {
  RankLayers out;
  for (int part = 0; part < parallel::chunks_of(job.parallel); ++part) {
    for (const ops::StageItem& item : lower::part_of(job, w.lowered, rank, part).items) {
      const memory::ProgramMemory& p = w.program_memory[item.program];
      const double weights = p.dense_matrix + p.expert_matrix;
      if (weights <= 0) continue;
      out.count += item.repeat;
      out.weights += weights * item.repeat;
    }
  }
  return out;
}

// May the host of this job be ahead of its devices?
bool host_runs_ahead(const job::CheckedJob& job) {
  const framework::MemoryOverheads& rules = job.spec->framework.memory;
  if (job.parallel.tp < 2 || rules.lagging_layers <= 0) return false;
  const bool wide = rules.lagging_group_nodes > 0 &&
                    job.parallel.tp > rules.lagging_group_nodes * tp_ranks_together(job);
  const bool large = rules.lagging_nodes > 0 && job.spec->cluster.nodes > rules.lagging_nodes;
  return job.parallel.pp > 1 ? !wide && !large : wide || !large;
}

// Does the device take longer for a layer than the host? Of the mean of its two passes.
bool device_bound(const job::CheckedJob& job, const RankLayers& layers) {
  const layer::LayerContext c = lower::context_of(job);
  const double peak = job.spec->cluster.accelerator.peak_of(c.activation).value;
  if (peak <= 0 || layers.count <= 0) return true;
  const double flops = 3.0 * c.tokens() * layers.weights / layers.count;
  return flops > layer_host(job) * kLayerOfPeak * peak;
}

}  // namespace

double lagging_buffers(const job::CheckedJob& job, int rank, const Workspace& w) {
  if (!host_runs_ahead(job)) return 0;
  const double most = job.spec->framework.memory.lagging_layers;
  const RankLayers layers = layers_of(job, rank, w);
  double passes = most;
  if (job.parallel.pp == 1) {
    // The host starts a step with nothing ahead.
    if (job.micro_batches == 1) passes = std::min(most, layers.count / 2);
  } else {
    double in_flight = 0;
    const int chunks = parallel::chunks_of(job.parallel);
    for (int part = 0; part < chunks; ++part) {
      in_flight += w.peaks.in_flight[static_cast<std::size_t>(rank * chunks + part)];
    }
    in_flight /= chunks;
    const bool behind = job.micro_batches > 1 && device_bound(job, layers);
    passes = std::min(most, layers.count * std::max(behind ? 2.0 : 0.0, in_flight - 2));
  }
  return 2.0 * passes * (1.0 + 1.0 / job.parallel.tp);
}

memory::StageInput frame_of(const job::CheckedJob& job) {
  const job::JobSpec& spec = *job.spec;
  const schedule::Schedule& schedule = schedule_of(job);
  const layer::LayerContext c = lower::context_of(job);
  memory::StageInput in;
  in.splits_backward = schedule.splits_backward;
  in.whole_too = schedule.side_by_side;
  in.chunk_count = lower::parts_of(job);
  in.model_chunks = parallel::chunks_of(job.parallel);
  in.vpp = job.parallel.vpp;
  in.gradients_from_start =
      spec.framework.state.contiguous_gradient_buffer || job.micro_batches > 1;
  in.has_tensor_parallel = job.parallel.tp > 1;
  in.hidden_buffer = bytes_of(c.tokens() * spec.model.hidden, c.activation);
  in.communicators = communicators(job);
  in.all_to_all_peers = all_to_all_peers(job);
  in.reduces_gradients = lower::dense_shards(job) > 1;
  return in;
}

memory::StageInput rank_input(const job::CheckedJob& job, const memory::StageInput& frame, int rank,
                              Workspace& w) {
  const int chunks = frame.model_chunks;
  w.stage_programs.clear();
  w.in_flight.clear();
  w.waiting.clear();
  int peak_chunk = 0;
  for (int part = 0; part < frame.chunk_count; ++part) {
    w.stage_programs.push_back(&lower::part_of(job, w.lowered, rank, part));
    if (part == chunks) {
      // With one barrier a share has its gradients of the input behind it when others wait.
      const bool one = job.parallel.output_layer == parallel::OutputLayer::one_barrier;
      const int held = w.peaks.outputs[static_cast<std::size_t>(rank)];
      w.in_flight.push_back(one ? 0 : held);
      w.waiting.push_back(one ? held : 0);
      continue;
    }
    const auto slot = static_cast<std::size_t>(rank * chunks + part);
    w.in_flight.push_back(w.peaks.in_flight[slot]);
    w.waiting.push_back(w.peaks.waiting[slot]);
    // The forward that reaches the peak is of the deepest chunk that holds anything.
    if (w.in_flight.back() > 0) peak_chunk = part;
  }
  memory::StageInput in = frame;
  in.chunks = w.stage_programs.data();
  in.in_flight = w.in_flight.data();
  in.waiting = in.splits_backward || in.chunk_count > chunks ? w.waiting.data() : nullptr;
  in.peak_chunk = peak_chunk;
  in.lagging_buffers = lagging_buffers(job, rank, w);
  in.stage_output = kept_output(job, rank);
  return in;
}

memory::StageInput rank_input(const job::CheckedJob& job, int rank, Workspace& w) {
  return rank_input(job, frame_of(job), rank, w);
}

void rank_memory(const job::CheckedJob& job, const memory::StateRules& state,
                 const memory::StageInput& frame, int rank,
                 const std::vector<memory::ProgramMemory>& programs, Workspace& w,
                 memory::StageMemory& out) {
  memory::stage_memory(programs, rank_input(job, frame, rank, w), state, job.spec->framework, out);
}

double step_op_price(const ops::Op& op, const Pricing& pricing) {
  return pricing.measured != nullptr ? pricing.measured->price(op, nullptr).seconds
                                     : price(op, pricing);
}

StepPrice step_price(const job::CheckedJob& job, const Pricing& pricing,
                     const std::vector<ops::Op>& ops) {
  StepPrice out;
  double host = 0;
  for (const ops::Op& op : ops) {
    const double t = step_op_price(op, pricing);
    const auto* c = std::get_if<ops::Collective>(&op.work);
    if (c == nullptr || op.stream != ops::Stream::dp) {
      out.optimizer += t;
      if (c == nullptr) host += op.kernels * job.spec->framework.host.per_kernel.value;
    } else if (op.module == ops::Module::parameter_gather) {
      out.gather += t;
      out.gather_share = std::max(out.gather_share, c->overlappable);
    } else {
      out.reduce += t;
      if (c->overlappable > 0) out.may_hide += t;
      out.reduce_share = std::max(out.reduce_share, c->overlappable);
    }
  }
  // The gradient's norm has come back to the host before the update is launched.
  out.optimizer = std::max(out.optimizer, host);
  return out;
}

StepTime step_time(const job::CheckedJob& job, const StepPrice& p, const OnePass& pass) {
  StepTime out;
  out.optimizer = p.optimizer;
  const double kappa = job.spec->framework.overlap.contention;
  const double hidden_reduce = std::min(p.may_hide, p.reduce_share * pass.backward);
  const double hidden_gather = std::min(p.gather, p.gather_share * pass.forward);
  out.dp_exposed = p.reduce - hidden_reduce + p.gather - hidden_gather +
                   kappa * (hidden_reduce + hidden_gather);
  if (p.reduce + p.gather > 0) out.dp_share = out.dp_exposed / (p.reduce + p.gather);
  return out;
}

namespace {

bool gathers_by_tensor(const job::CheckedJob& job) {
  return job.parallel.sharding == parallel::Sharding::zero1 && job.parallel.dp > 1 &&
         job.spec->framework.host.per_gathered_piece.value != 0;
}

}  // namespace

double gathered_tensors(const job::CheckedJob& job, const Workspace& w, int rank) {
  if (!gathers_by_tensor(job)) return 0;
  double tensors = 0;
  for (int part = 0; part < lower::parts_of(job); ++part) {
    for (const ops::StageItem& item : lower::part_of(job, w.lowered, rank, part).items) {
      for (const ops::Parameter& q : w.lowered.programs[item.program].parameters) {
        if (!q.frozen) tensors += q.copies * item.repeat;
      }
    }
  }
  return tensors;
}

double host_step(const job::CheckedJob& job, double most_tensors) {
  const auto& host = job.spec->framework.host;
  return host.per_step.value + host.per_gathered_piece.value * most_tensors * job.parallel.dp;
}

double host_step(const job::CheckedJob& job, const Workspace& w) {
  if (!gathers_by_tensor(job)) return job.spec->framework.host.per_step.value;
  double most = 0;
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    if (!lower::steps_as_before(job, w.lowered, rank)) {
      most = std::max(most, gathered_tensors(job, w, rank));
    }
  }
  return host_step(job, most);
}

// total_of() counts the passes of an order that mixes whole and split backwards, so it needs all of it.
Result<void> simulated_step(const job::CheckedJob& job, Workspace& w) {
  const schedule::Schedule& schedule = schedule_of(job);
  const schedule::Shape shape = shape_of(job);
  const schedule::Costs costs = costs_of(job, w);
  if (!schedule.side_by_side) {
    return schedule::simulate_fast(schedule, shape, costs, w.order, w.schedule, w.timing);
  }
  auto ordered = schedule::make_order(schedule, shape, costs, w.order);
  return ordered ? schedule::simulate(w.order, costs, w.schedule, w.timing) : ordered;
}

}  // namespace eratos::projection
