// Had one measured a few of the layouts, chosen by eratos tune's rule, how good would the choice
// be?
//
// Groups are those of accuracy_picks.h: at least 20 measured layouts of one job, and beside them
// the ones that ran out of memory. Measured rows stand in for a device that is asked n times
// (search/refine.h says for which, and what is chosen then). regret after n: best measured speed /
// measured speed of the choice - 1.
//
// Worked example: measured 100 90 80, projected 100 110 80: before anything is measured the second
// is chosen, regret 11.1 %; it measures 90 where 110 was foreseen, the first is asked next and
// chosen then: after 4 the regret is 0.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "eratos/report/table.h"

namespace eratos::report {

inline constexpr std::array<int, 3> kTunedBudgets{0, 4, 8};

struct TunedGroup {
  std::string name;
  std::string family;
  int n = 0;
  int n_oom = 0;
  std::array<double, kTunedBudgets.size()> regret{};
  int measured = 0;         // asked for with the largest budget
  int measured_oom = 0;     // of them ran out of memory
  bool picked_oom = false;  // a choice ran out of memory
  bool none = false;        // nothing could be chosen
};

std::string tuned_text(const std::vector<TunedGroup>& groups, const Style& style);
std::string tuned_json(const std::vector<TunedGroup>& groups, const std::string& version);

}  // namespace eratos::report
