// One group of pieces, measured well: warmed up, repeated until the median is sure or time is up.
#pragma once

#include <functional>
#include <vector>

#include "work.h"

namespace eratos::device {

struct Timing {
  std::vector<std::vector<double>> samples;  // of each piece of the group, seconds of a call
  int warm_up = 0;
  int calls = 1;
  bool narrow = false;     // every median's interval is within kNarrow
  bool disturbed = false;  // the kernel took the processor away while samples were taken
};

// An interval of 2 % about the median of each of two runs lets them differ by less than 5 %.
inline constexpr double kNarrow = 0.02;

// Samples for `share_s` seconds at most, and five at least where `stop` does not say otherwise.
Timing time_work(Work& work, std::size_t pieces, double share_s, const std::function<bool()>& stop);

}  // namespace eratos::device
