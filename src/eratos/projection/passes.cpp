#include "eratos/projection/passes.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/measured_prices.h"
#include "eratos/projection/state.h"
#include "eratos/projection/workspace.h"

namespace eratos::projection {

namespace {

using parallel::OutputLayer;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

const PartTime& part_time(const Workspace& w, int place) { return w.parts[w.part_at[at(place)]]; }

std::int64_t bytes_of_items(const Workspace& w, const ops::StageProgram& stage,
                            Bytes memory::ProgramMemory::*which) {
  double bytes = 0;
  for (const ops::StageItem& item : stage.items) {
    bytes += (w.program_memory[item.program].*which).value * item.repeat;
  }
  return static_cast<std::int64_t>(bytes);
}

void fill_bytes(const ops::StageProgram& stage, const Workspace& w, schedule::ChunkCost& cost) {
  cost.held = bytes_of_items(w, stage, &memory::ProgramMemory::saved);
  cost.kept = bytes_of_items(w, stage, &memory::ProgramMemory::put_off);
}

// Two pipeline ranks as a group of two: which levels of the machine they share. Ranks of one pipeline
// are `stride` apart; of the pipelines that lie side by side, the one whose link crosses most counts.
collective::GroupPlacement pair_of(int a, int b, int stride, const hardware::ClusterSpec& cluster) {
  collective::GroupPlacement pair;
  pair.size = 2;
  for (const hardware::NetworkLevel& level : cluster.levels) {
    const auto together = [&](int offset) {
      return (a * stride + offset) / level.gpus == (b * stride + offset) / level.gpus;
    };
    pair.members.push_back(together(0) && together(stride - 1) ? 2 : 1);
  }
  if (pair.members.empty()) pair.members.push_back(2);
  pair.members.back() = 2;
  return pair;
}

// One message by the link model, or as it was measured.
double link_time(ops::CollectiveKind kind, Bytes bytes, const collective::GroupPlacement& placement,
                 const Pricing& pricing) {
  if (pricing.measured != nullptr) return pricing.measured->link(kind, bytes, placement).seconds;
  return collective::time_of(kind, bytes, placement, pricing.links).value;
}

// What leaves a stage, as whole tensors or as parts that are gathered behind.
double sending(const job::CheckedJob& job, const Pricing& pricing, Bytes bytes,
               const collective::GroupPlacement& pair) {
  using ops::CollectiveKind;
  const bool scattered = job.spec->framework.overlap.pp_scattered && job.parallel.tp > 1 &&
                         !job.parallel.sequence_parallel;
  if (!scattered) {
    return link_time(CollectiveKind::send_recv, bytes, pair, pricing);
  }
  const auto& group = pricing.placements[static_cast<std::size_t>(Axis::tp)];
  const Bytes part = bytes / job.parallel.tp;
  return link_time(CollectiveKind::send_recv, part, pair, pricing) +
         link_time(CollectiveKind::all_gather, bytes, group, pricing);
}

Picoseconds rounded(const ChunkTime& t) { return to_picoseconds(Seconds{t.duration}); }

// What all ranks send one another for a cut output layer, one micro-batch: the last stage's output to
// all, in fp32 where it goes beside other work; three numbers a token, one after another (maximum, the
// label's logit, sum of exponentials), and the input's gradient, together with one barrier, one after the
// other with two.
// Source: arXiv 2411.05288, section 4; sail-sg/VocabularyParallelism, broadcast_lm_head_input and
// reduce_lm_head_res_alg1, _alg2. A ring broadcast moves what an all-gather of its result does.
schedule::OutputLinks output_links(const job::CheckedJob& job, const Pricing& pricing, Bytes hidden) {
  const auto& place = pricing.placements[static_cast<std::size_t>(Axis::pp)];
  const auto price = [&](ops::CollectiveKind kind, Bytes bytes) {
    return to_picoseconds(Seconds{link_time(kind, bytes, place, pricing)});
  };
  const OutputLayer output = job.parallel.output_layer;
  const double wide = output == OutputLayer::interlaced ? 1.0 : 2.0;
  const Bytes statistic = bytes_of(lower::context_of(job).tokens(), DType::fp32);
  schedule::OutputLinks links;
  links.broadcast = price(ops::CollectiveKind::all_gather, hidden * wide);
  links.barrier = 3 * price(ops::CollectiveKind::all_reduce, statistic);
  const Picoseconds gradient = price(ops::CollectiveKind::all_reduce, hidden);
  (output == OutputLayer::one_barrier ? links.barrier : links.second_barrier) += gradient;
  // The embedding's shares are summed too, and its gradient goes to all of them. Beside other work where
  // no rank waits; interlaced ranks all stand.
  if (output == OutputLayer::interlaced) {
    links.barrier += price(ops::CollectiveKind::all_reduce, hidden);
    links.second_barrier += links.broadcast;
  }
  return links;
}

// What a rank's compute loses, of the time that an exchange waits for other ranks beside it: the
// waiting kernel holds multiprocessors.
// Source: this project's fit of 80 published runs of Vocab-1 and Vocab-2 against their own baselines
// (arXiv 2411.05288), 4 to 9 %.
constexpr double kWaitingExchange = 0.1;

// Time that the exchange after S waits on a rank, on average. A rank begins S when the pass it is in
// has ended, F of a turn in a forward and B in a backward; the last one is at the start of a backward.
//   B - (F^2 + B^2) / (2 (F + B))
double waiting(double forward, double backward) {
  const double turn = forward + backward;
  return turn > 0 ? std::max(0.0, backward - (forward * forward + backward * backward) / (2 * turn))
                  : 0.0;
}

}  // namespace

PassCounts counts_of(const job::CheckedJob& job, const Workspace& w, int rank, int part) {
  const schedule::Schedule& schedule = schedule_of(job);
  const double m = schedule::micro_batches_of(shape_of(job), schedule.placement);
  if (part == parallel::chunks_of(job.parallel)) {
    if (job.parallel.output_layer != OutputLayer::one_barrier) return {m, m, 0, 0};
    return {m, 0, m, m};
  }
  if (!schedule.splits_backward) return {m, m, 0, 0};
  if (!schedule.side_by_side) return {m, 0, m, m};
  PassCounts n{m, 0, 0, 0};
  for (const schedule::Action& a : w.order.of(rank)) {
    if (a.chunk != part) continue;
    if (a.kind == schedule::Kind::backward) n.backward += 1;
    if (a.kind == schedule::Kind::input_gradient) n.input_gradient += 1;
    if (a.kind == schedule::Kind::weight_gradient) n.weight_gradient += 1;
  }
  return n;
}

void fill_links(const job::CheckedJob& job, const Pricing& pricing, Workspace& w) {
  const job::JobSpec& spec = *job.spec;
  const schedule::Shape shape = shape_of(job);
  const parallel::Placement placement = job.parallel.placement;
  w.links.assign(at(schedule::slot_count(shape)), schedule::LinkCost{});
  if (job.parallel.pp == 1) return;
  const double exposed = sends_block(job) ? 1.0 : spec.framework.overlap.pp_exposed;
  const int stride = parallel::group_of(job.parallel, Axis::pp).stride;
  collective::GroupPlacement last;
  Picoseconds link = 0;
  for (int copy = 0; copy < parallel::copies_of(placement); ++copy) {
    for (int stage = 0; stage + 1 < schedule::stage_count(shape, placement); ++stage) {
      const int here = schedule::slot_at(shape, placement, stage, copy);
      const int next = schedule::slot_at(shape, placement, stage + 1, copy);
      const collective::GroupPlacement pair =
          pair_of(here / shape.chunks, next / shape.chunks, stride, spec.cluster);
      if (!(pair == last)) {
        const double send = sending(job, pricing, w.lowered.stages[0].send, pair);
        link = to_picoseconds(Seconds{exposed * send});
        last = pair;
      }
      w.links[at(here)].forward = link;
      w.links[at(next)].backward = link;
    }
  }
}

void fill_held(const job::CheckedJob& job, Workspace& w) {
  const int chunks = parallel::chunks_of(job.parallel);
  w.chunks.assign(at(job.parallel.pp * chunks), schedule::ChunkCost{});
  const bool cut = job.parallel.output_layer != OutputLayer::last_stage;
  w.outputs.assign(cut ? at(job.parallel.pp) : 0, schedule::OutputCost{});
  w.limits.clear();
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    std::int64_t stage_held = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      schedule::ChunkCost& cost = w.chunks[at(rank * chunks + chunk)];
      fill_bytes(lower::part_of(job, w.lowered, rank, chunk), w, cost);
      // With recomputation weight gradients may need more than was kept from forward.
      stage_held += std::max(cost.held, cost.kept);
    }
    if (cut) {
      w.outputs[at(rank)].held = bytes_of_items(
          w, lower::part_of(job, w.lowered, rank, chunks),
          job.parallel.output_layer == OutputLayer::one_barrier ? &memory::ProgramMemory::put_off
                                                                : &memory::ProgramMemory::saved);
    }
    if (job.spec->schedule.activation_limit > 0) {
      w.limits.push_back(stage_held * job.spec->schedule.activation_limit);
    }
  }
}

