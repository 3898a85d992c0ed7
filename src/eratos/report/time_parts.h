// The step cut into the parts that people ask about.
#pragma once

#include <string>
#include <vector>

#include "eratos/projection/projection.h"

namespace eratos::report {

struct TimePart {
  std::string name;
  Seconds time;
};

// Parts of which the step is the sum, always the same ten in the same order.
std::vector<TimePart> step_parts(const projection::TimeAnswer& t);

// Modules by group, the largest first; rows of the step itself (optimizer and the like) left out.
std::vector<TimePart> module_parts(const projection::TimeAnswer& t);

}  // namespace eratos::report
