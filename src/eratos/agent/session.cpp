#include "eratos/agent/session.h"

#include <algorithm>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/search/around.h"

namespace eratos::agent {

namespace {

constexpr std::size_t kLossesKept = 4;

Figure figure_of(double value, double low, double high) { return {value, low, high}; }

std::vector<std::string> lines_of(const Diagnostics& faults) {
  std::vector<std::string> out;
  for (const Diagnostic& d : faults) {
    out.push_back(d.cure.empty() ? d.message : d.message + "; " + d.cure);
  }
  return out;
}

bool is_paid(Fidelity f) { return f == Fidelity::measure || f == Fidelity::run; }

double speed_of(const Trial& t, bool measured) {
  return measured ? t.measured->tokens_per_s_per_gpu : t.projected.tokens_per_s_per_gpu.value;
}

}  // namespace

Session::Session(Workshop& workshop, search::Space space, std::array<Budget, kFidelities> budgets,
                 Records& records)
    : workshop_(workshop),
      space_(std::move(space)),
      budgets_(budgets),
      records_(records),
      workspace_(projection::make_workspace()) {}

Evaluation Session::keep(Trial trial, Answered how) {
  trial.number = static_cast<int>(trials_.size()) + 1;
  records_.add(trial);
  trials_.push_back(std::make_unique<Trial>(std::move(trial)));
  const Trial* kept = trials_.back().get();
  if (!kept->digest.empty()) by_digest_[kept->digest].push_back(kept);
  return {how, kept, ""};
}

const Trial* Session::answered(const std::string& digest, Fidelity fidelity) const {
  const auto at = by_digest_.find(digest);
  if (at == by_digest_.end()) return nullptr;
  for (const Trial* t : at->second) {
    // A simulation says all that the memory does, and so does a measurement of both; what is too
    // big is so at every fidelity, and what could not be measured may be simulated.
    if (t->verdict == Verdict::too_big || t->fidelity == fidelity) return t;
    if (fidelity < Fidelity::measure && t->fidelity > fidelity) return t;
  }
  return nullptr;
}

Trial Session::projected(const TunedJob& job, Trial trial) {
  const projection::Projection p = project(job);
  const double step = p.time.step.value;
  const double tokens = p.throughput.tokens_per_s_per_gpu;
  const auto [low, high] = p.confidence.step;
  trial.projected.step_s = figure_of(step, low.value, high.value);
  trial.projected.tokens_per_s_per_gpu =
      figure_of(tokens, high.value > 0 ? tokens * step / high.value : tokens,
                low.value > 0 ? tokens * step / low.value : tokens);
  trial.projected.device_peak_bytes = figure_of(
      p.memory.device_peak.value, p.confidence.peak.first.value, p.confidence.peak.second.value);
  trial.projected.mfu = p.throughput.mfu;
  for (const search::Loss& loss : search::losses_of(p)) {
    if (trial.projected.losses.size() == kLossesKept) break;
    trial.projected.losses.emplace_back(std::string(loss.what), loss.share);
  }
  trial.fidelity = Fidelity::simulate;
  trial.provenance = "projection, " + p.calibration;
  if (!p.confidence.basis.empty()) trial.provenance += "; bands of " + p.confidence.basis;
  return trial;
}

Evaluation Session::evaluate(const Patch& patch, Fidelity fidelity, const std::string& stage,
                             const std::string& reason) {
  Trial trial;
  trial.asked = fidelity;
  trial.stage = stage;
  trial.reason = reason;
  const Result<TunedJobPtr> made = workshop_.make(patch);
  if (!made) {
    ++illegal_;
    trial.patch = patch;
    std::sort(trial.patch.begin(), trial.patch.end());
    trial.verdict = Verdict::illegal;
    trial.why = lines_of(made.error());
    trial.provenance = "reader and check()";
    return keep(std::move(trial), Answered::filtered);
  }
  const TunedJob& job = **made;
  trial.patch = job.patch;
  trial.digest = job.digest;
  if (const Trial* known = answered(job.digest, fidelity)) {
    ++repeated_;
    return {Answered::repeated, known, ""};
  }
  const projection::Screen screen =
      projection::screen(job.checked, workshop_.calibration(), workshop_.options(), *workspace_);
  if (!screen.fits || fidelity == Fidelity::memory) {
    trial.fidelity = Fidelity::memory;
    trial.projected.device_peak_bytes = {screen.device_peak.value, screen.device_peak.value,
                                         screen.device_peak.value};
    trial.provenance = "exact memory of the model, " + workshop_.calibration().name;
    if (!screen.fits) {
      trial.verdict = Verdict::too_big;
      trial.why.push_back("stage " + std::to_string(screen.peak_stage) +
                          " needs more than the memory less the margin");
    }
    return keep(std::move(trial), screen.fits ? Answered::paid : Answered::filtered);
  }
  const Measured* paid = is_paid(fidelity) ? records_.paid(job.digest, fidelity) : nullptr;
  const Measured* remembered =
      fidelity == Fidelity::measure && paid == nullptr ? records_.remembered(job.digest) : nullptr;
  if (remembered != nullptr) {
    trial = projected(job, std::move(trial));
    trial.fidelity = fidelity;
    trial.measured = *remembered;
    trial.provenance =
        "remembered from an earlier run: " + remembered->source + "; " + trial.provenance;
    if (remembered->out_of_memory) trial.verdict = Verdict::ran_out;
    return keep(std::move(trial), Answered::repeated);
  }
  Budget& budget = budgets_[static_cast<std::size_t>(fidelity)];
  if (!budget.left()) {
    const std::string name(name_of(fidelity));
    return {Answered::no_budget, nullptr,
            budget.off() ? "the budget of `" + name + "` is 0: it is off"
                         : "the budget of `" + name + "` is spent"};
  }
  if (fidelity == Fidelity::measure && workshop_.measures_with().empty() && paid == nullptr) {
    return {Answered::no_oracle, nullptr, workshop_.why_not_measured()};
  }
  if (fidelity == Fidelity::run && workshop_.runs_with().empty() && paid == nullptr) {
    return {Answered::no_oracle, nullptr, "no real runs are offered"};
  }
  ++budget.spent;
  trial = projected(job, std::move(trial));
  if (!is_paid(fidelity)) return keep(std::move(trial), Answered::paid);
  trial.fidelity = fidelity;
  if (paid != nullptr) {
    trial.measured = *paid;
  } else {  // also what failed in an earlier run of this folder: a device or a log that was mended
    Result<Measured> measured = Measured{};
    if (fidelity == Fidelity::measure) {
      measured = workshop_.measure(job);
    } else {
      Result<std::optional<Measured>> ran = workshop_.run(job);
      if (ran && !ran->has_value()) {
        --budget.spent;
        return {Answered::waits, nullptr, "a run is waited for: " + workshop_.runs_with()};
      }
      if (ran) {
        measured = **std::move(ran);
      } else {
        measured = faults(ran.error());
      }
    }
    if (measured) {
      records_.pay(job.digest, fidelity, *measured);
      trial.measured = *std::move(measured);
    } else if (workshop_.interrupted()) {
      --budget.spent;
      return {Answered::interrupted, nullptr, "interrupted"};
    } else {
      trial.verdict = Verdict::failed;
      trial.why = lines_of(measured.error());
    }
  }
  if (trial.measured) {
    trial.provenance = trial.measured->source + "; " + trial.provenance;
    if (trial.measured->out_of_memory) trial.verdict = Verdict::ran_out;
  }
  return keep(std::move(trial), Answered::paid);
}

Patch Session::patch_of(const search::Space& space, const search::Candidate& at) const {
  job::JobSpec spec = space.base;
  search::apply(space, at, spec);
  return workshop_.patch_to(spec);
}

Evaluation Session::evaluate(const search::Space& space, const search::Candidate& at,
                             Fidelity fidelity, const std::string& stage,
                             const std::string& reason) {
  return evaluate(patch_of(space, at), fidelity, stage, reason);
}

const Trial* Session::trial(int number) const {
  const auto at = static_cast<std::size_t>(number - 1);
  return number >= 1 && at < trials_.size() ? trials_[at].get() : nullptr;
}

const Trial* Session::best(bool measured) const {
  const Trial* best = nullptr;
  for (const auto& t : trials_) {
    if (!t->fits() || t->fidelity == Fidelity::memory) continue;
    if (measured && !t->measured) continue;
    const Trial* knows_most = known(t->digest);
    if (knows_most->verdict == Verdict::ran_out) continue;
    if (best == nullptr || speed_of(*t, measured) > speed_of(*best, measured)) best = t.get();
  }
  return best;
}

const Trial* Session::baseline() const {
  for (const auto& t : trials_) {
    if (t->patch.empty()) return t.get();
  }
  return nullptr;
}

const Trial* Session::known(const std::string& digest) const {
  const auto at = by_digest_.find(digest);
  if (at == by_digest_.end()) return nullptr;
  const Trial* out = nullptr;
  for (const Trial* t : at->second) {
    if (out == nullptr || t->fidelity >= out->fidelity) out = t;
  }
  return out;
}

TunedJobPtr Session::job_of(const Trial& trial) {
  const Result<TunedJobPtr> made = workshop_.make(trial.patch);
  return made ? *made : nullptr;
}

projection::Projection Session::project(const TunedJob& job) {
  return projection::project(job.checked, workshop_.calibration(), workshop_.options(),
                             *workspace_);
}

void Session::note(const std::string& text) {
  notes_.push_back(text);
  records_.add_note(static_cast<int>(trials_.size()), text);
}

}  // namespace eratos::agent
