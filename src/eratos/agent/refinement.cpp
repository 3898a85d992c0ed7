#include "eratos/agent/refinement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "eratos/base/rng.h"
#include "eratos/search/sweep.h"

namespace eratos::agent {

namespace {

constexpr std::size_t kTop = 6;  // families of each world
constexpr double kTurned = 1.5;  // deviations by which a knob is turned in the first worlds
constexpr int kDraws = 2;        // worlds drawn from the posterior each round
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
      prior_(prior),
      refine_(options_of(session, prior)) {
  for (const search::Candidate& at : start) join(at);
}

void Refinement::join(const search::Candidate& at) {
  const std::uint64_t index = search::index_of(space_, at);
  if (std::find(index_.begin(), index_.end(), index) != index_.end()) return;
  index_.push_back(index);
  pool_.push_back(at);
}

void Refinement::search_world(const search::Knobs& theta, Bytes buffer) {
  if (session_.workshop().interrupted()) return;
  calibration::Calibration calibration = session_.workshop().calibration();
  search::Space space = space_;
  search::turn(theta, calibration, space.base.framework);
  space.base.framework.memory.context = space.base.framework.memory.context + buffer;
  search::Sweep sweep(space, kTop);
  const search::Outcome found = session_.workshop().search(space, calibration, sweep);
  for (const search::Found& f : found.top) join(f.at);
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
  search::Turned turned(space_, session_.workshop().calibration(), session_.workshop().options(),
                        at);
  std::vector<search::Prospect> prospects;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    const search::Turned::Point point = turned.at(pool_[i]);
    job::JobSpec spec = space_.base;
    search::apply(space_, pool_[i], spec);
    search::Prospect p;
    p.projected = point.tell.per_token;
    p.elasticity = point.elasticity;
    p.place = place_of(spec);
    p.peak = point.tell.device_peak;
    if (i >= refine_.size()) refine_.add(p);
    prospects.push_back(std::move(p));
  }
  refine_.linearise(at, prospects);
}

double Refinement::per_token(double step_s, const search::Candidate& at) const {
  job::JobSpec spec = space_.base;
  search::apply(space_, at, spec);
  return step_s / (static_cast<double>(spec.batch.global) * spec.batch.sequence);
}

bool Refinement::tell(const Trial& trial, std::size_t prospect) {
  if (!trial.measured) return false;
  const Measured& m = *trial.measured;
  if (!m.out_of_memory && m.step_s <= 0) return false;
  refine_.tell(prospect,
               {m.out_of_memory, per_token(m.step_s, pool_[prospect]), Bytes{m.device_peak_bytes}});
  return true;
}

Refined Refinement::run(Fidelity fidelity) {
  make_pool();
  Refined out;
  // A candidate that the model says does not fit is no prospect.
  search::Evaluator evaluator(space_, session_.workshop().calibration(),
                              session_.workshop().options());
  const auto drop_too_big = [&](std::size_t from) {
    for (std::size_t i = pool_.size(); i-- > from;) {
      if (evaluator.answer({search::Ask::What::project, pool_[i]}).fits) continue;
      pool_.erase(pool_.begin() + static_cast<std::ptrdiff_t>(i));
      index_.erase(index_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  };
  drop_too_big(0);
  for (int round = 1;; ++round) {
    linearise();
    const std::optional<search::Refine::Choice> choice = refine_.ask();
    if (!choice) {
      out.stopped = refine_.why();
      break;
    }
    job::JobSpec spec = space_.base;
    search::apply(space_, pool_[choice->prospect], spec);
    out.next = {session_.workshop().patch_to(spec), choice->gain};
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
    const Evaluation e =
        session_.evaluate(space_, pool_[choice->prospect], fidelity, "refinement", reason);
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
  if (const std::optional<std::size_t> pick = refine_.pick()) {
    const search::Candidate at = pool_[*pick];
    const Evaluation e = session_.evaluate(space_, at, Fidelity::simulate, "refinement",
                                           "what is best after the measurements");
    const search::Belief b = refine_.belief(*pick);
    out.expected_step_s = std::exp(b.mean) / per_token(1, at);
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
