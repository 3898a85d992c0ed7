// The memory tables of the text reports: a line a pipeline stage, a line a module.
#pragma once

#include <string>

#include "eratos/projection/projection.h"
#include "eratos/report/table.h"

namespace eratos::report {

std::string stage_table(const projection::MemoryAnswer& m, const Style& style);
std::string module_table(const projection::MemoryAnswer& m, const Style& style);

}  // namespace eratos::report
