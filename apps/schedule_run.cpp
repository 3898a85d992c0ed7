#include "apps/schedule_run.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "eratos/parallel/schedules.h"
#include "eratos/report/quantity.h"
#include "eratos/schedule/bounds.h"
#include "eratos/schedule/optimal.h"
#include "eratos/schedule/steady.h"
#include "eratos/solver/solver.h"

namespace eratos::apps {

namespace {

using schedule::Schedule;

// Chunks a rank when --vpp does not say: what the schedule is made for.
int own_chunks(const Schedule& s) {
  const parallel::ScheduleFacts* facts = parallel::find_schedule_facts(s.name);
  const bool any = facts != nullptr && facts->most_vpp == 0;
  return std::max(s.chunks, any ? 2 : 1);
}

bool over_limit(const schedule::Timing& t, const ScheduleCosts& costs) {
  for (std::size_t r = 0; r < costs.limits.size(); ++r) {
    if (t.peaks.ranks[r].held > costs.limits[r]) return true;
  }
  return false;
}

Result<Ran> begun(const ScheduleRequest& request, const Schedule& s, const schedule::Shape& shape) {
  if (auto why = schedule::refusal(s, shape)) return fault(std::move(*why));
  Result<ScheduleCosts> costs = costs_of(request, shape, s.placement, s.splits_backward);
  if (!costs) return faults(std::move(costs.error()));
  Ran out;
  out.costs = std::move(*costs);
  out.run.name = s.name;
  out.run.shape = shape;
  out.run.placement = s.placement;
  out.run.one_held = out.costs.one_held;
  return out;
}

void finish(const Schedule& s, Ran& ran) {
  ran.run.over_limit = over_limit(ran.run.timing, ran.costs);
  ran.run.bounds = schedule::bounds(s, ran.run.shape, ran.costs.view);
}

// The backward is split where its halves are known: an order may still run them together.
Result<schedule::OptimalProblem> problem_of(const ScheduleRequest& request, ScheduleCosts& costs) {
  schedule::OptimalProblem problem;
  problem.shape = request.shape;
  // Every action is a choice at least; costs of a shape beyond are not worth making.
  const schedule::Shape& shape = request.shape;
  if (1.0 * shape.pp * shape.chunks * shape.micro_batches > schedule::kMostOrderChoices) {
    return fault({.message = fmt::format("{} ranks of {} chunks and {} micro-batches are too many "
                                         "for a search of all orders",
                                         shape.pp, shape.chunks, shape.micro_batches),
                  .cure = "lower one of them, or choose zb-auto or zbv-greedy",
                  .field = "batch.global"});
  }
  problem.splits_backward = !request.times || request.times->split;
  Result<ScheduleCosts> made =
      costs_of(request, problem.shape, problem.placement, problem.splits_backward);
  if (!made) return faults(std::move(made.error()));
  costs = std::move(*made);
  problem.costs = costs.view;
  return problem;
}

Result<Ran> ran_from(const ScheduleRequest& request, ScheduleCosts costs,
                     Result<schedule::Solution> solution) {
  if (!solution) return faults(std::move(solution.error()));
  Ran out;
  out.costs = std::move(costs);
  out.order = std::move(solution->order);
  out.run.name = "optimal";
  out.run.shape = request.shape;
  out.run.one_held = out.costs.one_held;
  schedule::Workspace workspace;
  const Result<void> done =
      schedule::simulate(out.order, out.costs.view, workspace, out.run.timing, &out.timeline);
  if (!done) return faults(done.error());
  out.run.over_limit = over_limit(out.run.timing, out.costs);
  out.run.bounds = schedule::Bounds{solution->lower, solution->makespan};
  out.run.remark = solution->proven ? "proven" : "gap " + report::percent(solution->gap);
  out.run.search = fmt::format("{}, from {}", solution->solver, solution->start);
  return out;
}

}  // namespace

// Source: NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py,
// get_forward_backward_func.
const Schedule& automatic(const schedule::Shape& shape) {
  const char* name = shape.pp == 1 ? "none" : shape.chunks > 1 ? "interleaved-1f1b" : "1f1b";
  return *schedule::find(name);
}

schedule::Shape shape_for(const ScheduleRequest& request, const Schedule& s, bool compared) {
  schedule::Shape shape = request.shape;
  if (!request.chunks_given || (compared && schedule::refusal(s, shape))) {
    shape.chunks = own_chunks(s);
  }
  return shape;
}

Result<Ran> run_in_full(const ScheduleRequest& request, const Schedule& s,
                        const schedule::Shape& shape) {
  Result<Ran> out = begun(request, s, shape);
  if (!out) return out;
  schedule::Workspace workspace;
  const schedule::Costs& costs = out->costs.view;
  if (const auto made = schedule::make_order(s, shape, costs, out->order); !made) {
    return faults(made.error());
  }
  const auto done =
      schedule::simulate(out->order, costs, workspace, out->run.timing, &out->timeline);
  if (!done) return faults(done.error());
  finish(s, *out);
  return out;
}

Result<Ran> run_numbers(const ScheduleRequest& request, const Schedule& s,
                        const schedule::Shape& shape) {
  Result<Ran> out = begun(request, s, shape);
  if (!out) return out;
  schedule::Workspace workspace;
  schedule::Order scratch;
  const auto done =
      schedule::simulate_fast(s, shape, out->costs.view, scratch, workspace, out->run.timing);
  if (!done) return faults(done.error());
  finish(s, *out);
  return out;
}

Result<Ran> run_optimal(const ScheduleRequest& request,
                        const std::function<bool(const solver::Found&)>& go_on) {
  ScheduleCosts costs;
  const Result<schedule::OptimalProblem> problem = problem_of(request, costs);
  if (!problem) return faults(problem.error());
  Result<schedule::Solution> solution =
      solver::optimal_order(*problem, {.time_limit = request.time_limit, .go_on = go_on});
  return ran_from(request, std::move(costs), std::move(solution));
}

bool is_small(const ScheduleRequest& request) {
  constexpr std::int64_t kMostChoices = 100;  // some 4 ranks by 6 micro-batches: within a second
  ScheduleCosts costs;
  const Result<schedule::OptimalProblem> problem = problem_of(request, costs);
  return problem && schedule::order_choices(*problem) <= kMostChoices;
}

Result<Ran> run_small_optimal(const ScheduleRequest& request) {
  ScheduleCosts costs;
  const Result<schedule::OptimalProblem> problem = problem_of(request, costs);
  if (!problem) return faults(problem.error());
  const schedule::Effort effort{.moves = 5'000, .branch_nodes = 200'000};
  Result<schedule::Solution> solution = schedule::find_optimal(*problem, nullptr, effort);
  return ran_from(request, std::move(costs), std::move(solution));
}

}  // namespace eratos::apps
