// Would somebody who runs our choice get a fast run, and one that fits?
//
// A group is one of accuracy_ranking.h with at least 20 measured layouts, whatever files they stand
// in, and beside them every layout of the same job that ran out of memory. The pick is the
// fastest by projection of those that are projected to fit. regret: best measured speed / measured
// speed of the fastest by projection of the measured that are projected to fit - 1; of several
// equally fast, the mean of theirs. Top: the ten fastest by projection that are projected to fit,
// fewer where there are fewer.
//
// Worked example: measured 100 90 80, projected 100 110 80, and one out of memory projected at 120:
// where it is said not to fit, the pick is the second and regret 100/90 - 1 = 11.1%; where it is
// said to fit it is the pick, takes one of four places, and the regret stays.
#pragma once

#include <string>
#include <vector>

namespace eratos::report {

struct AccuracyRow;

// The rows of one group. They point into `rows`.
struct Choice {
  std::vector<const AccuracyRow*> measured;
  std::vector<const AccuracyRow*> oom;
};
std::vector<Choice> choices_of(const std::vector<AccuracyRow>& rows);
// Measured speed in the unit of the projected tokens: a source's way of counting cancels.
double measured_tokens(const AccuracyRow& row);

struct PickedGroup {
  std::string name;  // as RankedGroup's
  std::string family;
  int n = 0;       // measured runs
  int n_oom = 0;   // runs out of memory
  int denied = 0;  // measured runs that are projected not to fit
  double regret = 0;
  std::string best;         // id of the run measured fastest
  std::string picked;       // of the pick
  bool picked_oom = false;  // it, or one that is projected as fast, ran out of memory
  int top = 0;              // places, 10 at most
  int top_oom = 0;          // of them taken by runs that ran out of memory
};

struct Picks {
  std::vector<PickedGroup> groups;
  int none = 0;  // groups of which nothing is projected to fit: no pick, and not in `groups`
  int rows = 0;
  int rows_oom = 0;
  double regret_median = 0;  // of the groups, as Ranking's
  double regret_p90 = 0;
  double regret_worst = 0;
  int picks_oom = 0;
  int top = 0;
  int top_oom = 0;
  int top_beside_oom = 0;  // places of the groups of which a run is known to have run out
};
Picks pick_layouts(const std::vector<AccuracyRow>& rows);

}  // namespace eratos::report
