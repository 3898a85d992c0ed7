#include "eratos/report/search_aim.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/report/search_parts.h"

namespace eratos::report {

namespace {

using search::Objective;
using text::Node;

constexpr double kDay = 86400;

Node string(std::string_view s) { return Node::string(std::string(s)); }

// Of checkpoints: seconds, or minutes where there are many.
std::string interval(Seconds s) {
  constexpr double kMinute = 60;
  return s.value < 5 * kMinute ? duration(s) : fmt::format("{:.0f} min", s.value / kMinute);
}

bool can_be_known(Objective objective, const search::Terms& terms) {
  return search::missing_for(objective, terms, "").empty();
}

// Four digits, rounded to the side that the limit lets through.
std::string reachable_words(const search::Limit& limit, double value) {
  const bool more = search::facts_of(limit.objective).more_is_better;
  double unit = 1;
  std::string_view word;
  switch (limit.objective) {
    case Objective::step_time:
      word = "s";
      break;
    case Objective::train_time:
      unit = kDay;
      word = "d";
      break;
    case Objective::energy:
      word = "J";
      break;
    case Objective::headroom:
      unit = kGiB;
      word = "GiB";
      break;
    case Objective::throughput:
    case Objective::cost:
      break;
  }
  const double n = value / unit;
  const double digits = std::pow(10, 3 - std::floor(std::log10(std::max(std::abs(n), 1e-300))));
  const double rounded = (more ? std::floor(n * digits) : std::ceil(n * digits)) / digits;
  return fmt::format("{}{}{:.4g}{}", search::facts_of(limit.objective).key,
                     more ? ">=" : "<=", rounded, word);
}

}  // namespace

search::Measures measures_of(const Answer& answer) {
  const projection::Projection& p = *answer.projection;
  const job::BatchSpec& batch = answer.spec->batch;
  const double tokens = static_cast<double>(batch.global) * batch.sequence;
  return {p.time.step.value / tokens, p.time.busy.value / tokens, tokens, p.memory.device_peak};
}

Column figure_column(Objective objective) {
  switch (objective) {
    case Objective::throughput:
      return {"tokens/s/GPU", Align::right};
    case Objective::step_time:
      return {"step", Align::right};
    case Objective::train_time:
      return {"days", Align::right};
    case Objective::cost:
      return {"price/M tokens", Align::right};
    case Objective::energy:
      return {"J/token", Align::right};
    case Objective::headroom:
      break;
  }
  return {"GiB free", Align::right};
}

std::string figure_cell(Objective objective, double value) {
  switch (objective) {
    case Objective::throughput:
      return fmt::format("{:.1f}", value);
    case Objective::step_time:
      return duration(Seconds{value});
    case Objective::train_time:
      return fmt::format("{:.2f}", value / kDay);
    case Objective::cost:
      return fmt::format("{:.4g}", value * 1e6);
    case Objective::energy:
      return fmt::format("{:.4g}", value);
    case Objective::headroom:
      break;
  }
  return gib_number(Bytes{value});
}

std::string figure_text(Objective objective, double value) {
  const std::string number = figure_cell(objective, value);
  switch (objective) {
    case Objective::throughput:
      return number + " tokens/s/GPU";
    case Objective::step_time:
      return number;
    case Objective::train_time:
      return number + " days";
    case Objective::cost:
      return number + " a million tokens";
    case Objective::energy:
      return number + " J/token";
    case Objective::headroom:
      break;
  }
  return number + " GiB free";
}

std::vector<Objective> more_figures(const search::Aim& aim) {
  std::vector<Objective> out;
  const auto add = [&](Objective o) {
    const bool shown = o == Objective::throughput || o == Objective::step_time;
    if (!shown && std::find(out.begin(), out.end(), o) == out.end()) out.push_back(o);
  };
  add(aim.objective);
  for (const search::Limit& limit : aim.limits) add(limit.objective);
  if (aim.terms.tokens > 0) add(Objective::train_time);
  if (aim.terms.price_per_gpu_hour > 0) add(Objective::cost);
  return out;
}

std::string proven_words(const search::Aim& aim) {
  const std::string within = aim.limits.empty() ? "" : " within the limits";
  switch (aim.objective) {
    case Objective::throughput:
      return "nothing" + within + " is faster";
    case Objective::step_time:
      return "no step" + within + " is shorter";
    case Objective::train_time:
      return "nothing" + within + " is done sooner";
    case Objective::cost:
      return "nothing" + within + " is cheaper";
    case Objective::energy:
      return "nothing" + within + " takes less energy";
    case Objective::headroom:
      break;
  }
  return "nothing" + within + " leaves more memory free";
}

std::string bill_text(const search::Aim& aim, const Answer& best) {
  const search::Terms& t = aim.terms;
  const search::Measures m = measures_of(best);
  std::string out;
  for (const search::Limit& limit : aim.limits) {
    out += fmt::format("{}: {}\n", limit.text,
                       figure_text(limit.objective, value_of(limit.objective, t, m)));
  }
  if (t.tokens > 0) {
    out += fmt::format("{} tokens: {}", count(t.tokens),
                       figure_text(Objective::train_time, value_of(Objective::train_time, t, m)));
    if (t.price_per_gpu_hour > 0) {
      out +=
          fmt::format(", {} at {:g} an accelerator and hour",
                      thousands(value_of(Objective::cost, t, m) * t.tokens), t.price_per_gpu_hour);
    }
    if (t.power.load_w > 0) {
      out += fmt::format(", {:.4g} MWh", value_of(Objective::energy, t, m) * t.tokens / 3.6e9);
    }
    out += '\n';
  }
  const search::Goodput& g = t.goodput;
  if (g.useful < 1) {
    out += fmt::format("{} of the time counts: {} writes checkpoints, one every {}",
                       percent(g.useful), percent(g.writing), interval(g.interval));
    if (g.between_failures.value > 0) {
      out += fmt::format("; {} is done again and {} restarts, a failure every {:.1f} h",
                         percent(g.redone), percent(g.restarting), g.between_failures.value / 3600);
    }
    out += '\n';
  }
  return out;
}

std::string limits_text(const SearchAnswer& a, const Style& style) {
  Table table({{"limit"}, {"refuses", Align::right}, {"alone it could be"}, {"with"}});
  const std::vector<search::Limit>& limits = a.aim->limits;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    const std::uint64_t refused = i < a.outcome->refused.size() ? a.outcome->refused[i] : 0;
    std::string could = "nothing: the other limits refuse all";
    std::string with;
    for (const Loosened& l : a.loosened) {
      if (l.limit != i) continue;
      could = reachable_words(limits[i], l.value);
      with = settings(a, l.at);
    }
    table.row({limits[i].text, thousands(static_cast<double>(refused)), could, with});
  }
  std::string out = style.bad(a.outcome->proof.proven ? "nothing that fits keeps the limits"
                                                      : "nothing was found that keeps the limits");
  return out + "\n\n" + table.text(0, style);
}

