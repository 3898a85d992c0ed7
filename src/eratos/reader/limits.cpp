#include "eratos/reader/limits.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>

namespace eratos::reader {

using search::facts_of;
using search::Limit;
using search::Objective;

namespace {

constexpr double kHour = 3600;
constexpr double kDay = 24 * kHour;

struct Unit {
  std::string_view word;
  double si;
};
constexpr Unit kTimes[] = {{"us", 1e-6}, {"ms", 1e-3}, {"s", 1},      {"min", 60},
                           {"h", kHour}, {"d", kDay},  {"days", kDay}};
constexpr Unit kBytes[] = {{"B", 1},      {"MB", 1e6},   {"GB", 1e9},
                           {"MiB", kMiB}, {"GiB", kGiB}, {"TiB", kGiB* kKiB}};
constexpr Unit kEnergies[] = {{"mJ", 1e-3}, {"J", 1}, {"kJ", 1e3}, {"Wh", kHour}, {"kWh", 3.6e6}};
constexpr Unit kPlain[] = {{"", 1}};

std::span<const Unit> units_of(Objective objective) {
  switch (objective) {
    case Objective::step_time:
    case Objective::train_time:
      return kTimes;
    case Objective::headroom:
      return kBytes;
    case Objective::energy:
      return kEnergies;
    case Objective::throughput:
    case Objective::cost:
      break;
  }
  return kPlain;
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::string words_of(std::span<const Unit> units) {
  std::string out;
  for (const Unit& u : units) {
    if (!u.word.empty()) out += (out.empty() ? "" : ", ") + std::string(u.word);
  }
  return out;
}

// A bare number after `days` is days.
Result<double> read_value(std::string_view what, std::span<const Unit> known, bool in_days,
                          std::string_view word) {
  double number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) {
    return fault({.message = "`" + std::string(word) + "` is no number",
                  .cure = "write a number of 0 or more, with its unit"});
  }
  const std::string_view unit = trimmed(word.substr(static_cast<std::size_t>(end - word.data())));
  if (unit.empty() && in_days) return number * kDay;
  for (const Unit& u : known) {
    if (u.word == unit) return number * u.si;
  }
  if (known.size() == 1) {
    return fault({.message = "`" + std::string(unit) + "` after the number",
                  .cure = std::string(what) + " is a bare number"});
  }
  return fault({.message = unit.empty() ? "`" + std::string(word) + "` has no unit"
                                        : "unknown unit `" + std::string(unit) + "`",
                .cure = std::string(what) + " takes " + words_of(known)});
}

constexpr Unit kCounts[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"B", 1e9}, {"T", 1e12}};

}  // namespace

Result<Seconds> seconds_of(std::string_view text) {
  const Result<double> s = read_value("a time", kTimes, false, trimmed(text));
  if (!s) return faults(s.error());
  return Seconds{*s};
}

Result<double> tokens_of(std::string_view text) {
  return read_value("a number of tokens", kCounts, false, trimmed(text));
}

Result<Limit> limit_of(const std::string& text) {
  const std::size_t at = text.find_first_of("<>=");
  const std::size_t behind = at == std::string::npos ? at : text.find_first_not_of("<>=", at);
  if (behind == std::string::npos || at == 0) {
    return fault({.message = "`" + text + "` is no limit",
                  .cure = "write FIGURE>=VALUE or FIGURE<=VALUE, e.g. headroom>=8GiB"});
  }
  const std::string_view name = trimmed(std::string_view(text).substr(0, at));
  const std::string_view sign = std::string_view(text).substr(at, behind - at);
  const Result<Objective> objective = search::objective_of(name);
  if (!objective) return faults(objective.error());
  const bool more = facts_of(*objective).more_is_better;
  if (sign != (more ? ">=" : "<=")) {
    const bool other_side = sign == "<=" || sign == ">=" || sign == "<" || sign == ">";
    const bool strict = sign == (more ? ">" : "<");
    return fault({.message = strict       ? "`" + std::string(sign) + "` in `" + text + "`"
                             : other_side ? "`" + text + "` keeps out the better values: " +
                                                (more ? "more" : "less") + " " +
                                                std::string(facts_of(*objective).key) + " is better"
                                          : "`" + std::string(sign) + "` in `" + text + "`",
                  .cure = std::string("write `") + std::string(name) + (more ? ">=" : "<=") +
                          text.substr(behind) + "`"});
  }
  Result<double> value = read_value(facts_of(*objective).key, units_of(*objective), name == "days",
                                    trimmed(std::string_view(text).substr(behind)));
  if (!value) {
    Diagnostics bad = value.error();
    for (Diagnostic& d : bad) d.message = "in `" + text + "`: " + d.message;
    return faults(std::move(bad));
  }
  return Limit{*objective, *value, text};
}

}  // namespace eratos::reader
