#include "eratos/agent/refinement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "eratos/base/rng.h"
#include "eratos/search/sweep.h"

namespace eratos::agent {

namespace {

// How wide candidates are looked for, no claim about machines: a wider look costs sweeps and can
// only add candidates. Source: this project's hidden reality (tests/agent), where it finds the
// optimum.
constexpr std::size_t kTop = 4;  // families of each world
constexpr double kTurned = 1.5;  // deviations by which a knob is turned in the first worlds
constexpr int kDraws = 1;        // worlds drawn from the posterior each round
constexpr double kBuffers[] = {0.03, 0.06, 0.10};  // shares of the capacity held unknown

search::RefineOptions options_of(Session& session, const Learned& prior) {
  search::RefineOptions out;
  out.capacity = session.space().base.cluster.accelerator.memory_visible;
  out.prior_mean = prior.mean;
  out.prior_sd = prior.sd;
  if (prior.buffer_sd > 0) {
    out.peak_mean = prior.buffer_mean;
    out.peak_sd = prior.buffer_sd;
  }
  return out;
}

// Sum of twelve uniforms less six: a normal deviate but for its far tails.
double normal(Rng& rng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += rng.uniform();
  return sum;
}

}  // namespace

std::vector<double> place_of(const job::JobSpec& s) {
  const auto log2 = [](double x) { return std::log2(std::max(1.0, x)); };
  return {log2(s.parallel.tp),
          log2(s.parallel.cp),
          log2(s.parallel.pp),
          log2(s.parallel.ep),
          log2(s.parallel.vpp),
          log2(s.batch.micro),
          static_cast<double>(s.recompute.granularity),
          static_cast<double>(s.parallel.sharding) / 2};
}

Refinement::Refinement(Session& session, std::vector<search::Candidate> start, const Learned& prior)
    : session_(session),
      space_(session.space()),
      spaces_{std::shared_ptr<const search::Space>(std::shared_ptr<void>(), &space_)},
      prior_(prior),
      refine_(options_of(session, prior)) {
  for (const search::Candidate& at : start) join(0, at);
}

void Refinement::add(std::shared_ptr<const search::Space> space, const search::Candidate& at) {
  spaces_.push_back(std::move(space));
  join(spaces_.size() - 1, at);
}

job::JobSpec Refinement::spec_of(const Member& m) const {
  job::JobSpec out = space_of(m).base;
  search::apply(space_of(m), m.at, out);
  return out;
}

void Refinement::join(std::size_t space, const search::Candidate& at) {
  for (const Member& m : pool_) {
    if (m.space == space && m.at == at) return;
  }
  Member member{space, at, ""};
  member.job = text_of(session_.workshop().patch_to(spec_of(member)));
  const bool there =
      std::any_of(pool_.begin(), pool_.end(), [&](const Member& m) { return m.job == member.job; });
  if (!there) pool_.push_back(std::move(member));
}

std::vector<search::Candidate> Refinement::pool() const {
  std::vector<search::Candidate> out;
  for (const Member& m : pool_) {
    if (m.space == 0) out.push_back(m.at);
  }
  return out;
}

void Refinement::search_world(const search::Knobs& theta, Bytes buffer) {
  if (session_.workshop().interrupted()) return;
  calibration::Calibration calibration = session_.workshop().calibration();
  search::Space space = space_;
  search::turn(theta, calibration, space.base.framework);
  space.base.framework.memory.context = space.base.framework.memory.context + buffer;
  search::Sweep sweep(space, kTop);
  const search::Outcome found = session_.workshop().search(space, calibration, sweep);
  for (const search::Found& f : found.top) join(0, f.at);
}

void Refinement::make_pool() {
  if (made_) return;
  made_ = true;
  const Bytes capacity = space_.base.cluster.accelerator.memory_visible;
  search_world(prior_.mean, Bytes{0});
  for (const double share : kBuffers) search_world(prior_.mean, capacity * share);
  for (std::size_t k = 0; k < search::kKnobCount; ++k) {
    search::Knobs theta = prior_.mean;
    theta[k] += kTurned * prior_.sd[k];
    search_world(theta, Bytes{0});
  }
}

void Refinement::search_likely_worlds(int round) {
  const search::Knobs mean = refine_.knobs();
  search_world(mean, max(Bytes{0}, refine_.buffer()));
  search_world(mean, max(Bytes{0}, refine_.buffer_at_most(1 - search::Refine::kSafe)));
  const search::Knobs sd = refine_.knob_sds();
  Rng rng(static_cast<std::uint64_t>(round));
  for (int draw = 0; draw < kDraws; ++draw) {
    search::Knobs theta = mean;
    for (std::size_t k = 0; k < search::kKnobCount; ++k) theta[k] += sd[k] * normal(rng);
    search_world(theta, max(Bytes{0}, refine_.buffer()));
  }
}

void Refinement::linearise() {
  const search::Knobs at = refine_.knobs();
  std::vector<std::unique_ptr<search::Turned>> turned(spaces_.size());
  std::vector<search::Prospect> prospects;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    const Member& m = pool_[i];
    if (turned[m.space] == nullptr) {
      turned[m.space] = std::make_unique<search::Turned>(
          space_of(m), session_.workshop().calibration(), session_.workshop().options(), at);
    }
    const search::Turned::Point point = turned[m.space]->at(m.at);
    search::Prospect p;
    p.projected = point.tell.per_token;
    p.elasticity = point.elasticity;
    p.place = place_of(spec_of(m));
    p.peak = point.tell.device_peak;
    if (i >= refine_.size()) refine_.add(p);
    prospects.push_back(std::move(p));
  }
  refine_.linearise(at, prospects);
}

