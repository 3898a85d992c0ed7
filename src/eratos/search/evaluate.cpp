#include "eratos/search/evaluate.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "eratos/base/check.h"
#include "eratos/parallel/schedules.h"
#include "eratos/projection/candidate.h"
#include "eratos/search/front.h"

namespace eratos::search {

namespace {

job::JobSpec whole_model(const Space& space) {
  job::JobSpec s = space.base;
  for (std::size_t i = kScreenedAxes; i < kAxes; ++i) {
    apply(space, static_cast<AxisId>(i), space.axes[i].size() - 1, s);
  }
  s.layout = job::LayoutSpec{};
  s.parallel.pp = 1;
  s.parallel.vpp = 1;
  s.parallel.sharding = parallel::Sharding::none;
  s.parallel.hsdp_group = 0;
  s.schedule.algorithm = "auto";
  s.offload.optimizer = 0;
  return s;
}

// Where a layer's groups lie does not depend on pp: it and dp are the outermost axes.
bool groups_stay(const Space& space) {
  job::JobSpec s = space.base;
  for (std::size_t i = 0; i < space.values(AxisId::order).size(); ++i) {
    apply(space, AxisId::order, i, s);
    const auto& order = s.parallel.order;
    for (std::size_t inner = 0; inner < 3; ++inner) {
      if (order[inner] == Axis::dp || order[inner] == Axis::pp) return false;
    }
  }
  return true;
}

// Passes of both directions at once hide traffic in one another; ranks that share an output layer
// have programs of their own.
bool has_bound(const Space& space) {
  if (space.base.schedule.output_layer != parallel::OutputLayer::last_stage) return false;
  if (!groups_stay(space)) return false;
  job::JobSpec s = space.base;
  for (std::size_t i = 0; i < space.values(AxisId::schedule).size(); ++i) {
    apply(space, AxisId::schedule, i, s);
    const parallel::ScheduleFacts* facts = parallel::find_schedule_facts(s.schedule.algorithm);
    if (facts != nullptr && facts->side_by_side) return false;
  }
  return true;
}

// What fits and has no time takes longer than is simulated, or its order is refused: nothing is
// slower.
Seconds known_step(bool fits, Seconds step) {
  if (fits && step.value <= 0) return Seconds{std::numeric_limits<double>::infinity()};
  return step;
}

}  // namespace

void make_plain(Tell& tell) {
  tell.per_token = tell.figure;
  tell.along = {static_cast<double>(whole_gib(tell.device_peak)), tell.figure, 0};
  tell.refused_by = -1;
  tell.beyond = 0;
}

Evaluator::Evaluator(const Space& space, const calibration::Calibration& calibration,
                     const projection::Options& options)
    : space_(space),
      calibration_(calibration),
      options_(options),
      job_(space.base),
      whole_(whole_model(space)),
      checked_(std::make_unique<job::CheckedJob>()),
      workspace_(projection::make_workspace()) {
  apply(space_, at_, job_);
  has_bound_ = has_bound(space);
}

const job::CheckedJob& Evaluator::checked(const Candidate& candidate) {
  // A balanced split follows pp and vpp, sequence parallelism tp.
  bool split = false;
  bool cut = false;
  for (std::size_t i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<AxisId>(i);
    const bool follows =
        (axis == AxisId::split && split) || (axis == AxisId::sequence_parallel && cut);
    if (at_.at[i] == candidate.at[i] && !follows) continue;
    split = split || axis == AxisId::pp || axis == AxisId::vpp;
    cut = cut || axis == AxisId::tp;
    apply(space_, axis, candidate.at[i], job_);
  }
  at_ = candidate;
  const bool legal = job::check(job_, *checked_).empty();
  ERATOS_CHECK(legal);
  return *checked_;
}

double Evaluator::per_token(Seconds time) const {
  return time.value / (static_cast<double>(job_.batch.global) * job_.batch.sequence);
}

projection::Projection Evaluator::project(const Candidate& candidate) {
  return projection::project(checked(candidate), calibration_, options_, *workspace_);
}

Tell Evaluator::told(bool fits, Bytes least, Bytes peak, Seconds step, Seconds busy) const {
  Tell out;
  out.fits = fits;
  out.least_peak = least;
  out.device_peak = peak;
  out.figure = per_token(step);
  out.busy = per_token(busy);
  make_plain(out);
  return out;
}

Tell Evaluator::told(const projection::Projection& p) const {
  return told(p.memory.fits, p.memory.least_peak, p.memory.device_peak,
              known_step(p.memory.fits, p.time.step), p.time.busy);
}

void Evaluator::price(const job::CheckedJob& job) {
  if (!priced_) pricing_ = projection::make_pricing(job, calibration_);
  priced_ = true;
}

// A step of m micro-batches on p ranks is no shorter than m / p times the work of one, and with dp
// = world / (tp cp p), m / (p global) is tp cp / (micro world).
Tell Evaluator::bound(const Ask& ask) {
  Tell nothing;  // is known
  nothing.fits = true;
  make_plain(nothing);
  if (!has_bound_) return nothing;
  Tell out = nothing;
  for (std::size_t i = 0; i < static_cast<std::size_t>(AxisId::recompute); ++i) {
    apply(space_, static_cast<AxisId>(i), ask.at.at[i], whole_);
  }
  whole_.recompute = {};
  if (ask.open > AxisId::recompute) {
    apply(space_, AxisId::recompute, ask.at[AxisId::recompute], whole_);
  }
  const auto& p = whole_.parallel;
  const int world = whole_.cluster.gpus();
  whole_.batch.global = whole_.batch.micro * std::max(1, world / (p.tp * p.cp));
  const double tokens = static_cast<double>(whole_.batch.micro) * world * whole_.batch.sequence;
  for (std::size_t i = 0; i < space_.values(AxisId::order).size(); ++i) {
    apply(space_, AxisId::order, i, whole_);
    // Units of recomputed layers may fit the stages of a pipeline alone.
    if (!job::check(whole_, *checked_).empty()) return nothing;
    price(*checked_);
    const projection::LeastWork work = projection::least_work(*checked_, pricing_, *workspace_);
    const double figure = work.all.value * p.tp * p.cp / tokens;
    const double busy = work.kernels.value * p.tp * p.cp / tokens;
    out.figure = i == 0 ? figure : std::min(out.figure, figure);
    out.busy = i == 0 ? busy : std::min(out.busy, busy);
  }
  make_plain(out);
  return out;
}

Tell Evaluator::answer(const Ask& ask) {
  if (ask.what == Ask::What::bound) return bound(ask);
  const job::CheckedJob& job = checked(ask.at);
  price(job);
  if (ask.what == Ask::What::project) {
    const projection::Simulated s = projection::simulate(job, pricing_, options_, *workspace_);
    return told(s.fits, s.least_peak, s.device_peak, known_step(s.fits, s.step), s.busy);
  }
  const projection::Screen s =
      projection::screen_closely(job, calibration_, pricing_, options_, *workspace_);
  return told(s.fits, s.least_peak, s.device_peak, s.step_lower_bound, s.busy_lower_bound);
}

}  // namespace eratos::search
