// Physical quantities as types, so that bytes never meet seconds by accident.
//
// Purpose: every number that crosses a header of the core carries its unit in its type.
// Types: Bytes, Flops, Seconds, BytesPerSecond, FlopsPerSecond (all double, SI: 1 GB = 1e9 B,
// 1 GiB = 2^30 B) and Picoseconds (int64, the only clock of room `schedule`).
//
// Worked example: moving 6.7 GB at 3.35 TB/s takes
//   Bytes{6.7e9} / BytesPerSecond{3.35e12} == Seconds{0.002}.
#pragma once

#include <cmath>
#include <compare>
#include <cstdint>

namespace eratos {

// A double with a unit. `Tag` makes two quantities of different units different types.
template <class Tag>
struct Quantity {
  double value = 0.0;

  constexpr Quantity() = default;
  constexpr explicit Quantity(double v) : value(v) {}

  constexpr Quantity& operator+=(Quantity o) {
    value += o.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    value -= o.value;
    return *this;
  }
  constexpr Quantity& operator*=(double f) {
    value *= f;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity{a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity{a.value - b.value}; }
  friend constexpr Quantity operator*(Quantity a, double f) { return Quantity{a.value * f}; }
  friend constexpr Quantity operator*(double f, Quantity a) { return Quantity{a.value * f}; }
  friend constexpr Quantity operator/(Quantity a, double f) { return Quantity{a.value / f}; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value / b.value; }
  friend constexpr auto operator<=>(Quantity a, Quantity b) = default;
  friend constexpr bool operator==(Quantity a, Quantity b) = default;
};

using Bytes = Quantity<struct BytesTag>;
using Flops = Quantity<struct FlopsTag>;
using Seconds = Quantity<struct SecondsTag>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag>;

constexpr Seconds operator/(Bytes b, BytesPerSecond r) { return Seconds{b.value / r.value}; }
constexpr Seconds operator/(Flops f, FlopsPerSecond r) { return Seconds{f.value / r.value}; }
constexpr BytesPerSecond operator/(Bytes b, Seconds s) { return BytesPerSecond{b.value / s.value}; }
constexpr FlopsPerSecond operator/(Flops f, Seconds s) {
  return FlopsPerSecond{f.value / s.value};
}
constexpr Bytes operator*(BytesPerSecond r, Seconds s) { return Bytes{r.value * s.value}; }

template <class Tag>
constexpr Quantity<Tag> max(Quantity<Tag> a, Quantity<Tag> b) {
  return a.value < b.value ? b : a;
}
template <class Tag>
constexpr Quantity<Tag> min(Quantity<Tag> a, Quantity<Tag> b) {
  return b.value < a.value ? b : a;
}

inline constexpr double kKiB = 1024.0;
inline constexpr double kMiB = 1024.0 * kKiB;
inline constexpr double kGiB = 1024.0 * kMiB;

constexpr Bytes gib(double n) { return Bytes{n * kGiB}; }
constexpr Bytes mib(double n) { return Bytes{n * kMiB}; }
constexpr Seconds microseconds(double n) { return Seconds{n * 1e-6}; }
constexpr Seconds milliseconds(double n) { return Seconds{n * 1e-3}; }

// Integer picoseconds: all arithmetic of room `schedule` is exact, so that a fast path can be
// proved equal to the plain one. int64 holds 106 days.
using Picoseconds = std::int64_t;

// Longest duration one action may have: a step beyond it is refused, so that sums stay exact.
inline constexpr double kLongestSeconds = 1e6;

// Rounds once, to nearest; longer than kLongestSeconds becomes that. Errors: none; negative or non-finite durations are a programmer's
// mistake and are clamped to 0 by the caller that owns them.
inline Picoseconds to_picoseconds(Seconds s) {
  if (!(s.value < kLongestSeconds)) return static_cast<Picoseconds>(kLongestSeconds * 1e12);
  return static_cast<Picoseconds>(std::llround(s.value * 1e12));
}
constexpr Seconds to_seconds(Picoseconds p) { return Seconds{static_cast<double>(p) * 1e-12}; }

}  // namespace eratos
