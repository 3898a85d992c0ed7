// Measurements of kernels and collectives by other people's programs: logs of nccl-tests and
// rccl-tests, and CSV timings of products. `calibrate` knows them by their content.
#pragma once

#include <string>
#include <vector>

#include "apps/arguments.h"
#include "apps/output.h"

namespace eratos::apps {

// Is one of the files such a log or table? False for files that cannot be read.
bool any_logs(const std::vector<std::string>& paths);

// `eratos validate` of them: each size and product priced beside its measurement.
int validate_logs(const Arguments& arguments, Format format);

// Curves that reproduce them, as a file for --calibration (-o), and the measurements themselves as
// MEASURED.json (--write-measured).
int calibrate_logs(const Arguments& arguments);

}  // namespace eratos::apps
