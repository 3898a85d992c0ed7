#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/quantity.h"
#include "eratos/report/search.h"
#include "eratos/report/search_advice.h"
#include "eratos/report/search_aim.h"
#include "eratos/report/search_parts.h"
#include "eratos/report/text.h"

namespace eratos::report {

namespace {

std::string whole(std::uint64_t n) { return thousands(static_cast<double>(n)); }

std::string proof_line(const SearchAnswer& a) {
  const search::Proof& p = a.outcome->proof;
  std::string out = fmt::format(
      "{} candidate{} = {} illegal + {} too big + {} cut by their bound + {} simulated",
      whole(p.raw), p.raw == 1 ? "" : "s", whole(p.illegal), whole(p.too_big), whole(p.cut_by_bound), whole(p.simulated));
  const std::uint64_t rest = p.raw - p.illegal - p.too_big - p.cut_by_bound - p.simulated;
  if (!p.proven) return out + fmt::format(" + {} not looked at", whole(rest));
  return out + (a.top.empty() ? "" : ": " + proven_words(*a.aim));
}

std::string value_on(const SearchAnswer& a, const search::Candidate& at, std::size_t axis) {
  return a.space->axes[axis][at.at[axis]].word;
}

// Axes on which the listed configurations differ.
std::vector<std::size_t> differing(const SearchAnswer& a) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    const bool differs = std::any_of(a.top.begin(), a.top.end(), [&](const Ranked& r) {
      return r.at.at[i] != a.top[0].at.at[i];
    });
    if (differs) out.push_back(i);
  }
  return out;
}

std::string top_table(const SearchAnswer& a, const Style& style) {
  std::vector<Column> columns{{"", Align::right},
                              {"tokens/s/GPU", Align::right},
                              {"step", Align::right},
                              {"GiB", Align::right}};
  const std::vector<search::Objective> more = more_figures(*a.aim);
  for (const search::Objective o : more) columns.push_back(figure_column(o));
  const std::vector<std::size_t> axes = differing(a);
  for (const std::size_t i : axes) columns.push_back({std::string(search::kAxisFacts[i].name)});
  columns.push_back({"binds"});
  columns.push_back({"one change that would help"});
  Table table(std::move(columns));
  for (std::size_t n = 0; n < a.top.size(); ++n) {
    const projection::Projection& p = *a.top[n].answer.projection;
    std::vector<std::string> cells{
        fmt::format("{}{}", n + 1, n > 0 && a.top[n].within_band ? "~" : ""),
        fmt::format("{:.1f}", p.throughput.tokens_per_s_per_gpu), duration(p.time.step),
        gib_number(p.memory.device_peak)};
    const search::Measures m = measures_of(a.top[n].answer);
    for (const search::Objective o : more) {
      cells.push_back(figure_cell(o, value_of(o, a.aim->terms, m)));
    }
    for (const std::size_t i : axes) cells.push_back(value_on(a, a.top[n].at, i));
    double share = 0;
    const std::string what = binds(a.top[n], &share);
    cells.push_back(share > 0 ? what + " " + percent(share) : what);
    cells.push_back(help_words(a, a.top[n]));
    table.row(std::move(cells), n == 0);
  }
  return table.text(0, style);
}

// What differs from the best: "tp 4, pp 8".
std::string differences(const SearchAnswer& a, const search::Candidate& at) {
  std::string out;
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    if (at.at[i] == a.top[0].at.at[i]) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", search::kAxisFacts[i].name,
                       value_on(a, at, i));
  }
  return out.empty() ? "the best" : out;
}

std::string change_line(const SearchAnswer& a, const Ranked& one, const search::StepAway& s) {
  std::string out =
      fmt::format("{}: {}", step_words(*a.space, s), signed_percent(one.figure / s.aimed - 1));
  if (s.limit >= 0) {
    out += ", against " + a.aim->limits[static_cast<std::size_t>(s.limit)].text;
  }
  if (!s.fits) out += fmt::format(", lacks {}", gib_text(s.missing));
  return out;
}

// The steps that cost least, legal and fitting: a sharp peak or a broad basin.
std::string around(const SearchAnswer& a, const Style& style) {
  constexpr std::size_t kMost = 8;
  std::vector<const search::StepAway*> legal;
  for (const search::StepAway& s : a.top[0].steps) {
    if (s.refused_by == nullptr) legal.push_back(&s);
  }
  if (legal.empty()) return "";
  std::stable_sort(legal.begin(), legal.end(),
                   [](const auto* x, const auto* y) { return x->aimed < y->aimed; });
  std::string out = '\n' + style.bold("one step away from the best") + '\n';
  for (std::size_t i = 0; i < std::min(kMost, legal.size()); ++i) {
    out += "  " + change_line(a, a.top[0], *legal[i]) + '\n';
  }
  if (legal.size() > kMost)
    out += fmt::format("  and {} more that lose more\n", legal.size() - kMost);
  return out;
}

