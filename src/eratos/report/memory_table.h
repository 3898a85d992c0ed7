// Memory as tables: a line a stage, a line a module.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "eratos/projection/projection.h"
#include "eratos/report/table.h"

namespace eratos::report {

// Stages that read the same are one line: "1-6".
Table stage_rows(const projection::MemoryAnswer& m);
// Kept bytes of the peak stage, the largest first.
std::vector<std::pair<ops::Module, Bytes>> saved_parts(const projection::MemoryAnswer& m);

// The same as text, with their headings.
std::string stage_table(const projection::MemoryAnswer& m, const Style& style);
std::string module_table(const projection::MemoryAnswer& m, const Style& style);

}  // namespace eratos::report
