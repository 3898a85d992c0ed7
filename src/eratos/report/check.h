// Is a job legal, does it fit, and which small changes would make it fit?
#pragma once

#include <string>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/report/answer.h"
#include "eratos/report/table.h"
#include "eratos/text/tree.h"

namespace eratos::report {

// One change away from the job, and what it would give.
struct Nearby {
  std::string change;  // "recompute.granularity: none -> full"
  Bytes device_peak;
  Seconds step_lower_bound;
};

// Under `title`; where there are none, a line that says so.
std::string nearby_table(const std::vector<Nearby>& nearby, const std::string& title,
                         const Style& style);
text::Node nearby_node(const std::vector<Nearby>& nearby);

std::string check_text(const Answer& a, const std::vector<Nearby>& nearby, const Style& style);
std::string check_json(const Answer& a, const std::vector<Nearby>& nearby);

// A job that is not legal. The text leaves its faults to standard error.
std::string illegal_text(const std::vector<Nearby>& nearby, const Style& style);
// {legal: false, faults: [...], nearest_that_fit: [...]}
std::string illegal_json(const Diagnostics& faults, const std::vector<Nearby>& nearby,
                         const std::string& version);

}  // namespace eratos::report
