// Answers for people: 80 to 100 columns, a unit at every number.
#pragma once

#include <string>

#include "eratos/projection/projection.h"
#include "eratos/report/answer.h"
#include "eratos/report/table.h"

namespace eratos::report {

std::string project_text(const Answer& a, const Style& style);
std::string memory_text(const Answer& a, const Style& style);
std::string explanation_text(const projection::Explanation& e, const Style& style);

// Pieces shared by the two and by `check`.
std::string headline(const Answer& a, const Style& style);
// "fits: 71.2 of 76.0 GiB a GPU ..." or "does not fit: ...".
std::string verdict(const projection::MemoryAnswer& m, const Style& style);
// The busiest rank's rows and the spread of its peak, where routing is uneven.
std::string uneven_routing(const projection::RoutingAnswer& r);
std::string notes(const Answer& a, const Style& style);

}  // namespace eratos::report