namespace {

bool alike(const ops::StageProgram& a, const ops::StageProgram& b) {
  const auto same = [](const ops::StageItem& x, const ops::StageItem& y) {
    return x.program == y.program && x.repeat == y.repeat;
  };
  return a.items.size() == b.items.size() &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), same);
}

// A part that takes what `part` of `rank` does and comes before it: of the chunk before, or of the
// rank before. -1 where neither is alike.
std::int64_t part_like(const job::CheckedJob& job, const Workspace& w, int rank, int part,
                       int parts) {
  const ops::StageProgram& stage = lower::part_of(job, w.lowered, rank, part);
  const std::int64_t here = std::int64_t{rank} * parts + part;
  if (part > 0 && alike(stage, lower::part_of(job, w.lowered, rank, part - 1))) return here - 1;
  if (rank > 0 && alike(stage, lower::part_of(job, w.lowered, rank - 1, part))) return here - parts;
  return -1;
}

PartTime time_part(const ops::StageProgram& stage, const ProgramTime* times, bool halves,
                   double gap, const Pricing& pricing) {
  const auto price = [&](ChunkPass pass) { return time_chunk(stage, times, pass, pricing); };
  PartTime t{price(ChunkPass::forward), price(ChunkPass::backward), {}, {}};
  if (halves) {
    t.input_gradient = price(ChunkPass::input_gradient);
    t.weight_gradient = price(ChunkPass::weight_gradient);
  }
  for (ChunkTime* pass : {&t.forward, &t.backward, &t.input_gradient}) pass->duration += gap;
  return t;
}

