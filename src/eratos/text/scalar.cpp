#include "eratos/text/scalar.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace eratos::text {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Walks a word from the left; each step says whether it matched and moves on if so.
class Walk {
 public:
  explicit Walk(std::string_view word) : rest_(word) {}

  bool done() const { return rest_.empty(); }
  bool one(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool any_of(std::string_view set) {
    if (rest_.empty() || set.find(rest_.front()) == std::string_view::npos) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::size_t many_of(std::string_view set) {
    std::size_t n = 0;
    while (any_of(set)) ++n;
    return n;
  }
  // Between `least` and `most` digits.
  bool digits(std::size_t least, std::size_t most) {
    std::size_t n = 0;
    while (n < most && any_of("0123456789")) ++n;
    return n >= least;
  }
  bool signed_exponent() { return any_of("eE") && any_of("+-") && many_of("0123456789") > 0; }
  // (:[0-5]?[0-9])+
  bool base60_places() {
    if (!one(':')) return false;
    do {
      const std::string_view before = rest_;
      if (!any_of("0123456789")) return false;
      if (before.front() <= '5') any_of("0123456789");
    } while (one(':'));
    return true;
  }

 private:
  std::string_view rest_;
};

bool is_integer(std::string_view s) {
  Walk prefix(s);
  prefix.any_of("+-");
  Walk w = prefix;
  if (w.one('0')) {
    if (w.done()) return true;
    Walk octal = w;
    if (octal.many_of("01234567_") > 0 && octal.done()) return true;
    const bool has_digit = s.find_first_not_of("+-_bx", s.find('0') + 1) != std::string_view::npos;
    Walk binary = w;
    if (binary.one('b')) return binary.many_of("01_") > 0 && binary.done() && has_digit;
    Walk hex = w;
    return hex.one('x') && hex.many_of("0123456789abcdefABCDEF_") > 0 && hex.done() &&
           s.find_first_of("0123456789abcdefABCDEF", s.find('x')) != std::string_view::npos;
  }
  if (!w.any_of("123456789")) return false;
  w.many_of("0123456789_");
  return w.done() || (w.base60_places() && w.done());
}

bool is_infinity(std::string_view s) {
  if (!s.empty() && (s.front() == '+' || s.front() == '-')) s.remove_prefix(1);
  return s == ".inf" || s == ".Inf" || s == ".INF";
}

bool is_nan(std::string_view s) { return s == ".nan" || s == ".NaN" || s == ".NAN"; }

bool is_floating(std::string_view s) {
  if (is_infinity(s) || is_nan(s)) return true;
  Walk w(s);
  if (w.one('.')) {
    if (!w.any_of("0123456789")) return false;
    w.many_of("0123456789_");
    return w.done() || (w.signed_exponent() && w.done());
  }
  w.any_of("+-");
  if (!w.any_of("0123456789")) return false;
  w.many_of("0123456789_");
  Walk base60 = w;
  if (w.one('.')) {
    w.many_of("0123456789_");
    return w.done() || (w.signed_exponent() && w.done());
  }
  if (!base60.base60_places() || !base60.one('.')) return false;
  base60.many_of("0123456789_");
  return base60.done();
}

bool is_timestamp(std::string_view s) {
  Walk date(s);
  if (!date.digits(4, 4) || !date.one('-')) return false;
  Walk w = date;
  if (date.digits(2, 2) && date.one('-') && date.digits(2, 2) && date.done()) return true;
  if (!w.digits(1, 2) || !w.one('-') || !w.digits(1, 2)) return false;
  if (!w.any_of("Tt") && w.many_of(" \t") == 0) return false;
  if (!w.digits(1, 2) || !w.one(':') || !w.digits(2, 2) || !w.one(':') || !w.digits(2, 2)) {
    return false;
  }
  if (w.one('.')) w.many_of("0123456789");
  if (w.done()) return true;
  w.many_of(" \t");
  if (w.one('Z')) return w.done();
  if (!w.any_of("+-") || !w.digits(1, 2)) return false;
  return w.done() || (w.one(':') && w.digits(2, 2) && w.done());
}

// [-+]? digits with at most one dot, optional exponent: what a person means by a number.
bool is_decimal(std::string_view s) {
  Walk w(s);
  w.any_of("+-");
  std::size_t digits = w.many_of("0123456789");
  if (w.one('.')) digits += w.many_of("0123456789");
  if (digits == 0) return false;
  if (w.done()) return true;
  if (!w.any_of("eE")) return false;
  w.any_of("+-");
  return w.many_of("0123456789") > 0 && w.done();
}

struct Digits {
  bool negative = false;
  std::string text;  // without sign and underscores
};

Digits strip(std::string_view s) {
  Digits d;
  for (char c : s) {
    if (c != '_') d.text += c;
  }
  if (!d.text.empty() && (d.text.front() == '+' || d.text.front() == '-')) {
    d.negative = d.text.front() == '-';
    d.text.erase(0, 1);
  }
  return d;
}

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a') return c - 'a' + 10;
  return c - 'A' + 10;
}

struct Magnitude {
  std::uint64_t exact = 0;
  bool fits = true;  // in 64 bits
  double nearest = 0.0;
};

Magnitude magnitude_in(std::string_view digits, unsigned base) {
  Magnitude m;
  for (char c : digits) {
    const auto v = static_cast<std::uint64_t>(digit_value(c));
    m.fits = m.fits && m.exact <= (std::numeric_limits<std::uint64_t>::max() - v) / base;
    m.exact = m.exact * base + v;
    m.nearest = m.nearest * base + static_cast<double>(v);
  }
  return m;
}

Magnitude magnitude_in_base60(std::string_view s) {
  Magnitude m;
  while (true) {
    const std::size_t colon = s.find(':');
    const Magnitude part = magnitude_in(s.substr(0, colon), 10);
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
    m.fits = m.fits && part.fits && m.exact <= kMax / 60 && m.exact * 60 <= kMax - part.exact;
    m.exact = m.exact * 60 + part.exact;
    m.nearest = m.nearest * 60 + part.nearest;
    if (colon == std::string_view::npos) return m;
    s.remove_prefix(colon + 1);
  }
}

// `s` has the integer pattern, and neither sign nor underscore.
Magnitude magnitude_of(std::string_view s) {
  if (s.size() > 1 && s.front() == '0') {
    if (s[1] == 'b') return magnitude_in(s.substr(2), 2);
    if (s[1] == 'x') return magnitude_in(s.substr(2), 16);
    return magnitude_in(s, 8);
  }
  return s.find(':') == std::string_view::npos ? magnitude_in(s, 10) : magnitude_in_base60(s);
}

std::optional<double> decimal_value(std::string_view s) {
  if (!s.empty() && s.front() == '+') s.remove_prefix(1);
  double value = 0.0;
  const char* begin = s.data();
  const char* end = begin + s.size();
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return value;
}

std::string shortest(double value) {
  std::array<char, 40> buffer{};
  const auto [end, error] = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return error == std::errc{} ? std::string(buffer.data(), end) : std::string();
}

}  // namespace

