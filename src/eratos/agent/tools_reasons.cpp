// explain, sensitivity, search: why a trial is as it is, and what stands around it.
#include <algorithm>

#include <fmt/format.h>

#include "eratos/agent/json_parts.h"
#include "eratos/agent/tool_parts.h"
#include "eratos/search/around.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/objective.h"

namespace eratos::agent {
namespace {

using text::Node;

// A legal job of the trial, or why there is none.
tl::expected<TunedJobPtr, std::vector<std::string>> job_at(Desk& desk, const Node& arguments) {
  const std::int64_t number = integer_at(arguments, "trial", 0);
  const Trial* trial =
      desk.session.trial(static_cast<int>(std::min<std::int64_t>(number, 1'000'000)));
  if (trial == nullptr) {
    return refuse(
        fmt::format("there is no trial {}; there are {}", number, desk.session.trials().size()));
  }
  const TunedJobPtr job = desk.session.job_of(*trial);
  if (job == nullptr) return refuse(fmt::format("trial {} is illegal", number));
  return job;
}

constexpr int kDeepest = 3;
constexpr int kMostLeaves = 40;

Node tree_of(const projection::Explanation& e, int depth, int& left) {
  Node out = object({{"key", string_node(e.key)}, {"value", string_node(e.value)}});
  if (!e.formula.empty()) out.set("formula", string_node(e.formula));
  if (!e.kind.empty()) out.set("kind", string_node(e.kind));
  if (e.inputs.empty()) return out;
  if (depth >= kDeepest) {
    out.set("inputs_left_out", Node::integer(static_cast<int>(e.inputs.size())));
    return out;
  }
  Node inputs = Node::sequence();
  for (const projection::Explanation& input : e.inputs) {
    if (left-- <= 0) break;
    inputs.append(tree_of(input, depth + 1, left));
  }
  out.set("inputs", std::move(inputs));
  return out;
}

Node what_binds(const projection::Projection& p) {
  Node losses = Node::mapping();
  for (const search::Loss& loss : search::losses_of(p)) {
    if (loss.share >= 0.0005) losses.set(loss.what, number_node(loss.share));
  }
  const memory::StageMemory& m = p.memory.stages[static_cast<std::size_t>(p.memory.peak_stage)];
  const double usable = p.memory.capacity.value;
  return object({{"losses_share_of_step", std::move(losses)},
                 {"critical_stage", Node::integer(p.time.critical_stage)},
                 {"fullest_stage", Node::integer(p.memory.peak_stage)},
                 {"gib", object({{"parameters", gib_node(m.parameters.value)},
                                 {"gradients", gib_node(m.gradients.value)},
                                 {"optimizer", gib_node(m.optimizer.value)},
                                 {"activations", gib_node(m.activations.value)},
                                 {"transient", gib_node(m.transient.value)},
                                 {"communication", gib_node(m.communication.value)},
                                 {"framework", gib_node(m.framework.value)},
                                 {"peak", gib_node(p.memory.device_peak.value)},
                                 {"capacity", gib_node(usable)},
                                 {"free", gib_node(usable * (1 - p.memory.margin) -
                                                   p.memory.device_peak.value)}})}});
}

search::Aim plain_aim(Desk& desk) {
  search::Aim aim;
  const hardware::ClusterSpec& cluster = desk.session.space().base.cluster;
  aim.terms.gpus = cluster.gpus();
  aim.terms.capacity =
      cluster.accelerator.memory_visible * (1 - desk.session.workshop().options().memory_margin);
  return aim;
}

// One axis of a search: every value, or those that are listed.
tl::expected<std::vector<search::Value>, std::vector<std::string>> listed(
    const search::Space& space, search::AxisId axis, const Node& values) {
  if (values.is_scalar() && values.raw() == "all") return space.values(axis);
  const std::vector<Node> items = values.is_sequence() ? values.items() : std::vector<Node>{values};
  std::vector<search::Value> out;
  std::vector<std::string> faults;
  for (const Node& item : items) {
    const auto at = place_of(space, axis, item);
    if (!at) {
      faults.insert(faults.end(), at.error().begin(), at.error().end());
    } else {
      const search::Value& v = space.values(axis)[*at];
      const bool there = std::any_of(out.begin(), out.end(),
                                     [&](const search::Value& o) { return o.word == v.word; });
      if (!there) out.push_back(v);
    }
  }
  if (out.empty() && faults.empty()) {
    faults.push_back(fmt::format("`{}` lists no value", search::facts_of(axis).name));
  }
  if (!faults.empty()) return tl::unexpected<std::vector<std::string>>(std::move(faults));
  return out;
}

tl::expected<search::Space, std::vector<std::string>> subspace(Desk& desk, const Node& arguments) {
  const Node* rest = arguments.find("rest");
  const bool all = rest != nullptr && rest->raw() == "all";
  std::vector<std::string> faults;
  Pinned from{desk.session.space(), {}};
  if (!all) {
    const auto spec = spec_of(desk, rest);
    if (!spec) return tl::unexpected<std::vector<std::string>>(spec.error());
    from = pinned_at(desk, *spec);
  }
  search::Space out = from.space;
  if (!all) {
    for (std::size_t i = 0; i < search::kAxes; ++i)
      out.axes[i] = {from.space.axes[i][from.at.at[i]]};
  }
  for (const text::Entry& e : arguments.find("axes")->entries()) {
    const auto axis = axis_of(e.key);
    if (!axis) {
      faults.insert(faults.end(), axis.error().begin(), axis.error().end());
      continue;
    }
    // Only what the user left open may be searched, the job's own value aside.
    auto values = listed(from.space, *axis, e.value);
    if (!values) {
      faults.insert(faults.end(), values.error().begin(), values.error().end());
      continue;
    }
    out.axes[static_cast<std::size_t>(*axis)] = *std::move(values);
  }
  if (!faults.empty()) return tl::unexpected<std::vector<std::string>>(std::move(faults));
  return out;
}

}  // namespace

ToolResult tool_explain(Desk& desk, const Node& arguments) {
  const auto job = job_at(desk, arguments);
  if (!job) return tl::unexpected<std::vector<std::string>>(job.error());
  const std::string key = string_at(arguments, "key");
  if (key.empty()) return what_binds(desk.session.project(**job));
  const projection::WorkspacePtr workspace = projection::make_workspace();
  Workshop& workshop = desk.session.workshop();
  const Result<projection::Explanation> tree = projection::explain(
      (*job)->checked, workshop.calibration(), workshop.options(), key, *workspace);
  if (!tree) {
    std::vector<std::string> faults;
    for (const Diagnostic& d : tree.error()) {
      faults.push_back(d.cure.empty() ? d.message : d.message + "; " + d.cure);
    }
    return tl::unexpected<std::vector<std::string>>(std::move(faults));
  }
  int left = kMostLeaves;
  return tree_of(*tree, 0, left);
}

ToolResult tool_sensitivity(Desk& desk, const Node& arguments) {
  const auto job = job_at(desk, arguments);
  if (!job) return tl::unexpected<std::vector<std::string>>(job.error());
  const Pinned here = pinned_at(desk, (*job)->spec);
  Workshop& workshop = desk.session.workshop();
  search::Evaluator evaluator(here.space, workshop.calibration(), workshop.options());
  search::Aim aim = plain_aim(desk);
  const std::vector<search::StepAway> steps =
      search::steps_around(here.space, here.at, workshop.options(), aim, evaluator);
  const projection::Projection own = desk.session.project(**job);
  const double tokens = own.throughput.tokens_per_s_per_gpu;
  std::vector<const search::StepAway*> legal;
  int refused = 0;
  for (const search::StepAway& s : steps) {
    if (s.refused_by != nullptr) {
      ++refused;
    } else {
      legal.push_back(&s);
    }
  }
  std::stable_sort(legal.begin(), legal.end(), [](const auto* a, const auto* b) {
    if (a->fits != b->fits) return a->fits;
    return a->figure < b->figure;
  });
  Node list = Node::sequence();
  constexpr std::size_t kMost = 24;
  for (std::size_t i = 0; i < std::min(legal.size(), kMost); ++i) {
    const search::StepAway& s = *legal[i];
    const std::vector<search::Value>& values = here.space.values(s.axis);
    Node step = object({{"axis", string_node(search::facts_of(s.axis).name)},
                        {"to", string_node(values[s.to].word)},
                        {"fits", Node::boolean(s.fits)}});
    // Tokens a second and accelerator, against the trial's.
    const double then = 1 / (s.figure * here.space.base.cluster.gpus());
    step.set("speed_against_trial", number_node(then / tokens - 1));
    if (!s.fits) step.set("missing_gib", gib_node(s.missing.value));
    list.append(std::move(step));
  }
  return object({{"legal", Node::integer(static_cast<int>(legal.size()))},
                 {"illegal", Node::integer(refused)},
                 {"steps", std::move(list)}});
}

ToolResult tool_search(Desk& desk, const Node& arguments) {
  const auto space = subspace(desk, arguments);
  if (!space) {
    ++desk.wasted;
    return tl::unexpected<std::vector<std::string>>(space.error());
  }
  if (space->raw() > desk.most_candidates) {
    return refuse(
        fmt::format("{:.3g} candidates are more than the {:.3g} that are searched at "
                    "once; list fewer values, or pin more axes",
                    static_cast<double>(space->raw()), static_cast<double>(desk.most_candidates)));
  }
  const auto top = static_cast<std::size_t>(integer_at(arguments, "top", 3));
  search::Exhaustive method(*space, {top, false});
  Workshop& workshop = desk.session.workshop();
  const search::Outcome found = workshop.search(*space, workshop.calibration(), method);
  Node list = Node::sequence();
  for (std::size_t i = 0; i < std::min(found.top.size(), top); ++i) {
    job::JobSpec spec = space->base;
    search::apply(*space, found.top[i].at, spec);
    const Evaluation done = desk.session.evaluate(workshop.patch_to(spec), Fidelity::simulate,
                                                  desk.stage, words_at(arguments, "reason"));
    if (done.trial != nullptr) list.append(trial_node(desk.session, *done.trial));
  }
  Node out = object({{"candidates", number_node(static_cast<double>(found.proof.raw))},
                     {"illegal", number_node(static_cast<double>(found.proof.illegal))},
                     {"too_big", number_node(static_cast<double>(found.proof.too_big))},
                     {"simulated", number_node(static_cast<double>(found.proof.simulated))},
                     {"proven", Node::boolean(found.proof.proven)},
                     {"best", std::move(list)}});
  if (found.top.empty() && found.any_too_big) {
    const double usable = space->base.cluster.accelerator.memory_visible.value *
                          (1 - workshop.options().memory_margin);
    out.set("least_missing_gib", gib_node(found.least_peak.value - usable));
  }
  return out;
}

}  // namespace eratos::agent
