#include "eratos/projection/ranks.h"

#include <algorithm>
#include <string>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/passes.h"
#include "eratos/projection/routing.h"
#include "eratos/projection/state.h"
#include "eratos/projection/workspace.h"

namespace eratos::projection {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Micro-batches that each rank has in flight at its peak, where each keeps `bytes`.
void find_counts(const job::CheckedJob& job, std::int64_t bytes, schedule::Order& order,
                 schedule::Peaks& out) {
  schedule::ChunkCost chunk;
  chunk.held = bytes;
  const std::vector<schedule::ChunkCost> chunks(at(job.parallel.pp), chunk);
  schedule::Costs costs;
  costs.chunks = chunks;
  const auto found = schedule::find_peaks(schedule_of(job), shape_of(job), costs, order, out);
  ERATOS_CHECK(found.has_value());
}

Diagnostic because(std::string field, std::string message, std::string cure) {
  return {.message = std::move(message), .cure = std::move(cure), .field = std::move(field)};
}

}  // namespace

std::optional<Diagnostic> Ranks::refusal(const job::CheckedJob& job) {
  const schedule::Schedule& schedule = schedule_of(job);
  const std::string name(schedule.name);
  if (parallel::chunks_of(job.parallel) > 1) {
    return because("parallel.vpp",
                   "the ranks of " + name + " hold " +
                       std::to_string(parallel::chunks_of(job.parallel)) +
                       " chunks, which share their memory: their layers are not chosen stage by stage",
                   "set parallel.vpp: 1 and schedule.algorithm: auto");
  }
  if (job.parallel.output_layer != parallel::OutputLayer::last_stage) {
    return because("schedule.output_layer", "all ranks hold a share of the output layer",
                   "set schedule.output_layer: last-stage");
  }
  if (schedule.splits_backward || schedule.generate_for != nullptr) {
    return because("schedule.algorithm",
                   name + (schedule.splits_backward
                               ? " runs weight gradients apart, which recomputation delays"
                               : " orders its passes by their times"),
                   "set schedule.algorithm: auto");
  }
  if (job.spec->schedule.post_validation) {
    return because("schedule.post_validation", "steps run into one another",
                   "set schedule.post_validation: false");
  }
  if (!spread_of(job).even()) {
    return because("moe.routing",
                   "under uneven routing what fits is a probability over all ranks at once",
                   "set moe.routing: balanced");
  }
  return schedule::refusal(schedule, shape_of(job));
}

Ranks::Ranks(const job::CheckedJob& job, const calibration::Calibration& calibration)
    : job_(job),
      pricing_(make_pricing(job, calibration)),
      state_(state_rules(job)),
      frame_(frame_of(job)),
      workspace_(make_workspace()) {
  Workspace& w = *workspace_;
  find_counts(job, 1, order_, held_);
  find_counts(job, 0, order_, empty_);
  const auto made = schedule::make_order(schedule_of(job), shape_of(job), order_);
  ERATOS_CHECK(made.has_value());
  set_.start(job, ops::mean_of_most(spread_of(job), job.parallel.ep));
  lower::lower_stages(job, set_, w.lowered);
  price_new_programs();
  fill_held(job, w);
  fill_links(job, pricing_, w);
}

// Programs that a rank has met for the first time.
void Ranks::price_new_programs() {
  Workspace& w = *workspace_;
  const std::size_t count = w.lowered.program_count;
  if (w.program_memory.size() < count) w.program_memory.resize(count);
  times_.resize(count);
  for (; priced_ < count; ++priced_) {
    const ops::Program& p = w.lowered.programs[priced_];
    memory::walk(p, job_.spec->framework.memory.allocator_rounding, false, w.program_memory[priced_]);
    time_program(p, pricing_, false, times_[priced_]);
  }
}

void Ranks::put(int rank, int first, std::span<const std::uint8_t> full) {
  Workspace& w = *workspace_;
  rank_ = rank;
  job::VirtualStage stage;
  stage.first_layer = first;
  stage.layers = static_cast<int>(full.size());
  stage.embedding = rank == 0;
  stage.output = rank == job_.parallel.pp - 1;
  if (stage.output && job_.spec->mtp) stage.mtp = job_.spec->model.mtp_layers;
  lower::lower_stage(job_, at(rank), stage, full, set_, w.lowered);
  price_new_programs();
}

const memory::StageMemory& Ranks::memory() {
  Workspace& w = *workspace_;
  hold_rank(rank_, w);
  w.peaks = w.chunks[at(rank_)].held > 0 ? held_ : empty_;
  rank_memory(job_, state_, frame_, rank_, w.program_memory, w, memory_);
  return memory_;
}

RankCost Ranks::cost() {
  Workspace& w = *workspace_;
  time_rank(job_, pricing_, times_.data(), rank_, w);
  lower::lower_step(job_, w.lowered, rank_, w.step);
  const StepTime step =
      step_time(job_, step_price(job_, pricing_, w.step), one_pass(job_, w, rank_));
  const schedule::ChunkCost& chunk = w.chunks[at(rank_)];
  return {chunk.forward, chunk.backward, step.dp_exposed, step.optimizer,
          gathered_tensors(job_, w, rank_)};
}

std::span<const schedule::LinkCost> Ranks::links() const { return workspace_->links; }

double Ranks::host(double most_tensors) const { return host_step(job_, most_tensors); }

double Ranks::step(std::span<const RankCost* const> ranks) {
  Workspace& w = *workspace_;
  ERATOS_CHECK(ranks.size() == at(job_.parallel.pp));
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    w.chunks[r].forward = ranks[r]->forward;
    w.chunks[r].backward = ranks[r]->backward;
  }
  const auto done = simulated_step(job_, w);
  ERATOS_CHECK(done.has_value());
  double end = 0;
  double optimizer = 0;
  double tensors = 0;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    end = std::max(end, to_seconds(w.timing.ranks[r].last_end).value + ranks[r]->exposed);
    optimizer = std::max(optimizer, ranks[r]->optimizer);
    tensors = std::max(tensors, ranks[r]->tensors);
  }
  return end + optimizer + host(tensors);
}

}  // namespace eratos::projection