std::string_view name_of(ScalarKind kind) {
  switch (kind) {
    case ScalarKind::null:
      return "null";
    case ScalarKind::boolean:
      return "a boolean";
    case ScalarKind::integer:
      return "an integer";
    case ScalarKind::floating:
      return "a number";
    case ScalarKind::string:
      return "a string";
    case ScalarKind::timestamp:
      return "a date";
  }
  return "?";
}

ScalarKind pyyaml_kind(std::string_view plain) {
  if (plain.empty() || plain == "~" || plain == "null" || plain == "Null" || plain == "NULL") {
    return ScalarKind::null;
  }
  if (bool_of(plain)) return ScalarKind::boolean;
  const char first = plain.front();
  if (!is_digit(first) && first != '-' && first != '+' && first != '.') return ScalarKind::string;
  if (is_floating(plain)) return ScalarKind::floating;
  if (is_integer(plain)) return ScalarKind::integer;
  if (is_timestamp(plain)) return ScalarKind::timestamp;
  return ScalarKind::string;
}

std::optional<bool> bool_of(std::string_view word) {
  constexpr std::array<std::string_view, 9> kTrue = {"true", "True", "TRUE", "yes", "Yes",
                                                     "YES",  "on",   "On",   "ON"};
  constexpr std::array<std::string_view, 9> kFalse = {"false", "False", "FALSE", "no", "No",
                                                      "NO",    "off",   "Off",   "OFF"};
  for (std::string_view w : kTrue) {
    if (word == w) return true;
  }
  for (std::string_view w : kFalse) {
    if (word == w) return false;
  }
  return std::nullopt;
}

std::optional<std::int64_t> int_of(std::string_view word) {
  if (!is_integer(word)) return std::nullopt;
  const Digits d = strip(word);
  const Magnitude m = magnitude_of(d.text);
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (!m.fits || m.exact > kMax + (d.negative ? 1 : 0)) return std::nullopt;
  if (!d.negative) return static_cast<std::int64_t>(m.exact);
  if (m.exact == kMax + 1) return std::numeric_limits<std::int64_t>::min();
  return -static_cast<std::int64_t>(m.exact);
}

std::optional<double> double_of(std::string_view word) {
  if (is_integer(word)) {
    if (const auto exact = int_of(word)) return static_cast<double>(*exact);
    const Digits d = strip(word);
    const bool decimal =
        d.text.find_first_not_of("0123456789") == std::string::npos && d.text.front() != '0';
    const auto m = decimal ? decimal_value(d.text) : std::optional(magnitude_of(d.text).nearest);
    if (!m || std::isinf(*m)) return std::nullopt;
    return d.negative ? -*m : *m;
  }
  if (is_nan(word)) return std::numeric_limits<double>::quiet_NaN();
  if (is_infinity(word)) {
    const double inf = std::numeric_limits<double>::infinity();
    return word.front() == '-' ? -inf : inf;
  }
  if (!is_floating(word) && !is_decimal(word)) return std::nullopt;
  const Digits d = strip(word);
  std::string_view last = d.text;
  double minutes = 0.0;
  if (const std::size_t colon = last.rfind(':'); colon != std::string_view::npos) {
    minutes = magnitude_in_base60(last.substr(0, colon)).nearest * 60;
    last.remove_prefix(colon + 1);
  }
  auto value = decimal_value(last);
  if (!value) return std::nullopt;
  *value += minutes;
  return d.negative ? -*value : *value;
}

std::string yaml_double(double value) {
  if (std::isnan(value)) return ".nan";
  if (std::isinf(value)) return value < 0 ? "-.inf" : ".inf";
  std::string text = shortest(value);
  if (text.find('.') == std::string::npos) {
    const std::size_t e = text.find('e');
    text.insert(e == std::string::npos ? text.size() : e, ".0");
  }
  return text;
}

std::string json_double(double value) {
  if (!std::isfinite(value)) return "null";
  std::string text = shortest(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace eratos::text
