// Where does a scaling curve bend? At the size where the benefit, speed, for its cost, accelerators
// left idle, is largest: speed times efficiency.
//
// Letters: W accelerators, X tokens a second, E = (X / W) over that of the smallest size.
//   knee: the size with the largest X E, that is X^2 / W; the smallest such
// Source: D. L. Eager, J. Zahorjan, E. D. Lazowska, Speedup versus efficiency in parallel systems,
// IEEE Transactions on Computers 38(3), 1989: efficiency over execution time at its highest.
//
// Worked example: 8, 16, 32 accelerators at 8, 14 and 18 thousand tokens a second: X^2 / W is 8,
// 12.25 and 10.1: the knee is at 16.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace eratos::search {

struct SizePoint {
  int gpus = 1;
  double tokens_per_s = 0;
};

// Its place among `points`, smallest size first. Nothing where fewer than three sizes are known, or
// where the largest is still the best: the curve has not bent yet.
std::optional<std::size_t> knee_of(std::span<const SizePoint> points);

}  // namespace eratos::search
