#include "eratos/search/evaluate.h"

#include "eratos/base/check.h"
#include "eratos/projection/candidate.h"

namespace eratos::search {

Evaluator::Evaluator(const Space& space, const calibration::Calibration& calibration,
                     const projection::Options& options)
    : space_(space),
      calibration_(calibration),
      options_(options),
      job_(space.base),
      checked_(std::make_unique<job::CheckedJob>()),
      workspace_(projection::make_workspace()) {
  apply(space_, at_, job_);
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

double Evaluator::figure_of(Seconds step) const {
  return step.value / (static_cast<double>(job_.batch.global) * job_.batch.sequence);
}

projection::Projection Evaluator::project(const Candidate& candidate) {
  return projection::project(checked(candidate), calibration_, options_, *workspace_);
}

Tell Evaluator::answer(const Ask& ask) {
  const job::CheckedJob& job = checked(ask.at);
  if (!priced_) {
    pricing_ = projection::make_pricing(job, calibration_);
    priced_ = true;
  }
  if (ask.what == Ask::What::project) {
    const projection::Simulated s = projection::simulate(job, pricing_, options_, *workspace_);
    return {s.fits, s.least_peak, s.device_peak, figure_of(s.step)};
  }
  const projection::Screen s =
      projection::screen_closely(job, calibration_, pricing_, options_, *workspace_);
  return {s.fits, s.least_peak, s.device_peak, figure_of(s.step_lower_bound)};
}

}  // namespace eratos::search
