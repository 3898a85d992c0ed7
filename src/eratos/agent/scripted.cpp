#include "eratos/agent/scripted.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <set>
#include <string_view>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/search/around.h"
#include "eratos/search/exhaustive.h"

namespace eratos::agent {

namespace {

using search::AxisId;

constexpr const char* kStage = "investigation";
// A loss below this share of the step is not worth a round.
constexpr double kLeastLoss = 0.01;
// Spaces beyond this are cut down to what a search has by default.
constexpr std::uint64_t kMostCandidates = 3'000'000;

struct Remedy {
  std::string_view loss;  // a prefix of search::Loss::what
  std::initializer_list<AxisId> axes;
};

const Remedy kRemedies[] = {
    {"bubble", {AxisId::pp, AxisId::vpp, AxisId::split, AxisId::schedule, AxisId::micro}},
    {"kernel efficiency",
     {AxisId::micro, AxisId::tp, AxisId::etp, AxisId::ep, AxisId::sequence_parallel,
      AxisId::fused_loss}},
    {"recomputation", {AxisId::recompute, AxisId::offload, AxisId::sharding, AxisId::micro}},
    {"launch", {AxisId::micro, AxisId::recompute, AxisId::tp, AxisId::sequence_parallel}},
    {"optimizer", {AxisId::sharding, AxisId::offload}},
    {"exposed tp traffic",
     {AxisId::tp, AxisId::sequence_parallel, AxisId::overlap_tp, AxisId::order, AxisId::etp}},
    {"exposed cp traffic", {AxisId::cp, AxisId::cp_kind, AxisId::order, AxisId::micro}},
    {"exposed ep traffic",
     {AxisId::ep, AxisId::etp, AxisId::dispatcher, AxisId::overlap_moe, AxisId::order}},
    {"exposed pp traffic", {AxisId::pp, AxisId::vpp, AxisId::overlap_p2p, AxisId::order}},
    {"exposed dp traffic",
     {AxisId::sharding, AxisId::overlap_reduce, AxisId::overlap_gather, AxisId::order, AxisId::tp}},
    {"exposed host traffic", {AxisId::offload, AxisId::recompute}},
};

const Remedy* remedy_of(std::string_view loss) {
  for (const Remedy& r : kRemedies) {
    if (loss.substr(0, r.loss.size()) == r.loss) return &r;
  }
  return nullptr;
}

// An axis that the user pinned or listed (allowed is narrower than what a search has by default)
// stays as it is.
std::vector<std::string> words_of(const search::Space& allowed, const search::Space& usual,
                                  const Remedy& remedy, bool widely) {
  std::vector<std::string> out{"rest=job"};
  for (const AxisId axis : remedy.axes) {
    if (allowed.named[static_cast<std::size_t>(axis)]) continue;
    if (allowed.values(axis).size() < usual.values(axis).size()) continue;
    // Of the others, what is not there by default is another library, not another setting.
    const bool every = widely && (axis == AxisId::recompute || axis == AxisId::order ||
                                  axis == AxisId::sharding || axis == AxisId::offload);
    out.push_back(std::string(search::facts_of(axis).name) + (every ? "=every" : "=all"));
  }
  return out;
}

std::string percent(double share) {
  const long tenths = std::lround(share * 1000);
  return std::to_string(tenths / 10) + '.' + std::to_string(tenths % 10) + " %";
}

double tokens_of(const Trial& t) { return t.projected.tokens_per_s_per_gpu.value; }

}  // namespace

Investigated investigate(Session& session, const Investigation& budget) {
  Investigated out;
  Workshop& workshop = session.workshop();
  const Result<search::Space> usual = workshop.space_of({});
  ERATOS_CHECK(usual.has_value());
  std::set<std::pair<std::string, std::string>> seen;  // of an incumbent's digest: a loss
  const auto left = [&] { return out.trials < std::min(budget.simulations, budget.proposals); };
  while (out.rounds < budget.rounds && left()) {
    const Trial* best = session.best();
    if (best == nullptr) {
      out.stopped = "nothing fits that could be bettered";
      return out;
    }
    if (workshop.interrupted()) {
      out.stopped = "interrupted";
      return out;
    }
    const TunedJobPtr job = session.job_of(*best);
    const Remedy* remedy = nullptr;
    search::Loss loss;
    std::vector<search::Loss> losses = search::losses_of(session.project(*job));
    for (const search::Loss& each : losses) {
      if (each.share < kLeastLoss || seen.contains({best->digest, std::string(each.what)}))
        continue;
      remedy = remedy_of(each.what);
      loss = each;
      if (remedy != nullptr) break;
    }
    if (remedy == nullptr) {
      out.stopped =
          "nothing that binds trial " + std::to_string(best->number) + " gives way to its axes";
      return out;
    }
    seen.insert({best->digest, std::string(loss.what)});
    ++out.rounds;
    Result<search::Space> space =
        workshop.space_around(job->spec, words_of(session.space(), *usual, *remedy, true));
    if (!space || space->raw() > kMostCandidates) {
      space = workshop.space_around(job->spec, words_of(session.space(), *usual, *remedy, false));
    }
    if (!space) continue;
    search::Exhaustive all(*space, {2, false});
    const search::Outcome found = workshop.search(*space, workshop.calibration(), all);
    const std::string binds = std::string(loss.what) + " takes " + percent(loss.share) +
                              " of trial " + std::to_string(best->number) + ": ";
    const double before = tokens_of(*best);
    for (const search::Found& f : found.top) {
      if (!left()) break;
      const Evaluation e = session.evaluate(
          *space, f.at, Fidelity::simulate, kStage,
          binds + "best of its " + std::to_string(remedy->axes.size()) + " axes together");
      if (e.how != Answered::paid) continue;
      ++out.trials;
      if (tokens_of(*e.trial) > before) {
        out.found.push_back({std::make_shared<const search::Space>(*space), f.at});
      }
      session.note("trial " + std::to_string(e.trial->number) + ": " + binds +
                   (tokens_of(*e.trial) > before
                        ? "gains " + percent(tokens_of(*e.trial) / before - 1)
                        : std::string("gains nothing")));
    }
  }
  out.stopped = left() ? "its rounds are spent" : "its trials are spent";
  return out;
}

}  // namespace eratos::agent
