// What a driver calls an accelerator, and what the catalogue calls it.
//
// Worked example: "NVIDIA H100 80GB HBM3" is h100-sxm; "AMD Instinct MI300X" is mi300x; "AMD Radeon
// Graphics", which ROCm reports for several parts, is none.
#pragma once

#include <string>
#include <string_view>

namespace eratos::reader {

// The catalogue's name by data/device_names.csv, or "" where the words name no single part.
std::string part_of_device(std::string_view device);

}  // namespace eratos::reader
