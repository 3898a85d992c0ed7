// The curve of one collective over one group, in as few pieces as its measurements ask for.
//
// Answers "which alpha, bus bandwidth and gamma reproduce this log?". A library changes its
// protocol with the size of the message (LL, LL128, Simple), and the time jumps or bends there: one
// curve of three terms then misses by 10 to 50 % at the jump. So the sizes are cut into runs, each
// with a curve of its own (calibration::CollectiveCurve::from).
//
// Each run's three constants, none negative, are those of the least worst relative error (Lawson's
// weights over a non-negative least-squares fit). The cut is the one of the least worst error, by
// dynamic programming over the sizes; of 1 to kMostPieces pieces, the first number within the
// tolerance, else the best. A run has at least two sizes. Times that fall where bytes grow cannot
// be followed, for a curve never falls: where that keeps sizes beyond the tolerance, the curve is
// that of the most sizes that never fall among themselves, and `beyond` counts those it misses.
// Source: C. L. Lawson, Contributions to the Theory of Linear Least Maximum Approximation, thesis,
// UCLA 1961.
//
// Worked example: 8 us up to 64 KiB at 10 GB/s, then 20 us at 100 GB/s: two pieces that miss by
// less than a thousandth.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eratos/projection/fit_points.h"

namespace eratos::projection {

inline constexpr int kMostPieces = 6;

struct PieceFit {
  std::vector<calibration::CollectiveCurve> rows;  // by rising `from`
  // |curve / measured - 1| over the sizes, of the curve as it is evaluated.
  double median = 0;
  double worst = 0;
  Bytes worst_at;
  int beyond = 0;  // sizes that miss by more than the tolerance
};

// Samples of one collective over one group; those of one size count as their mean. `domains`: of
// the scale-up level that the group spans. nullopt: fewer than 4 sizes.
std::optional<PieceFit> fit_pieces(const std::string& algorithm, int domains,
                                   const std::vector<Sample<CollectivePoint>>& samples,
                                   double tolerance);

// Links beyond the scale-up domain: share of the card's rate, alpha and gamma that fit the samples
// which leave their domain, in-domain curves being as `calibration` has them and without curves of
// a spread of its own. nullopt: fewer than 4 such samples.
std::optional<calibration::NetworkCurve> fit_network(
    const hardware::AcceleratorSpec& part, const calibration::PartCalibration& calibration,
    const std::vector<Sample<CollectivePoint>>& samples);

}  // namespace eratos::projection
