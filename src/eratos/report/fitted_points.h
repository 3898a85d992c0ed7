// Curves that were fitted to measured points, as YAML in the words of data/calibrations, and what
// they miss as text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/report/table.h"

namespace eratos::report {

// Mean absolute errors of one fitted curve.
struct FitErrors {
  int seen = 0;
  double seen_error = 0;
  int held_out = 0;
  double held_out_error = 0;
};

// What was fitted, in the calibration's own terms. Exactly one of the four is set.
struct FittedCurve {
  enum class Kind { gemm, cast, attention, collective };
  Kind kind = Kind::gemm;
  calibration::LibraryGemm gemm;  // library "": the part's own
  calibration::CastCurve cast;
  calibration::AttentionCurve attention;
  calibration::CollectiveCurve collective;
  FitErrors errors;
  std::string sources;
};
using FittedParts = std::map<std::string, std::vector<FittedCurve>>;

// "fit of 79 points by eratos calibrate, mean absolute error 2.9 %; 3.4 % on 19 held out"
std::string provenance(const FittedCurve& fitted);

std::string fitted_yaml(const FittedParts& parts);
std::string fitted_text(const FittedParts& parts, const Style& style);

}  // namespace eratos::report