Node figures_node(const search::Aim& aim, const search::Measures& m) {
  Node out = Node::mapping();
  for (const search::ObjectiveFacts& f : search::kObjectiveFacts) {
    if (can_be_known(f.id, aim.terms)) out.set(f.json, number(value_of(f.id, aim.terms, m)));
  }
  return out;
}

void put_aim(const SearchAnswer& a, Node& out) {
  const search::Aim& aim = *a.aim;
  out.set("objective", string(search::facts_of(aim.objective).json));
  if (!aim.limits.empty()) {
    Node list = Node::sequence();
    for (std::size_t i = 0; i < aim.limits.size(); ++i) {
      const search::Limit& limit = aim.limits[i];
      Node one = Node::mapping();
      one.set("text", string(limit.text));
      one.set("figure", string(search::facts_of(limit.objective).json));
      one.set(search::facts_of(limit.objective).more_is_better ? "at_least" : "at_most",
              number(limit.value));
      const std::uint64_t refused = i < a.outcome->refused.size() ? a.outcome->refused[i] : 0;
      one.set("refused", Node::integer(static_cast<std::int64_t>(refused)));
      for (const Loosened& l : a.loosened) {
        if (l.limit != i) continue;
        one.set("reachable_alone", number(l.value));
        one.set("reachable_with", axes_node(a, l.at));
      }
      list.append(std::move(one));
    }
    out.set("requirements", std::move(list));
  }
  const search::Terms& t = aim.terms;
  Node terms = Node::mapping();
  if (t.tokens > 0) terms.set("tokens", number(t.tokens));
  if (t.price_per_gpu_hour > 0) terms.set("price_per_gpu_hour", number(t.price_per_gpu_hour));
  if (t.power.load_w > 0) {
    terms.set("load_w", number(t.power.load_w));
    terms.set("idle_w", number(t.power.idle_w));
  }
  out.set("terms", std::move(terms));
  const search::Goodput& g = t.goodput;
  if (g.useful < 1) {
    Node node = Node::mapping();
    node.set("useful", number(g.useful));
    node.set("writing", number(g.writing));
    node.set("redone", number(g.redone));
    node.set("restarting", number(g.restarting));
    node.set("interval_s", number(g.interval.value));
    if (g.between_failures.value > 0)
      node.set("between_failures_s", number(g.between_failures.value));
    out.set("goodput", std::move(node));
  }
}

}  // namespace eratos::report