double Refinement::tokens_of(const Member& m) const {
  const job::JobSpec spec = spec_of(m);
  return static_cast<double>(spec.batch.global) * spec.batch.sequence;
}

// A candidate that the model says does not fit is no prospect.
void Refinement::drop_too_big(std::size_t from) {
  std::vector<std::unique_ptr<search::Evaluator>> evaluators(spaces_.size());
  for (std::size_t i = pool_.size(); i-- > from;) {
    const Member& m = pool_[i];
    if (evaluators[m.space] == nullptr) {
      evaluators[m.space] = std::make_unique<search::Evaluator>(
          space_of(m), session_.workshop().calibration(), session_.workshop().options());
    }
    if (evaluators[m.space]->answer({search::Ask::What::project, m.at}).fits) continue;
    pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool Refinement::tell(const Trial& trial, std::size_t prospect) {
  if (!trial.measured) return false;
  const Measured& m = *trial.measured;
  if (!m.out_of_memory && m.step_s <= 0) return false;
  search::Observation seen;
  seen.out_of_memory = m.out_of_memory;
  seen.measured = m.step_s / tokens_of(pool_[prospect]);
  seen.peak = Bytes{m.device_peak_bytes};
  refine_.tell(prospect, seen);
  return true;
}

Refined Refinement::run(Fidelity fidelity) {
  make_pool();
  Refined out;
  drop_too_big(0);
  for (int round = 1;; ++round) {
    linearise();
    const std::optional<search::Refine::Choice> choice = refine_.ask();
    if (!choice) {
      out.stopped = refine_.why();
      break;
    }
    const Member& chosen = pool_[choice->prospect];
    const Patch patch = session_.workshop().patch_to(spec_of(chosen));
    out.next = {patch, choice->gain};
    if (session_.workshop().interrupted()) {
      out.stopped = "interrupted";
      break;
    }
    const search::Belief b = refine_.belief(choice->prospect);
    const int gain = static_cast<int>(std::lround(choice->gain * 10000));
    const std::string reason =
        out.measured == 0 ? "fastest of the pool that likely fits: what is measured first"
                          : "expected to gain " + std::to_string(gain / 100) + "." +
                                std::to_string(gain / 10 % 10) + std::to_string(gain % 10) +
                                " % of the step over the best measured, out of memory in " +
                                std::to_string(std::lround(b.out_of_memory * 100)) + " of 100";
    const Evaluation e = session_.evaluate(patch, fidelity, "refinement", reason);
    if (e.trial == nullptr) {
      out.stopped = e.message;
      break;
    }
    if (!tell(*e.trial, choice->prospect)) {
      out.stopped = "a measurement came to no figure: " +
                    (e.trial->why.empty() ? std::string("nothing said") : e.trial->why.front());
      break;
    }
    ++out.measured;
    out.next.reset();
    const std::size_t before = pool_.size();
    search_likely_worlds(round);
    drop_too_big(before);
  }
  const std::optional<std::size_t> pick =
      out.measured > 0 ? refine_.pick() : std::optional<std::size_t>{};
  if (pick) {
    const Evaluation e =
        session_.evaluate(session_.workshop().patch_to(spec_of(pool_[*pick])), Fidelity::simulate,
                          "refinement", "what is best after the measurements");
    const search::Belief b = refine_.belief(*pick);
    out.expected_step_s = std::exp(b.mean) * tokens_of(pool_[*pick]);
    out.expected_sd = b.sd;
    if (e.trial != nullptr) out.pick = session_.known(e.trial->digest);
  }
  out.learned.mean = refine_.knobs();
  out.learned.sd = refine_.knob_sds();
  out.learned.measurements = prior_.measurements + out.measured;
  const double capacity = space_.base.cluster.accelerator.memory_visible.value;
  out.learned.buffer_mean = refine_.buffer().value / capacity;
  out.learned.buffer_sd =
      (refine_.buffer_at_most(0.84).value - refine_.buffer_at_most(0.16).value) / 2 / capacity;
  return out;
}

}  // namespace eratos::agent
