#include "eratos/agent/answer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "eratos/agent/records.h"
#include "eratos/search/evaluate.h"

namespace eratos::agent {

namespace {

using text::Node;

// Deviations between which a normal deviate lies in 8 of 10 cases, as the bands of figures do.
constexpr double kBand = 1.2816;

double speed(const Trial& t) {
  return t.measured && !t.measured->out_of_memory && t.measured->tokens_per_s_per_gpu > 0
             ? t.measured->tokens_per_s_per_gpu
             : t.projected.tokens_per_s_per_gpu.value;
}

// What the model may get wrong of a job, as it compares with others.
search::Prospect prospect_of(Session& session, const TunedJob& job) {
  Workshop& workshop = session.workshop();
  const projection::WorkspacePtr w = projection::make_workspace();
  const projection::Projection p = session.project(job);
  search::Prospect out;
  out.projected = p.time.step.value;
  out.elasticity = search::elasticities_of(job.spec, workshop.calibration(), workshop.options(),
                                           p.time.step, *w);
  out.place = place_of(job.spec);
  return out;
}

std::optional<Ahead> ahead(Session& session, const Trial* winner, const Trial* other,
                           const std::optional<Refined>& refined) {
  if (winner == nullptr || other == nullptr || !other->fits()) return std::nullopt;
  if (other->fidelity == Fidelity::memory || other->digest == winner->digest) return std::nullopt;
  Ahead out;
  out.of = other;
  out.measured = winner->measured.has_value() && other->measured.has_value();
  if (out.measured) {
    out.gain = out.low = out.high = speed(*winner) / speed(*other) - 1;
    return out;
  }
  const TunedJobPtr a = session.job_of(*winner);
  const TunedJobPtr b = session.job_of(*other);
  const double ratio =
      winner->projected.tokens_per_s_per_gpu.value / other->projected.tokens_per_s_per_gpu.value;
  const double sd =
      search::deviation_between(prospect_of(session, *a), prospect_of(session, *b),
                                refined ? refined->learned.sd : search::default_sds());
  out.gain = ratio - 1;
  out.low = ratio * std::exp(-kBand * sd) - 1;
  out.high = ratio * std::exp(kBand * sd) - 1;
  return out;
}

// What the measurements say where there are any, else the model.
const Trial* choose(const Session& session, const std::optional<Refined>& refined) {
  if (refined && refined->measured > 0) return refined->pick;
  return session.best();
}

std::pair<std::string, std::string> split(const std::string& set) {
  const std::size_t equals = set.find('=');
  return {set.substr(0, equals), equals == std::string::npos ? "" : set.substr(equals + 1)};
}

// Each key of either patch, with what the base job has where one does not say it.
std::vector<std::string> changes_between(Session& session, const Trial& from, const Trial& to) {
  const TunedJobPtr a = session.job_of(from);
  const TunedJobPtr b = session.job_of(to);
  std::vector<std::string> out;
  if (b == nullptr) return out;
  std::map<std::string, std::string> before;
  std::map<std::string, std::string> after;
  for (const std::string& set : from.patch) before.insert(split(set));
  for (const std::string& set : to.patch) after.insert(split(set));
  // What the base has: the patch from the winner back to the base says it.
  std::map<std::string, std::string> base;
  for (const std::string& set : session.workshop().patch_from(b->spec)) base.insert(split(set));
  if (a != nullptr) {
    for (const std::string& set : session.workshop().patch_from(a->spec)) base.insert(split(set));
  }
  std::map<std::string, std::string> keys = before;
  keys.insert(after.begin(), after.end());
  for (const auto& [key, ignored] : keys) {
    const auto value = [&](const std::map<std::string, std::string>& of) {
      if (const auto at = of.find(key); at != of.end()) return at->second;
      const auto own = base.find(key);
      return own == base.end() ? std::string("?") : own->second;
    };
    const std::string x = value(before);
    const std::string y = value(after);
    if (x != y) out.push_back(key + ": " + x + " -> " + y);
  }
  return out;
}

void explain(Session& session, Answer& out) {
  Workshop& workshop = session.workshop();
  const TunedJobPtr job = session.job_of(*out.winner);
  if (job == nullptr) return;
  out.losses = search::losses_of(session.project(*job));
  if (out.best_baseline != nullptr) {
    out.changes = changes_between(session, *out.best_baseline, *out.winner);
  }
  const std::optional<search::Candidate> at = candidate_of(session, job->spec);
  if (!at) return;
  const search::Space& space = session.space();
  search::Evaluator evaluator(space, workshop.calibration(), workshop.options());
  out.sensitivity = search::steps_around(space, *at, workshop.options(), search::Aim{}, evaluator);
  std::stable_sort(out.sensitivity.begin(), out.sensitivity.end(),
                   [](const auto& x, const auto& y) {
                     const bool x_legal = x.refused_by == nullptr;
                     const bool y_legal = y.refused_by == nullptr;
                     if (x_legal != y_legal) return x_legal;
                     return x.figure < y.figure;
                   });
  if (out.best_baseline == nullptr || out.best_baseline == out.winner) return;
  const TunedJobPtr from = session.job_of(*out.best_baseline);
  const std::optional<search::Candidate> start =
      from == nullptr ? std::nullopt : candidate_of(session, from->spec);
  if (!start) return;
  const projection::WorkspacePtr w = projection::make_workspace();
  out.contributions = search::contributions(space, search::settings_of(space, *start),
                                            search::settings_of(space, *at), workshop.calibration(),
                                            workshop.options(), *w);
}

Node band(const Figure& f) {
  Node out = Node::sequence();
  out.append(Node::number(f.low));
  out.append(Node::number(f.high));
  return out;
}

Node trial_summary(const Trial& t) {
  Node out = Node::mapping();
  out.set("trial", Node::integer(t.number));
  Node patch = Node::sequence();
  for (const std::string& set : t.patch) patch.append(Node::string(set));
  out.set("patch", std::move(patch));
  out.set("verdict", Node::string(std::string(name_of(t.verdict))));
  out.set("fidelity", Node::string(std::string(name_of(t.fidelity))));
  Node projected = Node::mapping();
  const Projected& p = t.projected;
  // What does not fit has no step, and a step of 0 seconds would be the fastest of all.
  const bool steps = p.step_s.value > 0;
  const auto figure = [&](const std::string& key, const Figure& f) {
    projected.set(key, steps ? Node::number(f.value) : Node::null());
    projected.set(key + "_band", steps ? band(f) : Node::null());
  };
  figure("step_s", p.step_s);
  figure("tokens_per_s_per_gpu", p.tokens_per_s_per_gpu);
  projected.set("device_peak_bytes", Node::number(p.device_peak_bytes.value));
  projected.set("device_peak_bytes_band", band(p.device_peak_bytes));
  projected.set("mfu", steps ? Node::number(p.mfu) : Node::null());
  out.set("projected", std::move(projected));
  out.set("measured", t.measured ? node_of(*t.measured) : Node::null());
  return out;
}

Node ahead_node(const std::optional<Ahead>& a) {
  if (!a) return Node::null();
  Node out = Node::mapping();
  out.set("trial", Node::integer(a->of->number));
  out.set("gain", Node::number(a->gain));
  out.set("low", Node::number(a->low));
  out.set("high", Node::number(a->high));
  out.set("measured", Node::boolean(a->measured));
  return out;
}

Node refined_node(const Refined& r) {
  Node out = Node::mapping();
  out.set("measured", Node::integer(r.measured));
  out.set("stopped", Node::string(r.stopped));
  out.set("expected_step_s", Node::number(r.expected_step_s));
  out.set("expected_sd_log", Node::number(r.expected_sd));
  Node knobs = Node::mapping();
  for (std::size_t k = 0; k < search::kKnobCount; ++k) {
    Node one = Node::mapping();
    one.set("slowdown_log", Node::number(r.learned.mean[k]));
    one.set("sd", Node::number(r.learned.sd[k]));
    knobs.set(search::kKnobs[k].name, std::move(one));
  }
  out.set("learned", std::move(knobs));
  out.set("unknown_buffer_share", Node::number(r.learned.buffer_mean));
  if (r.next) {
    Node next = Node::mapping();
    Node patch = Node::sequence();
    for (const std::string& set : r.next->patch) patch.append(Node::string(set));
    next.set("patch", std::move(patch));
    next.set("expected_gain", Node::number(r.next->gain));
    out.set("next_measurement", std::move(next));
  } else {
    out.set("next_measurement", Node::null());
  }
  return out;
}

}  // namespace

Answer answer_of(Session& session, std::vector<Stage> stages, Seeds seeds,
                 std::optional<Refined> refined, const Trial* winner) {
  Answer out;
  out.session = &session;
  out.stages = std::move(stages);
  out.seeds = std::move(seeds);
  out.refined = std::move(refined);
  out.interrupted = session.workshop().interrupted();
  out.winner = winner != nullptr ? winner : choose(session, out.refined);
  out.baseline = session.baseline();
  if (out.baseline != nullptr && out.baseline->fits()) {
    out.best_baseline = out.baseline;
  } else {
    for (const Trial* t : out.seeds.nearest) {
      if (out.best_baseline == nullptr || speed(*t) > speed(*out.best_baseline)) {
        out.best_baseline = t;
      }
    }
  }
  if (out.winner == nullptr) return out;
  out.ahead_of_baseline = ahead(session, out.winner, out.baseline, out.refined);
  out.ahead_of_best_baseline = ahead(session, out.winner, out.best_baseline, out.refined);
  if (!out.seeds.outcome.top.empty()) {
    const double optimum =
        1 / (out.seeds.outcome.top[0].per_token * session.space().base.cluster.gpus());
    out.behind_optimum = 1 - out.winner->projected.tokens_per_s_per_gpu.value / optimum;
  }
  explain(session, out);
  return out;
}

Node summary_node(const Answer& a) {
  Node out = Node::mapping();
  out.set("schema", Node::integer(1));
  out.set("interrupted", Node::boolean(a.interrupted));
  out.set("winner", a.winner == nullptr ? Node::null() : trial_summary(*a.winner));
  out.set("baseline", a.baseline == nullptr ? Node::null() : trial_summary(*a.baseline));
  out.set("best_baseline",
          a.best_baseline == nullptr ? Node::null() : trial_summary(*a.best_baseline));
  out.set("ahead_of_baseline", ahead_node(a.ahead_of_baseline));
  out.set("ahead_of_best_baseline", ahead_node(a.ahead_of_best_baseline));
  Node changes = Node::sequence();
  for (const std::string& c : a.changes) changes.append(Node::string(c));
  out.set("changes", std::move(changes));
  const search::Proof& proof = a.seeds.outcome.proof;
  Node optimum = Node::mapping();
  optimum.set("proven", Node::boolean(proof.proven));
  optimum.set("behind", a.behind_optimum ? Node::number(*a.behind_optimum) : Node::null());
  out.set("optimum", std::move(optimum));
  Node stages = Node::sequence();
  for (const Stage& s : a.stages) {
    Node one = Node::mapping();
    one.set("stage", Node::string(s.name));
    one.set("on", Node::boolean(s.on));
    one.set("what", Node::string(s.what));
    one.set("trials", Node::integer(s.trials));
    stages.append(std::move(one));
  }
  out.set("stages", std::move(stages));
  out.set("refinement", a.refined ? refined_node(*a.refined) : Node::null());
  Node counts = Node::mapping();
  std::map<std::string, int> verdicts;
  int paid = 0;
  for (const auto& t : a.session->trials()) {
    ++verdicts[std::string(name_of(t->verdict))];
    paid += t->measured ? 1 : 0;
  }
  counts.set("all", Node::integer(static_cast<int>(a.session->trials().size())));
  for (const auto& [verdict, n] : verdicts) counts.set(verdict, Node::integer(n));
  counts.set("measured", Node::integer(paid));
  out.set("trials", std::move(counts));
  return out;
}

}  // namespace eratos::agent
