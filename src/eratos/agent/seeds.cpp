#include "eratos/agent/seeds.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "eratos/search/around.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/nearest.h"
#include "eratos/search/sweep.h"

namespace eratos::agent {

namespace {

constexpr const char* kStage = "seeds";
constexpr std::size_t kNearest = 5;
constexpr std::size_t kFamilies = 8;
// Above it, a sweep first: it cuts from the beginning.
constexpr std::uint64_t kSwept = 10'000'000;

const Trial* plant_baseline(Session& session, Seeds& out) {
  const Evaluation own =
      session.evaluate(Patch{}, Fidelity::simulate, "baseline", "the job as it came");
  if (own.trial == nullptr || own.trial->fits()) return own.trial;
  Workshop& workshop = session.workshop();
  const projection::WorkspacePtr w = projection::make_workspace();
  const Trial* best = nullptr;
  for (const search::Neighbour& n : search::nearest_that_fit(
           session.space().base, workshop.calibration(), workshop.options(), kNearest, *w)) {
    const Evaluation e = session.evaluate(workshop.patch_to(n.spec), Fidelity::simulate, "baseline",
                                          "near the job, and fits: " + n.change);
    if (e.trial == nullptr || !e.trial->fits()) continue;
    out.nearest.push_back(e.trial);
    if (best == nullptr || best->projected.tokens_per_s_per_gpu.value <
                               e.trial->projected.tokens_per_s_per_gpu.value) {
      best = e.trial;
    }
  }
  return best;
}

struct Single {
  search::AxisId axis = search::AxisId::tp;
  std::string word;
  Patch patch;
  double tokens = 0;
};

// The best legal value of every axis that fits, from `start`, those that gain most first.
std::vector<Single> singles_from(Session& session, const TunedJob& start) {
  const search::Space& space = session.space();
  std::vector<Single> out;
  for (std::size_t a = 0; a < search::kAxes; ++a) {
    const auto axis = static_cast<search::AxisId>(a);
    if (space.values(axis).size() < 2) continue;
    Single best;
    for (std::size_t v = 0; v < space.values(axis).size(); ++v) {
      job::JobSpec spec = start.spec;
      search::apply(space, axis, v, spec);
      const Result<TunedJobPtr> made = session.workshop().make(session.workshop().patch_to(spec));
      if (!made || (*made)->digest == start.digest) continue;
      const projection::Projection p = session.project(**made);
      if (!p.memory.fits || p.throughput.tokens_per_s_per_gpu <= best.tokens) continue;
      best = {axis, space.values(axis)[v].word, (*made)->patch, p.throughput.tokens_per_s_per_gpu};
    }
    if (best.tokens > 0) out.push_back(std::move(best));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Single& x, const Single& y) { return x.tokens > y.tokens; });
  return out;
}

void search_all(Session& session, Seeds& out) {
  Workshop& workshop = session.workshop();
  const search::Space& space = session.space();
  std::vector<search::Found> known;
  if (space.raw() > kSwept) {
    search::Sweep sweep(space, kFamilies);
    known = workshop.search(space, workshop.calibration(), sweep).top;
  }
  search::Exhaustive all(space, {kFamilies, false}, {}, known);
  out.outcome = workshop.search(space, workshop.calibration(), all);
  out.searched = true;
  for (const search::Found& f : out.outcome.top) out.candidates.push_back(f.at);
}

}  // namespace

std::optional<search::Candidate> candidate_of(Session& session, const job::JobSpec& spec) {
  const search::Space& space = session.space();
  Workshop& workshop = session.workshop();
  search::Candidate out;
  for (std::size_t a = 0; a < search::kAxes; ++a) {
    const auto axis = static_cast<search::AxisId>(a);
    const auto with = [&](std::size_t v) {
      job::JobSpec other = spec;
      search::apply(space, axis, v, other);
      return other;
    };
    const std::size_t values = space.values(axis).size();
    const Patch wanted = workshop.patch_to(spec);
    std::size_t v = 0;
    while (v < values && workshop.patch_to(with(v)) != wanted) ++v;
    if (v == values) {
      // A switch that does nothing where it stands: what comes to the same.
      const auto figures = [&](const job::JobSpec& s) {
        const Result<TunedJobPtr> made = workshop.make(workshop.patch_to(s));
        if (!made) return std::pair{0.0, 0.0};
        const projection::Projection p = session.project(**made);
        return std::pair{p.time.step.value, p.memory.device_peak.value};
      };
      const auto own = figures(spec);
      v = 0;
      while (v < values && figures(with(v)) != own) ++v;
      if (v == values) return std::nullopt;
    }
    out.at[a] = static_cast<std::uint8_t>(v);
  }
  return out;
}

Seeds plant_seeds(Session& session, int most) {
  Seeds out;
  const Trial* start = plant_baseline(session, out);
  if (most <= 0 || session.workshop().interrupted()) return out;
  const auto plant = [&](const Patch& patch, const std::string& reason) {
    if (out.trials >= most) return;
    const Evaluation e = session.evaluate(patch, Fidelity::simulate, kStage, reason);
    if (e.how == Answered::paid || e.how == Answered::filtered) ++out.trials;
  };
  search_all(session, out);
  // Half of them, and what is left over, are singles; the optimum is among the trials whatever
  // `most` is.
  const int families = std::min<int>(static_cast<int>(out.candidates.size()), (most + 1) / 2);
  const auto single_most = most - families;
  if (const TunedJobPtr job = start == nullptr ? nullptr : session.job_of(*start)) {
    for (const Single& s : singles_from(session, *job)) {
      if (out.trials >= single_most) break;
      plant(
          s.patch,
          "one axis alone: " + std::string(search::facts_of(s.axis).name) + " " + s.word +
              (start->patch.empty() ? "" : " (from trial " + std::to_string(start->number) + ")"));
    }
  }
  const search::Space& space = session.space();
  for (int i = 0; i < families; ++i) {
    const search::Candidate& at = out.candidates[static_cast<std::size_t>(i)];
    plant(session.patch_of(space, at), i > 0 ? "best of another family of degrees"
                                       : out.outcome.proof.proven
                                           ? "the model's optimum of the whole space, proven"
                                           : "the best of the space as far as it was searched");
  }
  if (out.candidates.empty() || out.trials >= most) return out;
  search::Evaluator evaluator(space, session.workshop().calibration(),
                              session.workshop().options());
  const projection::Projection best = evaluator.project(out.candidates[0]);
  std::vector<search::StepAway> steps = search::steps_around(
      space, out.candidates[0], session.workshop().options(), search::Aim{}, evaluator);
  std::stable_sort(steps.begin(), steps.end(),
                   [](const auto& x, const auto& y) { return x.figure < y.figure; });
  for (const search::StepAway& s : steps) {
    if (s.refused_by != nullptr || !s.fits) continue;
    if (!search::is_rival(best, out.outcome.top[0].per_token, s.figure)) continue;
    search::Candidate at = out.candidates[0];
    at.at[static_cast<std::size_t>(s.axis)] = static_cast<std::uint8_t>(s.to);
    plant(session.patch_of(space, at), "one step from the optimum and within its band: " +
                                           std::string(search::facts_of(s.axis).name) + " " +
                                           space.values(s.axis)[s.to].word);
    out.candidates.push_back(at);
  }
  return out;
}

}  // namespace eratos::agent
