#include "eratos/agent/retry.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

namespace eratos::agent {
namespace {

std::optional<double> decimal(std::string_view text) {
  if (text.empty() || text.size() > 12) return std::nullopt;
  double value = 0;
  bool point = false;
  double scale = 1;
  for (const char c : text) {
    if (c == '.' && !point) {
      point = true;
    } else if (c >= '0' && c <= '9') {
      value = value * 10 + (c - '0');
      if (point) scale *= 10;
    } else {
      return std::nullopt;
    }
  }
  return value / scale;
}

// Days from 1970-01-01 to a date of the Gregorian calendar.
// Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
std::int64_t days_to(std::int64_t year, int month, int day) {
  year -= month <= 2 ? 1 : 0;
  const std::int64_t era = year / 400;
  const std::int64_t of_era = year - era * 400;
  const std::int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
  return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct Words {
  std::array<std::string_view, 8> at{};
  std::size_t size = 0;
};

Words words_of(std::string_view text) {
  Words out;
  constexpr std::string_view kBetween = " ,:-";
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(kBetween, begin)) != std::string_view::npos) {
    const std::size_t end = std::min(text.find_first_of(kBetween, begin), text.size());
    if (out.size == out.at.size()) return {};
    out.at[out.size++] = text.substr(begin, end - begin);
    begin = end;
  }
  return out;
}

std::optional<int> whole(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<int> month_of(std::string_view text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const std::size_t at = text.size() == 3 ? kMonths.find(text) : std::string_view::npos;
  if (at == std::string_view::npos || at % 3 != 0) return std::nullopt;
  return static_cast<int>(at / 3) + 1;
}

}  // namespace

bool passes(int status) {
  return status == 408 || status == 409 || status == 425 || status == 429 || status >= 500;
}

std::optional<std::int64_t> http_date(std::string_view text) {
  const Words w = words_of(text);
  // Sun, 06 Nov 1994 08:49:37 GMT | Sunday, 06-Nov-94 08:49:37 GMT | Sun Nov  6 08:49:37 1994
  const bool asctime = w.size == 7 && month_of(w.at[1]).has_value();
  if (!asctime && (w.size != 8 || w.at[7] != "GMT")) return std::nullopt;
  const std::optional<int> day = whole(asctime ? w.at[2] : w.at[1]);
  const std::optional<int> month = month_of(asctime ? w.at[1] : w.at[2]);
  std::optional<int> year = whole(asctime ? w.at[6] : w.at[3]);
  const std::size_t clock = asctime ? 3 : 4;
  const std::optional<int> h = whole(w.at[clock]);
  const std::optional<int> m = whole(w.at[clock + 1]);
  const std::optional<int> s = whole(w.at[clock + 2]);
  if (!day || !month || !year || !h || !m || !s) return std::nullopt;
  // Two digits are of this century unless that is more than 50 years ahead of 2026 (RFC 9110).
  if (*year < 100) *year += *year > 76 ? 1900 : 2000;
  if (*day < 1 || *day > 31 || *h < 0 || *h > 23 || *m < 0 || *m > 59 || *s < 0 || *s > 60) {
    return std::nullopt;
  }
  return days_to(*year, *month, *day) * 86400 + *h * 3600 + *m * 60 + *s;
}

std::optional<double> asked_wait(const Head& head, std::int64_t unix_now) {
  if (const auto ms = decimal(head.value("retry-after-ms"))) return *ms / 1000;
  const std::string_view text = head.value("retry-after");
  if (const auto seconds = decimal(text)) return seconds;
  if (const auto date = http_date(text)) {
    return std::max(0.0, static_cast<double>(*date - unix_now));
  }
  return std::nullopt;
}

double wait_after(int k, std::optional<double> asked, const RetryPolicy& policy, Rng& rng) {
  const double whole = std::min(policy.first_wait_s * std::exp2(k - 1), policy.longest_wait_s);
  const double ours = whole / 2 + whole / 2 * rng.uniform();
  return asked ? *asked : ours;
}

}  // namespace eratos::agent
