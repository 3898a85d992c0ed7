// A plan of measurements: as the lines that a device program reads, for people, and as JSON.
//
// Lines: `eratos-plan 1`, `job NAME DIGEST`, then one a piece: `piece KIND id=... dtype=...
// count=...` and every field of its kind (calibration/piece.h), values without spaces, flags 0
// or 1.
#pragma once

#include <string>

#include "eratos/projection/plan.h"
#include "eratos/report/table.h"

namespace eratos::report {

inline constexpr int kPlanVersion = 1;

std::string plan_lines(const projection::Plan& plan);
std::string plan_text(const projection::Plan& plan, const Style& style);
std::string plan_json(const projection::Plan& plan, const std::string& version);

}  // namespace eratos::report
