#include "eratos/projection/compose.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "eratos/kernel/kernel.h"
#include "eratos/lower/lower.h"
#include "eratos/lower/step.h"
#include "eratos/projection/state.h"

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

StepTime step_time(const job::CheckedJob& job, const Pricing& pricing, const Workspace& w, int rank,
                   double forward, double backward) {
  StepTime out;
  double reduce = 0;
  double may_hide = 0;  // of it
  double reduce_share = 0;
  double gather = 0;
  double gather_share = 0;
  double host = 0;
  for (const ops::Op& op : w.lowered.step_ops[static_cast<std::size_t>(rank)]) {
    const double t = price(op, pricing);
    const auto* c = std::get_if<ops::Collective>(&op.work);
    if (c == nullptr || op.stream != ops::Stream::dp) {
      out.optimizer += t;
      if (c == nullptr) host += op.kernels * job.spec->framework.host.per_kernel.value;
    } else if (op.module == ops::Module::parameter_gather) {
      gather += t;
      gather_share = std::max(gather_share, c->overlappable);
    } else {
      reduce += t;
      if (c->overlappable > 0) may_hide += t;
      reduce_share = std::max(reduce_share, c->overlappable);
    }
  }
  // The gradient's norm has come back to the host before the update is launched.
  out.optimizer = std::max(out.optimizer, host);
  const double kappa = job.spec->framework.overlap.contention;
  const double hidden_reduce = std::min(may_hide, reduce_share * backward);
  const double hidden_gather = std::min(gather, gather_share * forward);
  out.dp_exposed = reduce - hidden_reduce + gather - hidden_gather +
                   kappa * (hidden_reduce + hidden_gather);
  if (reduce + gather > 0) out.dp_share = out.dp_exposed / (reduce + gather);
  return out;
}

}  // namespace eratos::projection
