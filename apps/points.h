// Tables of measured kernels and collectives on the command line: validate and calibrate know them by
// their header.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "apps/arguments.h"
#include "apps/output.h"
#include "eratos/base/diagnostic.h"
#include "eratos/calibration/calibration.h"
#include "eratos/hardware/accelerator.h"
#include "eratos/reader/overlay.h"
#include "eratos/reader/points.h"

namespace eratos::apps {

// Is one of the files such a table? False for files that cannot be read.
bool any_points(const std::vector<std::string>& paths);

// Every line of the files. Errors: a file that is no such table, all at once.
Result<std::vector<reader::Point>> load_points(const std::vector<std::string>& paths);

// A part with what was measured of it, for every part that the points name. A part that the
// catalogue lacks or does not model is left out.
struct MeasuredPart {
  hardware::AcceleratorSpec spec;
  calibration::PartCalibration calibration;
};
std::map<std::string, MeasuredPart> load_parts(const std::vector<reader::Point>& points,
                                               const reader::Overlay* overlay = nullptr);

int validate_points(const Arguments& arguments, Format format);
// The same of measurements that are read already, with the numbers of --calibration.
int validate_points(const std::vector<reader::Point>& points, const Arguments& arguments,
                    Format format);
// Fitted curves as YAML with --output, else what they miss as a table.
int calibrate_points(const Arguments& arguments);

}  // namespace eratos::apps
