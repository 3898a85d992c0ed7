// MEASURED.json: pieces of work and how long a device took for each (calibration/measured.h).
//
//   { "eratos_measured": 1,
//     "provenance": { "device", "device_kind", "driver", "libtorch", "compiler", "commit", "host",
//                     "date_utc", "threads", "ranks", "backend", "load_1min", "noisy", "notes",
//                     "source", "clock": { "first_mhz", "last_mhz", "most_celsius", "most_watts" }
//                     },
//     "job": { "name", "digest" },
//     "pieces": [ { "id", "kind", "dtype", ...its fields..., "median_s", "minimum_s", "spread",
//                   "samples_s": [], "warmup", "checked", "bytes_peak", "bytes_reserved",
//                   "bytes_context", "skipped" } ],
//     "unmeasured": [ { "id", "why" } ] }
//
// SI units. The fields of a piece are those of calibration/piece.h, left out where they are as
// usual; flags are 0 or 1. Keys that this version does not know are left alone, so that a file of a
// newer program can be read; what a projection uses is checked whole: an id must be that of its
// fields, times positive, the median among its samples.
#pragma once

#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/calibration/measured.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// The only version there is.
inline constexpr int kMeasuredVersion = 1;

// Errors, all at once, each with line and column: not JSON (a file that was cut off), another kind
// of file, another version, a piece of no known kind, ids twice or not of their fields, times that
// are not positive.
Result<calibration::Measured> parse_measured(std::string_view text, const std::string& file);
Result<calibration::Measured> read_measured(const std::string& path);

// As a file holds it, ending in a line feed; parse_measured() gives an equal value back.
std::string measured_json(const calibration::Measured& measured);

// One piece as a row of it, on one line: what a journal of measurements holds.
text::Node piece_node(const calibration::MeasuredPiece& piece);

}  // namespace eratos::reader
