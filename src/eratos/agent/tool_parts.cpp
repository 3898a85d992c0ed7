#include "eratos/agent/tool_parts.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "eratos/agent/json_parts.h"
#include "eratos/agent/one_line.h"
#include "eratos/search/axes.h"

namespace eratos::agent {
namespace {

using search::AxisId;
using text::Node;

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

Node figure_node(const Figure& f) {
  if (f.low == f.value && f.high == f.value) return object({{"value", number_node(f.value)}});
  return object({{"value", number_node(f.value)},
                 {"low", number_node(f.low)},
                 {"high", number_node(f.high)}});
}

void add(std::vector<std::string>& all, const std::vector<std::string>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

tl::unexpected<std::vector<std::string>> refuse(std::string fault) {
  return tl::unexpected<std::vector<std::string>>(std::vector<std::string>{std::move(fault)});
}

std::string words_at(const Node& arguments, std::string_view key) {
  constexpr std::size_t kMostBytes = 10'000;  // beyond any maxLength of the tools' schemas
  return one_line(string_at(arguments, key), kMostBytes);
}

Node number_node(double value) {
  if (!std::isfinite(value)) return Node::null();
  if (value == 0) return Node::integer(0);
  constexpr double kDigits = 5;
  const double scale = std::pow(10, kDigits - 1 - std::floor(std::log10(std::abs(value))));
  const double rounded = std::round(value * scale) / scale;
  if (rounded == std::floor(rounded) && std::abs(rounded) < 1e15) {
    return Node::integer(static_cast<std::int64_t>(rounded));
  }
  return Node::number(rounded);
}

Node gib_node(double bytes) { return number_node(bytes / kGiB); }

tl::expected<job::JobSpec, std::vector<std::string>> spec_of(Desk& desk, const Node* from) {
  Session& session = desk.session;
  const Trial* trial = nullptr;
  if (from == nullptr || from->raw() == "base") return session.space().base;
  if (from->raw() == "best") {
    trial = session.best();
    if (trial == nullptr) return refuse("no trial fits yet, so there is no `best` to start from");
  } else if (from->scalar_kind() == text::ScalarKind::integer) {
    trial = session.trial(static_cast<int>(std::min<std::int64_t>(*from->as_int64(), 1'000'000)));
    if (trial == nullptr) {
      return refuse(
          fmt::format("there is no trial {}; there are {}", from->raw(), session.trials().size()));
    }
  } else {
    return refuse(fmt::format("`from` must be base, best or the number of a trial, found {}",
                              from->describe()));
  }
  const TunedJobPtr job = session.job_of(*trial);
  if (job == nullptr) {
    return refuse(fmt::format("trial {} is illegal, and nothing starts from it", trial->number));
  }
  return job->spec;
}

tl::expected<AxisId, std::vector<std::string>> axis_of(const std::string& name) {
  std::vector<std::string> known;
  for (const search::AxisFacts& f : search::kAxisFacts) {
    if (f.name == name || (!f.alias.empty() && f.alias == name)) return f.id;
    known.emplace_back(f.name);
    if (!f.alias.empty()) known.emplace_back(f.alias);
  }
  const std::string near = nearest_name(name, known);
  return refuse(
      fmt::format("there is no axis `{}`; {}", text::excerpt(name),
                  near.empty() ? "list_axes has them" : fmt::format("did you mean `{}`?", near)));
}

tl::expected<std::size_t, std::vector<std::string>> place_of(const search::Space& space,
                                                             AxisId axis, const Node& value) {
  const std::vector<search::Value>& values = space.values(axis);
  const std::string& word = value.raw();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].word == word) return i;
  }
  constexpr std::size_t kMostShown = 24;
  std::string known;
  for (std::size_t i = 0; i < std::min(values.size(), kMostShown); ++i) {
    known += (i == 0 ? "" : ", ") + values[i].word;
  }
  if (values.size() > kMostShown) known += ", ...";
  return refuse(fmt::format("`{}` cannot be `{}`; it may be {}", search::facts_of(axis).name,
                            text::excerpt(word), known));
}

