#include "eratos/projection/picture.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "eratos/lower/lower.h"
#include "eratos/projection/compose.h"
#include "eratos/projection/passes.h"
#include "eratos/projection/state.h"
#include "eratos/projection/time.h"
#include "eratos/projection/routing.h"

namespace eratos::projection {

namespace {

using schedule::Action;
using schedule::Kind;

// The list of ops an action runs, and which of them.
struct Run {
  const std::vector<ops::Op> ops::Program::*list = nullptr;
  bool weight_gradients = true;
  bool others = true;
  bool backwards = false;  // items from the last to the first
};

std::vector<Run> runs_of(Kind kind, parallel::OutputLayer output) {
  const Run forward{&ops::Program::forward};
  const Run whole{&ops::Program::backward, true, true, true};
  const Run gradient{&ops::Program::backward, false, true, true};
  const Run weights{&ops::Program::backward, true, false, true};
  const bool one = output == parallel::OutputLayer::one_barrier;
  switch (kind) {
    case Kind::forward:
      return {forward};
    case Kind::backward:
      return {whole};
    case Kind::input_gradient:
      return {gradient};
    case Kind::weight_gradient:
      return {weights};
    case Kind::output:
      return one ? std::vector{forward, gradient} : std::vector{forward};
    case Kind::output_gradient:
      return {one ? weights : whole};
  }
  return {};
}

std::string name_of_op(const ops::Op& op) {
  std::string name(ops::name_of(op.module));
  if (const auto* c = std::get_if<ops::Collective>(&op.work)) name += " " + std::string(ops::name_of(c->kind));
  if (op.pass != ops::Pass::forward) name += ", " + std::string(ops::name_of(op.pass));
  return name;
}

struct Place {
  const ops::Op* op = nullptr;
  double start = 0;
  double duration = 0;
};

// Ops of one action on a clock of their own, and where that clock ends.
double lay_out(const job::CheckedJob& job, const Workspace& w, const ops::StageProgram& stage, Kind kind,
               const Pricing& pricing, std::vector<Place>& out) {
  double now = 0;
  for (const Run& run : runs_of(kind, job.parallel.output_layer)) {
    for (std::size_t i = 0; i < stage.items.size(); ++i) {
      const ops::StageItem& item = stage.items[run.backwards ? stage.items.size() - 1 - i : i];
      for (int n = 0; n < item.repeat; ++n) {
        for (const ops::Op& op : w.lowered.programs[item.program].*run.list) {
          const bool is_weight = op.pass == ops::Pass::wgrad;
          if (is_weight ? !run.weight_gradients : !run.others) continue;
          const double t = price(op, pricing);
          if (t <= 0) continue;
          double hidden = 0;
          if (const auto* c = std::get_if<ops::Collective>(&op.work)) hidden = c->overlappable;
          if (const auto* h = std::get_if<ops::HostCopy>(&op.work)) hidden = h->overlappable;
          out.push_back({&op, now, t});
          now += t * (1.0 - hidden);
        }
      }
    }
  }
  for (const Place& p : out) now = std::max(now, p.start + p.duration);
  return now;
}

// The actions of `micro_batch` on one rank, op by op.
void draw_ops(const job::CheckedJob& job, const Pricing& pricing, const Workspace& w, int rank,
              int micro_batch, const StepPicture& picture, std::vector<OpSpan>& out) {
  const auto first = static_cast<std::size_t>(picture.order.first[static_cast<std::size_t>(rank)]);
  const auto actions = picture.order.of(rank);
  std::vector<Place> places;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action& a = actions[i];
    if (a.micro_batch != micro_batch) continue;
    const bool share = a.kind == Kind::output || a.kind == Kind::output_gradient;
    const int part = share ? parallel::chunks_of(job.parallel) : a.chunk;
    places.clear();
    const double length =
        lay_out(job, w, lower::part_of(job, w.lowered, rank, part), a.kind, pricing, places);
    if (length <= 0) continue;
    const schedule::Interval& at = picture.intervals[first + i];
    const double stretch = to_seconds(at.end - at.start).value / length;
    for (const Place& p : places) {
      out.push_back({name_of_op(*p.op), p.op->stream,
                     at.start + to_picoseconds(Seconds{p.start * stretch}),
                     to_picoseconds(Seconds{p.duration * stretch}), a.micro_batch});
    }
  }
}

// What follows a rank's last action: gradients reduced and parameters gathered as far as they are not
// hidden, then the update.
void draw_step(const StepTime& step, Picoseconds last_end, std::vector<OpSpan>& out) {
  const Picoseconds exposed = to_picoseconds(Seconds{step.dp_exposed});
  if (exposed > 0) {
    out.push_back({"gradients and parameters, not hidden", ops::Stream::dp, last_end, exposed, -1});
  }
  if (step.optimizer > 0) {
    out.push_back({"optimizer", ops::Stream::compute, last_end + exposed,
                   to_picoseconds(Seconds{step.optimizer}), -1});
  }
}

}  // namespace

schedule::Costs StepPicture::costs() const {
  return {.chunks = chunks,
          .links = links,
          .sends = sends,
          .outputs = outputs,
          .output_links = output_links};
}

Result<StepPicture> picture(const job::CheckedJob& job, const calibration::Calibration& calibration,
                            int micro_batch, Workspace& w) {
  const schedule::Schedule& schedule = schedule_of(job);
  const schedule::Shape shape = shape_of(job);
  const int most = schedule::micro_batches_of(shape, schedule.placement);
  if (micro_batch < 0 || micro_batch >= most) {
    return fault({.message = "there is no micro-batch " + std::to_string(micro_batch),
                  .cure = "choose one of 0 to " + std::to_string(most - 1)});
  }
  prepare(job, w, ops::mean_of_most(spread_of(job), job.parallel.ep));
  fill_held(job, w);
  const Pricing pricing = make_pricing(job, calibration);
  fill_times(job, pricing, w);
  const schedule::Costs costs = costs_of(job, w);
  StepPicture out;
  out.schedule = std::string(schedule.name);
  if (auto made = schedule::make_order(schedule, shape, costs, out.order); !made) {
    return faults(made.error());
  }
  if (auto done = schedule::simulate(out.order, costs, w.schedule, out.timing, &out.intervals); !done) {
    return faults(done.error());
  }
  if (auto peaks = fill_peaks(job, w); !peaks) return faults(peaks.error());
  out.chunks = w.chunks;
  out.links = w.links;
  out.outputs = w.outputs;
  out.output_links = costs.output_links;
  out.sends = costs.sends;
  const memory::StateRules state = state_rules(job);
  const memory::StageInput frame = frame_of(job);
  for (int rank = 0; rank < job.parallel.pp; ++rank) {
    RankPicture& r = out.ranks.emplace_back();
    draw_ops(job, pricing, w, rank, micro_batch, out, r.ops);
    const StepPrice step =
        step_price(job, pricing, w.lowered.step_ops[static_cast<std::size_t>(rank)]);
    draw_step(step_time(job, step, one_pass(job, w, rank)),
              out.timing.ranks[static_cast<std::size_t>(rank)].last_end, r.ops);
    memory::StageMemory stage;
    rank_memory(job, state, frame, rank, w.program_memory, w, stage);
    r.base = static_cast<std::int64_t>((stage.parameters + stage.gradients + stage.optimizer).value);
  }
  return out;
}

}  // namespace eratos::projection
