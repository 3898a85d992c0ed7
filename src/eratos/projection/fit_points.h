// Constants of kernel and collective curves from measured points.
//
// Pure: samples and a start in, curves out. The start is written down here and not taken from what
// is shipped, so that a fit repeated gives the same numbers. A constant that the samples do not
// identify stays where it starts: leaving costs kPull for a factor of e.
//
// Worked example: 97 products of an H100 in bf16 give peak_fraction 0.80 to 0.85 and errors of 3%.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eratos/projection/points.h"

namespace eratos::projection {

template <class P>
struct Sample {
  P point;
  Seconds measured;
};

struct GemmFit {
  calibration::GemmCurve curve;
  std::vector<calibration::CastCurve> casts;
};

// Products of one format and library on one part. Dense products that run alone fix the curve and
// the casts; then `in_training` is set so that a product of 8192 cubed takes as long in a step as
// `calibration` says, at most 1; then grouped ones, in whichever setting, fix `grouped`. nullopt:
// fewer than 8 dense products that run alone.
std::optional<GemmFit> fit_gemm(const hardware::AcceleratorSpec& part,
                                const calibration::PartCalibration& calibration,
                                const std::vector<Sample<GemmPoint>>& samples);

// One kernel, pass, mask, head dim and format on one part: rate, s0 and fill. nullopt: fewer
// than 5.
std::optional<calibration::AttentionCurve> fit_attention(
    const hardware::AcceleratorSpec& part, const calibration::PartCalibration& calibration,
    const std::vector<Sample<AttentionPoint>>& samples);

// One collective of one group size inside a scale-up domain: alpha, bus bandwidth, gamma. nullopt:
// fewer than 6, or a group that leaves its domain.
std::optional<calibration::CollectiveCurve> fit_collective(
    const std::string& algorithm, const std::vector<Sample<CollectivePoint>>& samples);

}  // namespace eratos::projection
