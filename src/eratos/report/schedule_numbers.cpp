#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "eratos/report/quantity.h"
#include "eratos/report/schedule_answer.h"

namespace eratos::report {

namespace {

// At most three decimals, without trailing zeros; three digits of what would be 0 then.
std::string trimmed(double value) {
  if (value > 0 && value < 0.0005) return fmt::format("{:.3g}", value);
  std::string out = fmt::format("{:.3f}", value);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out;
}

}  // namespace

std::string time_text(Picoseconds t, const Scale& scale) {
  if (scale.seconds) return duration(to_seconds(t));
  return trimmed(static_cast<double>(t) / static_cast<double>(scale.one_unit));
}

std::string held_text(std::int64_t held, std::int64_t one_held, const Scale& scale) {
  if (scale.bytes) return gib_text(Bytes{static_cast<double>(held)});
  const std::int64_t whole = held / one_held;
  const std::int64_t rest = held % one_held;
  if (rest == 0) return std::to_string(whole);
  const std::int64_t common = std::gcd(rest, one_held);
  constexpr std::int64_t kMostParts = 100;  // beyond, a fraction says less than decimals do
  if (one_held / common > kMostParts) {
    return trimmed(static_cast<double>(held) / static_cast<double>(one_held));
  }
  const std::string part = fmt::format("{}/{}", rest / common, one_held / common);
  return whole == 0 ? part : fmt::format("{} {}", whole, part);
}

}  // namespace eratos::report