void fill_chunk(const PartTime& t, schedule::ChunkCost& cost) {
  cost.forward = rounded(t.forward);
  cost.backward = rounded(t.backward);
  cost.input_gradient = rounded(t.input_gradient);
  cost.weight_gradient = rounded(t.weight_gradient);
  cost.forward_hideable = to_picoseconds(Seconds{t.forward.sum.ep});
  cost.backward_hideable = to_picoseconds(Seconds{t.backward.sum.ep});
}

// A rank's share of a cut output layer, `forward` and `backward` being its chunks'.
void fill_output(const job::CheckedJob& job, double forward, double backward, PartTime& t,
                 schedule::OutputCost& out) {
  const bool one = job.parallel.output_layer == OutputLayer::one_barrier;
  if (job.parallel.output_layer != OutputLayer::interlaced) {
    t.forward.duration += kWaitingExchange * waiting(forward, backward);
  }
  out.output = rounded(t.forward) + (one ? rounded(t.input_gradient) : 0);
  out.output_gradient = rounded(one ? t.weight_gradient : t.backward);
}

}  // namespace

double gap_of(const job::CheckedJob& job) {
  return job.parallel.pp > 1 ? job.spec->framework.host.per_blocking_send.value : 0.0;
}

void fill_times(const job::CheckedJob& job, const Pricing& pricing, Workspace& w) {
  const int pp = job.parallel.pp;
  const int chunks = parallel::chunks_of(job.parallel);
  const int parts = lower::parts_of(job);
  const bool split = schedule_of(job).splits_backward;
  const ProgramTime* const times = times_of(job, pricing, split || parts > chunks, w);
  fill_links(job, pricing, w);
  const double gap = sends_block(job) ? gap_of(job) : 0.0;
  w.parts.clear();
  w.part_at.resize(at(pp * parts));
  for (int rank = 0; rank < pp; ++rank) {
    double forward = 0;
    double backward = 0;
    for (int part = 0; part < parts; ++part) {
      const ops::StageProgram& stage = lower::part_of(job, w.lowered, rank, part);
      std::uint32_t& place = w.part_at[at(rank * parts + part)];
      if (part == chunks) {
        place = static_cast<std::uint32_t>(w.parts.size());
        w.parts.push_back(time_part(stage, times, true, 0, pricing));
        fill_output(job, forward, backward, w.parts.back(), w.outputs[at(rank)]);
        continue;
      }
      const std::int64_t like = part_like(job, w, rank, part, parts);
      place = like >= 0 ? w.part_at[at(like)] : static_cast<std::uint32_t>(w.parts.size());
      if (like < 0) w.parts.push_back(time_part(stage, times, split, gap, pricing));
      const PartTime& t = w.parts[place];
      forward += t.forward.duration;
      backward += t.backward.duration;
      fill_chunk(t, w.chunks[at(rank * chunks + part)]);
    }
  }
  if (parts > chunks) w.output_links = output_links(job, pricing, w.lowered.shares[0].send);
}

