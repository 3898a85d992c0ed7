// What was fitted to logs of nccl-tests and to timings of products: as text, as JSON, and as the
// file that --calibration takes.
//
// Worked example: a curve of 24 sizes in 3 pieces whose largest error is 3.1 % at 512 KiB is the
// line
//   all_reduce over 8   24   3   1.0%   3.1%  512 KiB   0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/report/table.h"
#include "eratos/text/tree.h"

namespace eratos::report {

// One fitted curve and what it misses: |price / measured - 1| of the part as it is after the fit.
struct MeasuredFit {
  std::string part;
  std::string curve;  // "all_reduce over 8", "product bf16", "network"
  int points = 0;
  int pieces = 1;
  double median = 0;
  double worst = 0;
  int beyond = 0;        // points that miss by more than 5 %
  std::string worst_at;  // "512 KiB", "4096 x 4096 x 128"
  std::string source;
};

// A part after its fits, and which of its sections they changed.
struct FittedPart {
  calibration::PartCalibration calibration;
  bool collectives = false;
  bool network = false;
  std::vector<DType> formats;
};

std::string measured_fit_text(const std::vector<MeasuredFit>& fits, const Style& style);
text::Node measured_fit_node(const std::vector<MeasuredFit>& fits);
// {eratos, parts, fit}: the changed sections whole, in the words of data/calibrations.
text::Node overlay_node(const std::map<std::string, FittedPart>& parts,
                        const std::vector<MeasuredFit>& fits, const std::string& version);

// 8 B, 64 KiB, 1 MiB, 1.5 GiB.
std::string bytes_text(double bytes);

}  // namespace eratos::report
