#include "apps/pictures.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "apps/exit_code.h"
#include "apps/numbers.h"
#include "apps/output.h"
#include "eratos/base/units.h"
#include "eratos/reader/times.h"

namespace eratos::apps {

namespace {

// A whole word as a number, or nothing.
template <class Number>
std::optional<Number> number_in(std::string_view word) {
  Number value{};
  const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || at != word.data() + word.size()) return std::nullopt;
  return value;
}

// A place on the picture's time axis.
Result<Picoseconds> time_of(const report::Timeline& t, const char* flag, const std::string& word) {
  const std::optional<double> number = number_in<double>(word);
  const bool units = !t.time_unit.empty();
  if (number && (units || *number == 0)) {
    const double ps = *number * static_cast<double>(t.one_time);
    if (ps >= 0 && ps <= kLongestSeconds * 1e12) {
      return static_cast<Picoseconds>(std::llround(ps));
    }
  } else if (const auto seconds = reader::duration_of(word); seconds && !units) {
    return to_picoseconds(*seconds);
  }
  return fault({{},
                fmt::format("`{} {}` is no time of this picture", flag, word),
                units ? "it counts in units: write a number of them, 0 or more"
                      : "write a number with s, ms, us, ns or ps, at most 1e6 s",
                {}});
}

// "3" or "2-5".
std::optional<std::pair<int, int>> ranks_in(std::string_view word) {
  const std::size_t dash = word.find('-');
  const auto first = number_in<int>(word.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number_in<int>(word.substr(dash + 1));
  if (!first || !last || *first < 0 || *last < *first) return std::nullopt;
  return std::pair{*first, *last};
}

std::string time_text(const report::Timeline& t, Picoseconds time) {
  return t.time_unit.empty()
             ? fmt::format("{:.6g} ms", static_cast<double>(time) / 1e9)
             : fmt::format("{:.6g} {}", static_cast<double>(time) / static_cast<double>(t.one_time),
                           t.time_unit);
}

}  // namespace

bool is_drawn(const Arguments& arguments) {
  return arguments.has("--trace") || arguments.has("--svg") || arguments.has("--html");
}

std::string view_flag(const Arguments& arguments) {
  for (const char* flag : {"--from", "--to", "--ranks", "--actions"}) {
    if (arguments.has(flag)) return flag;
  }
  return "";
}

Result<report::View> view_of(const report::Timeline& t, const Arguments& arguments) {
  report::View view;
  Diagnostics wrong;
  const Picoseconds end = report::end_of(t);
  const auto read = [&](const char* flag, Picoseconds& to) {
    if (!arguments.has(flag)) return;
    const Result<Picoseconds> time = time_of(t, flag, arguments.value(flag));
    if (time) {
      to = *time;
    } else {
      wrong.push_back(time.error().front());
    }
  };
  read("--from", view.from);
  read("--to", view.to);
  if (wrong.empty() && view.from > 0 && view.from >= end) {
    wrong.push_back(
        {{},
         fmt::format("`--from {}` is not before the end of the step", arguments.value("--from")),
         "the step ends at " + time_text(t, end),
         {}});
  } else if (wrong.empty() && arguments.has("--to") && view.to <= view.from) {
    wrong.push_back({{},
                     fmt::format("`--to {}` is not after where the part begins, {}",
                                 arguments.value("--to"), time_text(t, view.from)),
                     "make it later, or --from earlier",
                     {}});
  }
  if (arguments.has("--ranks")) {
    const std::string word = arguments.value("--ranks");
    const int last = t.order->shape.pp - 1;
    const auto ranks = ranks_in(word);
    if (!ranks) {
      wrong.push_back({{}, fmt::format("`--ranks {}` is no rank", word), "write 3, or 2-5", {}});
    } else if (ranks->second > last) {
      wrong.push_back({{},
                       fmt::format("`--ranks {}`: there is no rank {}", word, ranks->second),
                       fmt::format("ranks count from 0 to {}", last),
                       {}});
    } else {
      view.first_rank = ranks->first;
      view.last_rank = ranks->second;
    }
  }
  view.most_actions = static_cast<std::int64_t>(number_of(arguments, "--actions", 0));
  if (!wrong.empty()) return faults(std::move(wrong));
  return view;
}

int write_pictures(const report::Timeline& t, const report::View& view,
                   const Arguments& arguments) {
  struct Kind {
    const char* flag;
    std::string (*draw)(const report::Timeline&, const report::View&);
  };
  for (const Kind& kind :
       {Kind{"--trace", report::timeline_trace}, Kind{"--svg", report::timeline_svg},
        Kind{"--html", report::timeline_html}}) {
    if (!arguments.has(kind.flag)) continue;
    const int code = write_named(arguments.value(kind.flag), kind.draw(t, view), arguments);
    if (code != kAnswered) return code;
  }
  return kAnswered;
}

}  // namespace eratos::apps
