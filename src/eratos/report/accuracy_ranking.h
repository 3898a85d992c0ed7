// Had one chosen the layout that is projected fastest, how much would it have cost? And do
// projected and measured speeds put the layouts in one order?
//
// A group: runs of one source that share model, accelerators and their number, sequence length,
// global batch, number format and the figure that speaks for their speed. Projected, neither
// suspect nor excluded, of at least five layouts (a job that was run twice is one), and not all
// measured equally fast. regret = best measured speed / measured speed of the run projected fastest
// - 1; of several that are projected equally fast, the mean of theirs. Rank correlation: Pearson's
// of the ranks, the mean rank for values that tie; 0 when all are projected equally fast.
//
// Worked example: measured 100 90 80 70 60, projected 100 110 80 70 60: the second is picked,
// regret 100/90 - 1 = 11.1%; ranks 5 4 3 2 1 and 4 5 3 2 1, correlation 1 - 6*2/(5*24) = 0.9.
//
// Source: C. Spearman, The proof and measurement of association between two things, 1904: the
// correlation.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace eratos::report {

struct AccuracyRow;

struct RankedGroup {
  std::string name;  // first line of AccuracyRow::but_layout
  int n = 0;
  double regret = 0;
  double correlation = 0;
  std::string best;    // id of the run measured fastest
  std::string picked;  // of the first of those projected fastest
};

// Shares of groups, interpolated linearly between the two nearest. Low correlations are the bad
// ones.
struct Ranking {
  std::vector<RankedGroup> groups;
  int rows = 0;
  double regret_median = 0;
  double regret_p90 = 0;
  double regret_worst = 0;
  double correlation_median = 0;
  double correlation_p10 = 0;
  double correlation_least = 0;
};

// Spearman's, of values at the same places; equal lengths. 0 when either does not vary.
double rank_correlation(const std::vector<double>& a, const std::vector<double>& b);

// Is its speed one that a ranking looks at?
bool is_ranked(const AccuracyRow& row);

// By family, those without a group left out.
std::map<std::string, Ranking> rank_layouts(const std::vector<AccuracyRow>& rows);

}  // namespace eratos::report
