#include "eratos/report/accuracy_picks.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <utility>

#include "eratos/report/accuracy.h"

namespace eratos::report {

namespace {

constexpr std::size_t kLeastLayouts = 20;
constexpr std::size_t kTop = 10;

using Runs = std::vector<const AccuracyRow*>;

bool ran_out(const AccuracyRow& row) {
  return row.ok() && row.outcome == "oom" && !row.but_layout.empty();
}

// Those that are projected to fit, the fastest first.
Runs by_projection(Runs runs) {
  std::erase_if(runs, [](const AccuracyRow* r) { return !r->fits; });
  std::stable_sort(runs.begin(), runs.end(), [](const AccuracyRow* a, const AccuracyRow* b) {
    return a->projected_tokens > b->projected_tokens;
  });
  return runs;
}

// `runs`: as by_projection() gives them, one at least.
double regret_of(const Runs& runs, double best) {
  double sum = 0;
  int tied = 0;
  for (const AccuracyRow* run : runs) {
    if (run->projected_tokens != runs.front()->projected_tokens) break;
    sum += best / measured_tokens(*run) - 1;
    ++tied;
  }
  return sum / tied;
}

PickedGroup pick_of(const Runs& measured, const Runs& oom) {
  PickedGroup out;
  const std::string& key = measured.front()->but_layout;
  out.name = key.substr(0, key.find('\n'));
  out.family = measured.front()->family;
  out.n = static_cast<int>(measured.size());
  out.n_oom = static_cast<int>(oom.size());
  const AccuracyRow* best = *std::max_element(measured.begin(), measured.end(),
                                              [](const AccuracyRow* a, const AccuracyRow* b) {
                                                return measured_tokens(*a) < measured_tokens(*b);
                                              });
  out.best = best->id;
  const Runs fitting = by_projection(measured);
  out.denied = out.n - static_cast<int>(fitting.size());
  if (fitting.empty()) return out;
  out.regret = regret_of(fitting, measured_tokens(*best));

  Runs all = measured;
  all.insert(all.end(), oom.begin(), oom.end());
  const Runs ranked = by_projection(all);
  out.picked = ranked.front()->id;
  for (const AccuracyRow* run : ranked) {
    const bool tied = run->projected_tokens == ranked.front()->projected_tokens;
    out.picked_oom = out.picked_oom || (tied && ran_out(*run));
  }
  out.top = static_cast<int>(std::min(kTop, ranked.size()));
  out.top_oom = static_cast<int>(std::count_if(ranked.begin(), ranked.begin() + out.top,
                                               [](const AccuracyRow* r) { return ran_out(*r); }));
  return out;
}

bool has_choice(const Runs& measured) {
  std::set<std::string> layouts;
  for (const AccuracyRow* run : measured) layouts.insert(run->layout);
  return layouts.size() >= kLeastLayouts;
}

void summarise(Picks& out) {
  std::vector<double> regrets;
  for (const PickedGroup& g : out.groups) {
    regrets.push_back(g.regret);
    out.rows += g.n;
    out.rows_oom += g.n_oom;
    out.picks_oom += g.picked_oom ? 1 : 0;
    out.top += g.top;
    out.top_oom += g.top_oom;
    out.top_beside_oom += g.n_oom > 0 ? g.top : 0;
  }
  if (regrets.empty()) return;
  std::sort(regrets.begin(), regrets.end());
  out.regret_median = percentile(regrets, 0.5);
  out.regret_p90 = percentile(regrets, 0.9);
  out.regret_worst = regrets.back();
}

}  // namespace

double measured_tokens(const AccuracyRow& row) {
  return row.measured_speed / row.projected_speed * row.projected_tokens;
}

std::vector<Choice> choices_of(const std::vector<AccuracyRow>& rows) {
  std::map<std::string, Runs> measured;  // by the figure that speaks for their speed
  std::map<std::string, Runs> oom;
  // A run that stands in two files is one.
  const auto add = [](Runs& to, const AccuracyRow& row) {
    const bool there = std::any_of(to.begin(), to.end(),
                                   [&](const AccuracyRow* other) { return other->id == row.id; });
    if (!there) to.push_back(&row);
  };
  for (const AccuracyRow& row : rows) {
    if (ran_out(row)) {
      add(oom[row.but_layout], row);
    } else if (is_ranked(row)) {
      add(measured[row.family + '\n' + row.from + '\n' + row.but_layout], row);
    }
  }
  std::vector<Choice> out;
  for (const auto& [key, runs] : measured) {
    if (!has_choice(runs)) continue;
    const auto beside = oom.find(runs.front()->but_layout);
    out.push_back({runs, beside == oom.end() ? Runs{} : beside->second});
  }
  return out;
}

Picks pick_layouts(const std::vector<AccuracyRow>& rows) {
  Picks out;
  for (const Choice& choice : choices_of(rows)) {
    PickedGroup group = pick_of(choice.measured, choice.oom);
    if (group.picked.empty()) {
      ++out.none;
    } else {
      out.groups.push_back(std::move(group));
    }
  }
  summarise(out);
  return out;
}

}  // namespace eratos::report