void hold_rank(int rank, Workspace& w) {
  fill_bytes(w.lowered.stages[at(rank)], w, w.chunks[at(rank)]);
}

void time_rank(const job::CheckedJob& job, const Pricing& pricing, const ProgramTime* times, int rank,
               Workspace& w) {
  const double gap = sends_block(job) ? gap_of(job) : 0.0;
  w.parts.assign(1, time_part(w.lowered.stages[at(rank)], times, false, gap, pricing));
  w.part_at.assign(at(job.parallel.pp), 0);
  fill_chunk(w.parts[0], w.chunks[at(rank)]);
}

schedule::Costs costs_of(const job::CheckedJob& job, Workspace& w) {
  return {.chunks = w.chunks,
          .links = w.links,
          // Source: docs/MODEL.md, schedule: Megatron-LM's batched sends keep both sides.
          .sends = schedule::Sends::blocking,
          .outputs = w.outputs,
          .output_links = job.parallel.output_layer == OutputLayer::last_stage ? schedule::OutputLinks{}
                                                                               : w.output_links,
          .limits = w.limits};
}

namespace {

OnePass sum_of_parts(const job::CheckedJob& job, const Workspace& w, int rank,
                     double ChunkTime::*which, double gap) {
  const int parts = lower::parts_of(job);
  const double copies = parallel::copies_of(job.parallel.placement);
  const bool split = schedule_of(job).splits_backward && !schedule_of(job).side_by_side;
  OnePass pass;
  for (int part = 0; part < parts; ++part) {
    const PartTime& t = part_time(w, rank * parts + part);
    const bool model = part < parallel::chunks_of(job.parallel);
    const double wait = model ? gap : 0.0;
    pass.forward += (t.forward.*which + wait) / copies;
    pass.backward += ((split && model ? t.input_gradient.*which + t.weight_gradient.*which
                                      : t.backward.*which) +
                      wait) /
                     copies;
  }
  return pass;
}

}  // namespace

OnePass one_pass(const job::CheckedJob& job, const Workspace& w, int rank) {
  return sum_of_parts(job, w, rank, &ChunkTime::duration, 0);
}

OnePass longest_pass(const job::CheckedJob& job, const Workspace& w, int rank) {
  return sum_of_parts(job, w, rank, &ChunkTime::longest, gap_of(job));
}

double kernels_of_step(const job::CheckedJob& job, const Pricing& pricing, const Workspace& w) {
  const double kappa = pricing.job->spec->framework.overlap.contention;
  const auto alone = [&](const ChunkTime& t) { return t.sum.compute - kappa * t.sum.hidden; };
  double all = 0;
  for (const std::uint32_t place : w.part_at) {
    all += alone(w.parts[place].forward) + alone(w.parts[place].backward);
  }
  const double m = schedule::micro_batches_of(shape_of(job), schedule_of(job).placement);
  return all * m / job.parallel.pp;
}

RankTotal total_of(const job::CheckedJob& job, const Workspace& w, int rank) {
  const int parts = lower::parts_of(job);
  RankTotal total;
  for (int part = 0; part < parts; ++part) {
    const PartTime& t = part_time(w, rank * parts + part);
    const PassCounts n = counts_of(job, w, rank, part);
    const std::array<std::pair<const ChunkTime*, double>, 4> passes{
        {{&t.forward, n.forward},
         {&t.backward, n.backward},
         {&t.input_gradient, n.input_gradient},
         {&t.weight_gradient, n.weight_gradient}}};
    for (const auto& [time, count] : passes) {
      add(total.sum, time->sum, count);
      total.duration += time->duration * count;
    }
  }
  return total;
}

}  // namespace eratos::projection
