// A seeded random number generator whose sequence is the same on every compiler and machine.
// Source: SplitMix64, Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators",
// OOPSLA 2014, section 4 (the three mixing constants).
#pragma once

#include <cstdint>

namespace eratos {

class Rng {
 public:
  explicit constexpr Rng(std::uint64_t seed) : state_(seed) {}

  constexpr std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  // Uniform in [0, n). Errors: n must be positive. The modulo bias is below n / 2^64.
  constexpr std::uint64_t below(std::uint64_t n) { return next() % n; }

  // Uniform in [0, 1).
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

}  // namespace eratos