tl::expected<Patch, std::vector<std::string>> proposal_of(Desk& desk, const Node& arguments) {
  const search::Space& space = desk.session.space();
  std::vector<std::string> faults;
  auto spec = spec_of(desk, arguments.find("from"));
  if (!spec) add(faults, spec.error());
  std::vector<std::pair<AxisId, std::size_t>> changes;
  for (const text::Entry& e : arguments.find("change")->entries()) {
    const auto axis = axis_of(e.key);
    if (!axis) {
      add(faults, axis.error());
      continue;
    }
    const auto place = place_of(space, *axis, e.value);
    if (!place) {
      add(faults, place.error());
      continue;
    }
    changes.emplace_back(*axis, *place);
  }
  if (!faults.empty()) return tl::unexpected<std::vector<std::string>>(std::move(faults));
  // In the order of the walk: a split looks at pp and vpp, sequence parallelism at tp.
  const auto has = [&](AxisId axis) {
    return std::any_of(changes.begin(), changes.end(),
                       [&](const auto& c) { return c.first == axis; });
  };
  if ((has(AxisId::pp) || has(AxisId::vpp)) && !has(AxisId::split)) {
    const std::vector<search::Value>& splits = space.values(AxisId::split);
    for (std::size_t i = 0; i < splits.size(); ++i) {
      if (splits[i].word == "even") changes.emplace_back(AxisId::split, i);
    }
  }
  std::sort(changes.begin(), changes.end());
  for (const auto& [axis, at] : changes) search::apply(space, axis, at, *spec);
  return desk.session.workshop().patch_to(*spec);
}

Pinned pinned_at(Desk& desk, const job::JobSpec& spec) {
  Pinned out{desk.session.space(), {}};
  // Recomputation 0 is that of the space's own job, which changes.
  out.space.recomputes.push_back(out.space.base.recompute);
  for (search::Value& v : out.space.axes[static_cast<std::size_t>(AxisId::recompute)]) {
    if (v.number == 0) v.number = static_cast<int>(out.space.recomputes.size()) - 1;
  }
  out.space.recomputes[0] = spec.recompute;
  out.space.base = spec;
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    const auto axis = static_cast<AxisId>(i);
    const search::Value own = search::value_of_job(out.space, axis);
    std::vector<search::Value>& values = out.space.axes[i];
    const bool there = std::any_of(values.begin(), values.end(),
                                   [&](const search::Value& v) { return v.word == own.word; });
    if (!there) values.push_back(own);
    search::put_in_order(axis, values);
    for (std::size_t k = 0; k < values.size(); ++k) {
      if (values[k].word == own.word) out.at.at[i] = static_cast<std::uint8_t>(k);
    }
  }
  return out;
}

Node trial_node(const Session& session, const Trial& t) {
  Node out = object({{"trial", Node::integer(t.number)},
                     {"verdict", string_node(name_of(t.verdict))},
                     {"changes", string_node(text_of(t.patch))}});
  if (!t.why.empty()) {
    Node why = Node::sequence();
    constexpr std::size_t kMostWhy = 6;
    for (std::size_t i = 0; i < std::min(t.why.size(), kMostWhy); ++i) {
      why.append(string_node(t.why[i]));
    }
    out.set("why", std::move(why));
  }
  const hardware::AcceleratorSpec& part = session.space().base.cluster.accelerator;
  if (t.projected.device_peak_bytes.value > 0) {
    out.set("peak_gib", gib_node(t.projected.device_peak_bytes.value));
    out.set("memory_gib", gib_node(part.memory_visible.value));
  }
  if (t.projected.tokens_per_s_per_gpu.value > 0) {
    out.set("tokens_per_s_per_gpu", figure_node(t.projected.tokens_per_s_per_gpu));
    out.set("step_s", figure_node(t.projected.step_s));
    out.set("mfu", number_node(t.projected.mfu));
    Node losses = Node::mapping();
    for (const auto& [what, share] : t.projected.losses) losses.set(what, number_node(share));
    out.set("losses", std::move(losses));
  }
  if (t.measured && !t.measured->out_of_memory) {
    out.set("measured",
            object({{"tokens_per_s_per_gpu", number_node(t.measured->tokens_per_s_per_gpu)},
                    {"step_s", number_node(t.measured->step_s)}}));
  }
  out.set("fidelity", string_node(name_of(t.fidelity)));
  return out;
}

}  // namespace eratos::agent
