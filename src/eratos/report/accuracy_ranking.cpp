#include "eratos/report/accuracy_ranking.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <set>
#include <utility>

#include "eratos/report/accuracy.h"

namespace eratos::report {

namespace {

constexpr std::size_t kLeastLayouts = 5;  // fewer have hardly an order to get wrong

using Runs = std::vector<const AccuracyRow*>;

// 1 for the least; the mean of the places that equal values take.
std::vector<double> ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (std::size_t from = 0; from < order.size();) {
    std::size_t to = from + 1;
    while (to < order.size() && values[order[to]] == values[order[from]]) ++to;
    const double rank = static_cast<double>(from + 1 + to) / 2;
    for (; from < to; ++from) out[order[from]] = rank;
  }
  return out;
}

bool can_be_ranked(const Runs& runs) {
  std::set<std::string> layouts;
  std::set<double> speeds;
  for (const AccuracyRow* run : runs) {
    layouts.insert(run->layout);
    speeds.insert(run->measured_speed);
  }
  return layouts.size() >= kLeastLayouts && speeds.size() > 1;
}

RankedGroup rank_group(const Runs& runs) {
  RankedGroup out;
  const std::string& key = runs.front()->but_layout;
  out.name = key.substr(0, key.find('\n'));
  out.n = static_cast<int>(runs.size());
  std::vector<double> measured;
  std::vector<double> projected;
  for (const AccuracyRow* run : runs) {
    measured.push_back(run->measured_speed);
    projected.push_back(run->projected_speed);
  }
  out.correlation = rank_correlation(measured, projected);
  const auto best = std::max_element(measured.begin(), measured.end());
  const auto first = std::max_element(projected.begin(), projected.end());
  out.best = runs[static_cast<std::size_t>(best - measured.begin())]->id;
  out.picked = runs[static_cast<std::size_t>(first - projected.begin())]->id;
  double sum = 0;
  int tied = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (projected[i] != *first) continue;
    sum += *best / measured[i] - 1;
    ++tied;
  }
  out.regret = sum / tied;
  return out;
}

void summarise(Ranking& out) {
  std::vector<double> regrets;
  std::vector<double> correlations;
  for (const RankedGroup& g : out.groups) {
    out.rows += g.n;
    regrets.push_back(g.regret);
    correlations.push_back(g.correlation);
  }
  std::sort(regrets.begin(), regrets.end());
  std::sort(correlations.begin(), correlations.end());
  out.regret_median = percentile(regrets, 0.5);
  out.regret_p90 = percentile(regrets, 0.9);
  out.regret_worst = regrets.back();
  out.correlation_median = percentile(correlations, 0.5);
  out.correlation_p10 = percentile(correlations, 0.1);
  out.correlation_least = correlations.front();
}

}  // namespace

bool is_ranked(const AccuracyRow& row) {
  return row.throughput_error().has_value() && row.suspect.empty() && row.excluded.empty() &&
         !row.but_layout.empty();
}

double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const std::vector<double> x = ranks(a);
  const std::vector<double> y = ranks(b);
  const double mean = static_cast<double>(x.size() + 1) / 2;  // of ranks, tied or not
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
    xy += (x[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

std::map<std::string, Ranking> rank_layouts(const std::vector<AccuracyRow>& rows) {
  // A run may stand in two files: it is ranked once in each.
  std::map<std::string, Runs> alike;
  for (const AccuracyRow& row : rows) {
    if (!is_ranked(row)) continue;
    alike[row.family + '\n' + row.file + '\n' + row.from + '\n' + row.but_layout].push_back(&row);
  }
  std::map<std::string, Ranking> out;
  for (const auto& [key, runs] : alike) {
    if (can_be_ranked(runs)) out[runs.front()->family].groups.push_back(rank_group(runs));
  }
  for (auto& [family, ranking] : out) summarise(ranking);
  return out;
}

}  // namespace eratos::report
