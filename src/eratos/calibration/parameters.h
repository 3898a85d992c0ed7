// The named constants that a fit to measured steps may move: one table, for `eratos calibrate`, for
// the files it writes and for the page that defends them (docs/model/fitted.md).
//
// A constant belongs to a part (by number format) or to a framework's profile at one generation;
// never to a source, a model or a run. What isolated kernels and collectives were measured to do
// (curves of data/calibrations) is not in the table: those are fitted apart.
//
// Letters: least, most: no value outside is a machine's or a program's; spread: how far one owner's
// value lies from another's of its class, as the standard deviation of ln(value).
//
// Worked example: kernel.attention 0.87 with a spread of 0.12: a user's own build of the framework
// has 0.77 to 0.98 two times of three, before any run is seen.
#pragma once

#include <span>
#include <string_view>

#include "eratos/base/dtype.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"

namespace eratos::calibration {

enum class Owner { framework, part };

struct Parameter {
  std::string_view path;  // its key in the owner's file: "kernel.attention"
  Owner owner = Owner::framework;
  double least = 0;
  double most = 1;
  double spread = 0.2;
  std::string_view why;     // an owner may have its own
  std::string_view source;  // of bounds and spread
  // Exactly one of the two is set.
  double& (*in_framework)(framework::FrameworkProfile&) = nullptr;
  double& (*in_part)(PartCalibration&) = nullptr;
};

std::span<const Parameter> parameters();

// The entry of `path`, or nullptr.
const Parameter* find_parameter(std::string_view path);

// The entry of a part's in_training factor of one format, or nullptr where no fit moves it.
const Parameter* in_training_of(DType dtype);

double value_of(const Parameter& parameter, const framework::FrameworkProfile& profile);
double value_of(const Parameter& parameter, const PartCalibration& part);

// 0 and 1 say that an effect is absent (no such cost, nothing hidden, no loss): no fit invents it.
bool is_neutral(const Parameter& parameter, double value);

}  // namespace eratos::calibration
