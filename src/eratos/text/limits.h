// How large may an input be before it is refused?
//
// Everything a user hands in is bounded, so that a wrong file (a checkpoint, a log, an alias bomb)
// is refused in milliseconds instead of filling the memory. The limits are generous: the largest
// preset of the frameworks we read has 20 KB and 7 levels.
#pragma once

#include <cstddef>

namespace eratos::text {

// MB is 10^6 bytes.
inline constexpr std::size_t kMaxConfigBytes = 1'000'000;
inline constexpr std::size_t kMaxTableBytes = 64'000'000;

struct TreeLimits {
  std::size_t bytes = kMaxConfigBytes;
  std::size_t nodes = 200'000;          // after aliases are expanded
  std::size_t text_bytes = 16'000'000;  // of all scalars, after aliases are expanded
  int depth = 200;                      // levels of nesting
};

}  // namespace eratos::text
