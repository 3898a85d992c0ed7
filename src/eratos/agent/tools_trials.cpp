// memory, project, measure, trials, best, compare, note, notes, ask_user, finish: trials made, read
// and chosen.
#include <algorithm>

#include <fmt/format.h>

#include "eratos/agent/json_parts.h"
#include "eratos/agent/one_line.h"
#include "eratos/agent/tool_parts.h"

namespace eratos::agent {
namespace {

using text::Node;

std::string reason_of(const Node& arguments) { return words_at(arguments, "reason"); }

ToolResult propose(Desk& desk, const Node& arguments, Fidelity fidelity) {
  const auto patch = proposal_of(desk, arguments);
  if (!patch) {
    ++desk.wasted;
    return tl::unexpected<std::vector<std::string>>(patch.error());
  }
  const Evaluation done = desk.session.evaluate(*patch, fidelity, desk.stage, reason_of(arguments));
  if (done.trial == nullptr) return refuse(done.message);
  Node out = trial_node(desk.session, *done.trial);
  if (done.how == Answered::repeated) {
    ++desk.wasted;
    out.set("repeated", Node::boolean(true));
  }
  if (done.trial->verdict == Verdict::illegal) ++desk.wasted;
  const Trial* best = desk.session.best();
  if (best != nullptr) out.set("best_so_far", Node::integer(best->number));
  return out;
}

Node seconds_of(const projection::Projection& p) {
  const projection::TimeAnswer& t = p.time;
  Node out = Node::mapping();
  const std::pair<std::string_view, Seconds> parts[] = {
      {"compute", t.compute},       {"bubble", t.bubble},
      {"optimizer", t.optimizer},   {"launch", t.launch},
      {"exposed_tp", t.exposed.tp}, {"exposed_cp", t.exposed.cp},
      {"exposed_ep", t.exposed.ep}, {"exposed_pp", t.exposed.pp},
      {"exposed_dp", t.exposed.dp}, {"exposed_host", t.exposed.host}};
  for (const auto& [name, seconds] : parts) {
    if (seconds.value > 0) out.set(name, number_node(seconds.value));
  }
  return out;
}

}  // namespace

ToolResult tool_memory(Desk& desk, const Node& arguments) {
  return propose(desk, arguments, Fidelity::memory);
}
ToolResult tool_project(Desk& desk, const Node& arguments) {
  return propose(desk, arguments, Fidelity::simulate);
}
ToolResult tool_measure(Desk& desk, const Node& arguments) {
  return propose(desk, arguments, Fidelity::measure);
}

ToolResult list_trials(Desk& desk, const Node& arguments) {
  const Session& session = desk.session;
  std::vector<const Trial*> all;
  const std::int64_t one = integer_at(arguments, "trial", 0);
  const std::string verdict = string_at(arguments, "verdict");
  for (const auto& t : session.trials()) {
    if (one > 0 && t->number != one) continue;
    if (!verdict.empty() && name_of(t->verdict) != verdict) continue;
    all.push_back(t.get());
  }
  if (one > 0 && all.empty()) return refuse(fmt::format("there is no trial {}", one));
  std::reverse(all.begin(), all.end());
  if (string_at(arguments, "sort") == "fastest") {
    std::stable_sort(all.begin(), all.end(), [](const Trial* a, const Trial* b) {
      return a->projected.tokens_per_s_per_gpu.value > b->projected.tokens_per_s_per_gpu.value;
    });
  }
  const auto limit = static_cast<std::size_t>(integer_at(arguments, "limit", 10));
  Node list = Node::sequence();
  for (std::size_t i = 0; i < std::min(all.size(), limit); ++i) {
    list.append(trial_node(session, *all[i]));
  }
  return object({{"of", Node::integer(static_cast<int>(all.size()))}, {"trials", std::move(list)}});
}

ToolResult tool_best(Desk& desk, const Node& /*arguments*/) {
  const Session& session = desk.session;
  const Trial* projected = session.best();
  const Trial* measured = session.best(true);
  return object(
      {{"projected", projected == nullptr ? Node::null() : trial_node(session, *projected)},
       {"measured", measured == nullptr ? Node::null() : trial_node(session, *measured)}});
}

ToolResult tool_compare(Desk& desk, const Node& arguments) {
  Session& session = desk.session;
  std::vector<std::string> faults;
  Node columns = Node::sequence();
  for (const Node& n : arguments.find("trials")->items()) {
    const Trial* trial =
        session.trial(static_cast<int>(std::min<std::int64_t>(*n.as_int64(), 1'000'000)));
    const TunedJobPtr job = trial == nullptr ? nullptr : session.job_of(*trial);
    if (job == nullptr) {
      faults.push_back(fmt::format("trial {} is {}", n.raw(),
                                   trial == nullptr ? "not there" : "illegal: nothing to compare"));
      continue;
    }
    const projection::Projection p = session.project(*job);
    const memory::StageMemory& m = p.memory.stages[static_cast<std::size_t>(p.memory.peak_stage)];
    columns.append(object({{"trial", Node::integer(trial->number)},
                           {"changes", string_node(text_of(trial->patch))},
                           {"fits", Node::boolean(p.memory.fits)},
                           {"tokens_per_s_per_gpu", number_node(p.throughput.tokens_per_s_per_gpu)},
                           {"step_s", number_node(p.time.step.value)},
                           {"seconds", seconds_of(p)},
                           {"gib", object({{"parameters", gib_node(m.parameters.value)},
                                           {"gradients", gib_node(m.gradients.value)},
                                           {"optimizer", gib_node(m.optimizer.value)},
                                           {"activations", gib_node(m.activations.value)},
                                           {"transient", gib_node(m.transient.value)},
                                           {"peak", gib_node(p.memory.device_peak.value)}})}}));
  }
  if (!faults.empty()) return tl::unexpected<std::vector<std::string>>(std::move(faults));
  return object({{"trials", std::move(columns)}});
}

ToolResult tool_note(Desk& desk, const Node& arguments) {
  desk.session.note(words_at(arguments, "text"));
  return object({{"notes", Node::integer(static_cast<int>(desk.session.notes().size()))}});
}

ToolResult list_notes(Desk& desk, const Node& /*arguments*/) {
  const std::vector<std::string>& all = desk.session.notes();
  Node list = Node::sequence();
  constexpr std::size_t kMost = 20;
  for (std::size_t i = all.size() - std::min(all.size(), kMost); i < all.size(); ++i) {
    constexpr std::size_t kBytes = 300;
    list.append(string_node(one_line(all[i], kBytes)));
  }
  return object({{"of", Node::integer(static_cast<int>(all.size()))}, {"notes", std::move(list)}});
}

ToolResult tool_ask_user(Desk& desk, const Node& arguments) {
  const auto said = desk.ask_user ? desk.ask_user(words_at(arguments, "question")) : std::nullopt;
  if (!said) return refuse("nobody sits there to answer; decide by what the tools say");
  return object({{"answer", string_node(*said)}});
}

ToolResult tool_finish(Desk& desk, const Node& arguments) {
  const Session& session = desk.session;
  std::vector<std::string> faults;
  Finish finish;
  finish.rationale = words_at(arguments, "rationale");
  finish.trial =
      static_cast<int>(std::min<std::int64_t>(integer_at(arguments, "trial", 0), 1'000'000));
  const Trial* trial = session.trial(finish.trial);
  if (trial == nullptr) {
    faults.push_back(fmt::format("there is no trial {}", finish.trial));
  } else if (!trial->fits() || trial->fidelity == Fidelity::memory) {
    faults.push_back(
        fmt::format("trial {} is {} at fidelity {}: the answer must fit and have a "
                    "step time",
                    finish.trial, name_of(trial->verdict), name_of(trial->fidelity)));
  } else if (const Trial* known = session.known(trial->digest); !known->fits()) {
    faults.push_back(
        fmt::format("trial {} shows that this configuration does not run", known->number));
  }
  for (const Node& n : arguments.find("cites")->items()) {
    const auto number = static_cast<int>(std::min<std::int64_t>(*n.as_int64(), 1'000'000));
    if (session.trial(number) == nullptr) {
      faults.push_back(fmt::format("`cites` names trial {}, and there is none", number));
    }
    finish.cites.push_back(number);
  }
  if (!faults.empty()) return tl::unexpected<std::vector<std::string>>(std::move(faults));
  desk.finish = finish;
  return object({{"accepted", Node::integer(finish.trial)}});
}

}  // namespace eratos::agent
