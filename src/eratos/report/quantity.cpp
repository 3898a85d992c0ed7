#include "eratos/report/quantity.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

namespace eratos::report {

std::string gib_number(Bytes b) {
  const double n = b.value / kGiB;
  if (b.value == 0) return "0";
  if (std::abs(n) < 0.0005) return fmt::format("{:.1e}", n);
  if (std::abs(n) < 0.05) return fmt::format("{:.3f}", n);
  return fmt::format("{:.1f}", n);
}

std::string gib_text(Bytes b) { return gib_number(b) + " GiB"; }

std::string duration(Seconds s) {
  const double v = std::abs(s.value);
  if (v == 0) return "0 s";
  if (v < 0.95e-7) return fmt::format("{:.3g} ns", s.value * 1e9);
  if (v < 1e-3) return fmt::format("{:.1f} us", s.value * 1e6);
  if (v < 1) return fmt::format("{:.1f} ms", s.value * 1e3);
  if (v < 100) return fmt::format("{:.3f} s", s.value);
  return fmt::format("{:.1f} s", s.value);
}

std::string seconds_number(Seconds s, Seconds whole) {
  const int decimals = whole.value >= 100 ? 2 : whole.value >= 1 ? 3 : 4;
  return fmt::format("{:.{}f}", s.value, decimals);
}

std::string teraflops(FlopsPerSecond r) { return fmt::format("{:.1f} TFLOPS", r.value / 1e12); }

std::string count(double n) {
  constexpr std::array<std::pair<double, const char*>, 4> kScales{
      {{1e12, "T"}, {1e9, "B"}, {1e6, "M"}, {1e3, "k"}}};
  for (const auto& [scale, letter] : kScales) {
    if (n < scale) continue;
    const double scaled = n / scale;
    return fmt::format("{:.{}f} {}", scaled, scaled < 10 ? 2 : 1, letter);
  }
  return fmt::format("{:.0f}", n);
}

std::string thousands(double n) {
  std::string digits = fmt::format("{:.0f}", std::abs(n));
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return n < 0 && digits != "0" ? "-" + digits : digits;
}

std::string percent(double share) { return fmt::format("{:.1f}%", share * 100); }

std::string signed_percent(double share) { return fmt::format("{:+.1f}%", share * 100); }

}  // namespace eratos::report