// "memory and speed"
std::string front_words(const std::vector<search::Objective>& front) {
  std::string out;
  for (std::size_t i = 0; i < front.size(); ++i) {
    const std::string_view word = front[i] == search::Objective::headroom ? "memory"
                                  : front[i] == search::Objective::throughput
                                      ? "speed"
                                      : search::facts_of(front[i]).key;
    out += fmt::format("{}{}", i == 0 ? "" : i + 1 == front.size() ? " and " : ", ", word);
  }
  return out;
}

// Every point in JSON, an even choice of them here.
std::string front_table(const SearchAnswer& a, const Style& style) {
  constexpr std::size_t kMost = 12;
  const std::vector<search::Found>& front = a.outcome->front;
  const std::vector<search::Objective>& along = a.aim->front;
  std::vector<Column> columns;
  for (const search::Objective o : along) {
    const bool held = o == search::Objective::headroom;
    columns.push_back(held ? Column{"GiB", Align::right} : figure_column(o));
  }
  columns.push_back({"configuration"});
  Table table(std::move(columns));
  const std::size_t shown = std::min(kMost, front.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const search::Found& f = front[shown < 2 ? i : i * (front.size() - 1) / (shown - 1)];
    const search::Measures m = search::measures_of(*a.space, f);
    std::vector<std::string> cells;
    for (const search::Objective o : along) {
      cells.push_back(o == search::Objective::headroom
                          ? gib_number(f.device_peak)
                          : figure_cell(o, value_of(o, a.aim->terms, m)));
    }
    cells.push_back(differences(a, f.at));
    table.row(std::move(cells));
  }
  const std::string both = along.size() == 2 ? "both " : "all of ";
  std::string out = '\n' + style.bold("nothing beats these in " + both + front_words(along)) +
                    '\n' + table.text(0, style);
  if (front.size() > shown) out += fmt::format("{} of {} points\n", shown, front.size());
  return out;
}

std::string why_nothing(const SearchAnswer& a, const Style& style) {
  const search::Outcome& o = *a.outcome;
  std::string out;
  if (!o.refused.empty()) return limits_text(a, style);
  if (o.any_too_big) {
    out += style.bad(fmt::format("{}: the least holds {} of {}, {} too many",
                                 o.proof.proven ? "nothing fits" : "nothing was found that fits",
                                 gib_text(o.least_peak), gib_text(a.capacity),
                                 gib_text(o.least_peak - a.capacity))) +
           "\n" + wrapped("it is " + settings(a, o.least), 96, "      ") + "\n";
  } else {
    out += style.bad("nothing is legal") + "\n";
  }
  if (!o.any_too_big) {
    out += a.deciding.empty() ? "more than one rule stands in the way; those that were asked first:\n"
                              : "without one of these rules something would be:\n";
    Table rules({{"rule"}, {"removed", Align::right}, {"what it asks for"}});
    for (const RuleCount& r : removed_by(o)) {
      const bool decides =
          std::find(a.deciding.begin(), a.deciding.end(), r.rule) != a.deciding.end();
      if (!decides && !a.deciding.empty()) continue;
      if (r.rule->ground == search::Ground::repeat) continue;
      rules.row({std::string(r.rule->name), whole(r.removed), std::string(r.rule->reason)});
    }
    out += "\n" + rules.text(0, style);
  }
  out += "\n";
  return out + nearby_table(a.nearby, "what would", style);
}

}  // namespace

std::string search_text(const SearchAnswer& a, const Style& style) {
  std::string out;
  if (a.interrupted) out += style.bad("interrupted: the best so far") + "\n";
  if (a.top.empty()) {
    if (a.interrupted) return out + proof_line(a) + "\n";
    return out + why_nothing(a, style) + "\n" + proof_line(a) + "\n";
  }
  out += headline(a.top[0].answer, style) + "\n";
  out += top_table(a, style);
  const bool ties =
      std::any_of(a.top.begin() + 1, a.top.end(), [](const Ranked& r) { return r.within_band; });
  if (ties) out += "~ within the band of error of the best\n";
  out += "\n" + wrapped("best: " + settings(a, a.top[0].at), 96, "      ") + "\n";
  out += bill_text(*a.aim, a.top[0].answer);
  out += advice_text(a);
  out += around(a, style);
  if (a.front) out += front_table(a, style);
  return out + "\n" + proof_line(a) + "\n";
}

}  // namespace eratos::report
