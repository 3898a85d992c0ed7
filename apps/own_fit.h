// A source's own calibration: what `eratos calibrate` would find on some of its runs, starting from
// a fit that has seen none of them, judged on the others.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "apps/measured_runs.h"
#include "apps/run_fit.h"
#include "eratos/calibration/fit.h"

namespace eratos::apps {

using FitRows = std::vector<std::size_t>;  // of a RunFit

// Which constants may move. host: host.*; kernel: kernel.*, loss.*; part: gemm.*; link:
// collectives, networks and overlap.
enum class Kind { any, host, kernel, part, link };
Kind kind_of(std::string_view path);

// Errors of some rows at x; nothing for a row that has no step.
std::vector<std::optional<double>> errors_at(const RunFit& fit, const std::vector<double>& x,
                                             const FitRows& rows);

std::vector<bool> marked(std::size_t n, const FitRows& rows);

// `n` of the rows of `of`, drawn by crc32 of the id and the draw: all where there are fewer.
FitRows drawn(const RunFit& fit, const MeasuredRuns& measured, const FitRows& of, std::size_t n,
              int draw);

// The errors of `rows`, which are all of a source, after a calibration on `calibrates` among them
// that starts where the others' fit ends; constants of another kind than `free` stay there. Nothing
// for the rows that were calibrated on. Leaves `measured` as it was.
std::vector<std::optional<double>> own_errors(RunFit& fit, MeasuredRuns& measured,
                                              const calibration::Fit::Without& others,
                                              const FitRows& rows, const FitRows& calibrates,
                                              Kind free = Kind::any);

}  // namespace eratos::apps
