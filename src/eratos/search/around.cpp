#include "eratos/search/around.h"

#include <algorithm>
#include <memory>

#include "eratos/search/axes.h"

namespace eratos::search {

namespace {

const Rule* refusing(const std::vector<const Rule*>& asked, const Space& space, const Candidate& at,
                     job::CheckedJob& scratch) {
  job::JobSpec job = space.base;
  apply(space, at, job);
  for (const Rule* r : asked) {
    if (r->refuses({space, at, job, scratch})) return r;
  }
  return nullptr;
}

}  // namespace

std::vector<StepAway> steps_around(const Space& space, const Candidate& candidate,
                                   const projection::Options& options, const Aim& aim,
                                   Evaluator& evaluator) {
  const std::vector<const Rule*> asked = rules_of(space);
  const auto scratch = std::make_unique<job::CheckedJob>();
  const Bytes capacity =
      space.base.cluster.accelerator.memory_visible * (1.0 - options.memory_margin);
  std::vector<StepAway> out;
  for (std::size_t i = 0; i < kAxes; ++i) {
    const auto axis = static_cast<AxisId>(i);
    const std::size_t here = candidate.at[i];
    for (std::size_t to = 0; to < space.axes[i].size(); ++to) {
      const std::size_t far = to > here ? to - here : here - to;
      if (far == 0 || (is_numeric(axis) && far > 1)) continue;
      Candidate at = candidate;
      at.at[i] = static_cast<std::uint8_t>(to);
      StepAway step{axis, here, to, refusing(asked, space, at, *scratch)};
      if (step.refused_by == nullptr) {
        const projection::Projection p = evaluator.project(at);
        Tell told = evaluator.told(p);
        judge(aim, space, {Ask::What::project, at}, told);
        step.fits = told.fits;
        if (!step.fits) step.missing = max(Bytes{0}, told.least_peak - capacity);
        step.device_peak = p.memory.device_peak;
        step.limit = told.refused_by;
        step.figure = told.per_token;
        step.aimed = told.figure;
        step.step = p.time.step;
      }
      out.push_back(step);
    }
  }
  return out;
}

const StepAway* best_step(const std::vector<StepAway>& steps, double aimed) {
  const StepAway* best = nullptr;
  for (const StepAway& s : steps) {
    if (s.refused_by != nullptr || s.limit >= 0 || s.aimed >= aimed) continue;
    if (best == nullptr || s.aimed < best->aimed) best = &s;
  }
  return best;
}

std::vector<Loss> losses_of(const projection::Projection& p) {
  const projection::TimeAnswer& t = p.time;
  const double step = t.step.value;
  if (step <= 0) return {};
  const double worked = p.throughput.hfu * step;
  const double again = std::max(0.0, p.throughput.hfu - p.throughput.mfu) * step;
  std::vector<Loss> out{{"bubble", t.bubble / t.step},
                        {"kernel efficiency", std::max(0.0, t.compute.value - worked) / step},
                        {"recomputation", again / step},
                        {"launch", t.launch / t.step},
                        {"optimizer", t.optimizer / t.step},
                        {"exposed tp traffic", t.exposed.tp / t.step},
                        {"exposed cp traffic", t.exposed.cp / t.step},
                        {"exposed ep traffic", t.exposed.ep / t.step},
                        {"exposed pp traffic", t.exposed.pp / t.step},
                        {"exposed dp traffic", t.exposed.dp / t.step},
                        {"exposed host traffic", t.exposed.host / t.step}};
  std::stable_sort(out.begin(), out.end(),
                   [](const Loss& a, const Loss& b) { return a.share > b.share; });
  return out;
}

Loss largest_loss(const projection::Projection& p) {
  const std::vector<Loss> all = losses_of(p);
  return all.empty() ? Loss{} : all[0];
}

bool is_rival(const projection::Projection& best, double best_figure, double figure) {
  return figure * best.time.step.value <= best_figure * best.confidence.step.second.value;
}

Basin basin_of(const std::vector<StepAway>& steps, const projection::Projection& best,
               double figure) {
  Basin out;
  for (const StepAway& s : steps) {
    if (s.refused_by != nullptr || !s.fits) continue;
    ++out.steps;
    if (is_rival(best, figure, s.figure)) ++out.within;
  }
  return out;
}

bool may_run_out(const projection::Projection& p) {
  return p.memory.fits && p.memory.capacity < p.confidence.peak.second;
}

const StepAway* safer_step(const std::vector<StepAway>& steps, const projection::Projection& best) {
  const double band = best.confidence.peak.second / best.memory.device_peak;
  const StepAway* out = nullptr;
  for (const StepAway& s : steps) {
    if (s.refused_by != nullptr || !s.fits || s.limit >= 0) continue;
    if (best.memory.capacity < s.device_peak * band) continue;
    if (out == nullptr || s.figure < out->figure) out = &s;
  }
  return out;
}

}  // namespace eratos::search
