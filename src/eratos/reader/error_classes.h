// data/residuals.csv, or a table like it, as classes of errors (calibration/residuals.h).
#pragma once

#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/calibration/residuals.h"
#include "eratos/text/csv.h"

namespace eratos::reader {

// Columns: quantity (step, peak), framework, architecture, mixture (any, dense, experts; empty is any
// throughout), busy_from, busy_to, gpus_from, gpus_to, parameters_from, parameters_to (empty: no
// limit), rows, sources, low, high.
// Errors: a missing column, a word or number that is none, a band that is empty or whose low end is
// not above -1; all at once, each with its line.
Result<std::vector<calibration::ErrorClass>> read_error_classes(const text::CsvTable& table);

}  // namespace eratos::reader
