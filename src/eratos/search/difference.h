// What separates two configurations, and what does each change contribute?
//
// From the one to the other, change by change: of those that are left the one that leads to the
// fastest legal job comes next; where no single one is legal, the fewest that are legal together.
// Each is projected from where the ones before it led, so their factors multiply to the whole
// difference, and what one of them is worth depends on its place.
//
// Worked example: 10 s a step at tp 8, pp 2 and 8 s at tp 4, pp 4; tp 4 alone takes 9 s, pp 4 alone
// does not divide the layers. So tp 4 first, +11.1%, then pp 4, +12.5%: 1.111 * 1.125 = 10 / 8.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/projection/projection.h"
#include "eratos/search/space.h"

namespace eratos::search {

using Settings = std::array<Value, kAxes>;
Settings settings_of(const Space& space, const Candidate& candidate);
Settings settings_of_job(const Space& space);

struct Contribution {
  struct Change {
    AxisId axis = AxisId::tp;
    std::string from;
    std::string to;
  };
  std::vector<Change> changes;  // one, or several that are legal only together
  double before = 0;            // seconds a token
  double after = 0;
  bool fits = false;  // once made
  Bytes device_peak;

  double gain() const { return before / after - 1; }
};

// Empty where the two are alike. Both are legal, or the program is wrong and stops.
std::vector<Contribution> contributions(const Space& space, const Settings& from,
                                        const Settings& to,
                                        const calibration::Calibration& calibration,
                                        const projection::Options& options,
                                        projection::Workspace& w);

}  // namespace eratos::search
