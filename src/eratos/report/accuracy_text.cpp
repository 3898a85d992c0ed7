#include <algorithm>

#include <fmt/format.h>

#include "eratos/report/accuracy.h"
#include "eratos/report/quantity.h"

namespace eratos::report {

namespace {

std::vector<std::string> cells(const std::string& name, const ErrorSummary& s) {
  return {name,
          thousands(s.n),
          percent(s.median_abs),
          percent(s.p90_abs),
          signed_percent(s.mean),
          percent(s.within_10),
          s.in_band ? percent(*s.in_band) : "-"};
}

std::string error_table(const std::string& what, const std::map<std::string, Group>& groups,
                        const ErrorSummary& all, ErrorSummary Group::*part, const Style& style) {
  if (all.n == 0) return "";
  Table table({{what},
               {"runs", Align::right},
               {"median |e|", Align::right},
               {"90% |e|", Align::right},
               {"mean e", Align::right},
               {"within 10%", Align::right},
               {"in band", Align::right}});
  for (const auto& [name, group] : groups) {
    if ((group.*part).n > 0) table.row(cells(name, group.*part));
  }
  table.row(cells("all", all), true);
  return table.text(2, style) + '\n';
}

std::string feasibility_table(const Feasibility& f, const Style& style) {
  if (f.n_fits + f.n_oom == 0) return "";
  const auto rate = [](int part, int whole) {
    return whole > 0 ? percent(static_cast<double>(part) / whole) : "-";
  };
  Table table({{"feasibility"},
               {"runs", Align::right},
               {"wrong", Align::right},
               {"rate", Align::right},
               {""}});
  table.row({"fitted", thousands(f.n_fits), thousands(f.false_oom), rate(f.false_oom, f.n_fits),
             "said not to fit"});
  table.row({"out of memory", thousands(f.n_oom), thousands(f.false_fits),
             rate(f.false_fits, f.n_oom), "said to fit"});
  return table.text(2, style) + '\n';
}

std::string schedule_table(const std::map<std::string, SchedulePairs>& schedules,
                           const Style& style) {
  if (schedules.empty()) return "";
  Table table({{"schedules of one job, in pairs"},
               {"3% apart", Align::right},
               {"ordered right", Align::right},
               {"peaks", Align::right},
               {"ratio within 5%", Align::right}});
  std::string wrong;
  for (const auto& [family, pairs] : schedules) {
    table.row({family, thousands(pairs.speed_pairs), thousands(pairs.ordered),
               thousands(pairs.memory_pairs), thousands(pairs.close)});
    for (const SchedulePair& p : pairs.all) {
      if (p.measured_speed > 0 && !p.ordered()) {
        wrong += fmt::format("  {} to {}: speed measured {:.3f}, projected {:.3f}\n", p.b, p.a,
                             p.measured_speed, p.projected_speed);
      }
    }
  }
  return table.text(2, style) + (wrong.empty() ? "" : "  in the wrong order\n" + wrong) + '\n';
}

std::string ranking_table(const std::map<std::string, Ranking>& ranking, const Style& style) {
  if (ranking.empty()) return "";
  Table table({{"layouts of one job, ranked"},
               {"groups", Align::right},
               {"runs", Align::right},
               {"regret median", Align::right},
               {"90%", Align::right},
               {"worst", Align::right},
               {"rank correlation median", Align::right},
               {"10%", Align::right},
               {"least", Align::right}});
  const auto two = [](double x) { return fmt::format("{:.2f}", x); };
  for (const auto& [family, r] : ranking) {
    table.row({family, thousands(static_cast<double>(r.groups.size())), thousands(r.rows),
               percent(r.regret_median), percent(r.regret_p90), percent(r.regret_worst),
               two(r.correlation_median), two(r.correlation_p10), two(r.correlation_least)});
  }
  return table.text(2, style) + '\n';
}

std::string picks_table(const Picks& picks, const Style& style) {
  if (picks.groups.empty()) return "";
  Table table({{"picks of 20 layouts and more"},
               {"runs", Align::right},
               {"out of memory", Align::right},
               {"said not to fit", Align::right},
               {"regret", Align::right},
               {"pick"},
               {"top 10 out of memory", Align::right}});
  const auto whole = [](int n) { return thousands(n); };
  for (const PickedGroup& g : picks.groups) {
    table.row({g.name, whole(g.n), whole(g.n_oom), whole(g.denied), percent(g.regret),
               g.picked_oom ? "out of memory" : "runs",
               fmt::format("{} of {}", g.top_oom, g.top)});
  }
  table.row({fmt::format("median of {} groups", picks.groups.size()), whole(picks.rows),
             whole(picks.rows_oom), "", percent(picks.regret_median),
             fmt::format("{} out of memory", picks.picks_oom),
             fmt::format("{} of {}", picks.top_oom, picks.top)},
            true);
  std::string out = table.text(2, style);
  if (picks.none > 0) out += fmt::format("  {} groups have nothing that fits\n", picks.none);
  return out + '\n';
}

std::string skipped_table(const std::map<std::string, int>& skipped, const Style& style) {
  if (skipped.empty()) return "";
  std::vector<std::pair<std::string, int>> rows(skipped.begin(), skipped.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  Table table({{"not projected, because"}, {"runs", Align::right}});
  for (const auto& [reason, n] : rows) table.row({reason, thousands(n)});
  return table.text(2, style) + '\n';
}

}  // namespace

std::string accuracy_text(const std::vector<AccuracyRow>& rows, const Style& style) {
  const Accuracy a = summarise(rows);
  std::string out =
      style.bold(fmt::format("{} runs, {} projected", thousands(a.rows), thousands(a.projected))) +
      style.dim("   e = projected / measured - 1\n\n");
  out +=
      error_table("throughput by family", a.by_family, a.all.throughput, &Group::throughput, style);
  out += error_table("throughput by accelerator", a.by_gpu, a.all.throughput, &Group::throughput,
                     style);
  out += error_table("throughput by framework", a.by_framework, a.all.throughput,
                     &Group::throughput, style);
  if (a.suspect.n > 0) {
    out += fmt::format("  apart: {} runs whose published time is suspect, median |e| {}\n\n",
                       thousands(a.suspect.n), percent(a.suspect.median_abs));
  }
  out += error_table("memory by family", a.by_family, a.all.memory, &Group::memory, style);
  out += feasibility_table(a.feasibility, style);
  out += schedule_table(a.schedules, style);
  out += ranking_table(a.ranking, style);
  out += picks_table(a.picks, style);
  out += skipped_table(a.skipped, style);
  out.pop_back();
  return out;
}

}  // namespace eratos::report
