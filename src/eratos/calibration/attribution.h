// How much of one measured residual is whose: the constants that a figure reads share it by what is
// known of each.
//
// Letters: r = ln(measured / projected); u_i = ln(value / value before) of constant i, s_i its
// spread, J_i = d ln(figure) / d u_i; noise: what one run shows that no constant explains and the
// next run does not repeat.
//
//   u_i = s_i^2 J_i (r + sum_k J_k u_k) / (sum_k s_k^2 J_k^2 + noise^2)
//
// with r, J and u on the right where the constants are now. Repeated, it makes
// (r / noise)^2 + sum_i (u_i / s_i)^2 least (Gauss and Newton): a constant takes of the residual
// what its variance times the square of its share of the figure deserves, and the run itself the
// rest. A constant at an end of its range stays there, and the others take over. Source: the linear
// Gaussian inverse problem, Tarantola, Inverse Problem Theory (SIAM 2005), eq. 3.37.
//
// Worked example: a step of which products are 0.6 (spread 0.1) and launches 0.1 (spread 0.35),
// measured 10% longer than projected: r 0.0953, noise 0.04. s^2 J^2: 0.0036, 0.001225; noise^2
// 0.0016. Products take 0.0534 of r (they last 9.3% longer), launches 0.0182 (19.9% longer), and
// 0.0237 is the run's own.
#pragma once

#include <span>

#include "eratos/calibration/fit.h"
#include "eratos/calibration/parameters.h"

namespace eratos::calibration {

// The same as of the rows of a fit.
inline constexpr double kRunNoise = kNoise;

struct Attributed {
  const Parameter* parameter = nullptr;
  double before = 0;    // > 0
  double after = 0;     // where it is now
  double slope = 0;     // J there
  bool held = false;    // at an end of its range
  double explains = 0;  // of r, once all is done
};

// One step of the above; `residual` is r at the values `after`.
void attribute(double residual, std::span<Attributed> constants);

// Deals what the constants explain together to each, in proportion to (J before + J now) / 2 * u.
// `first`: slopes at the values before.
void deal(double explained, std::span<const double> first, std::span<Attributed> constants);

}  // namespace eratos::calibration
