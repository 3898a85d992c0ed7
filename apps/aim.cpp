#include "apps/aim.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/limits.h"

namespace eratos::apps {

namespace {

using search::Objective;

std::vector<std::string> pieces_of(const std::string& text) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  for (;;) {
    const std::size_t comma = text.find(',', begin);
    out.push_back(text.substr(begin, comma - begin));
    if (comma == std::string::npos) return out;
    begin = comma + 1;
  }
}

// Puts what `read` finds behind `flag` into `to`, or its faults under the flag's name into `bad`.
template <class T, class Read>
void read_flag(const Arguments& arguments, const char* flag, Read read, T& to, Diagnostics& bad) {
  if (!arguments.has(flag)) return;
  auto value = read(arguments.value(flag));
  if (value) {
    to = *std::move(value);
    return;
  }
  for (Diagnostic d : value.error()) {
    d.message = fmt::format("`{}`: {}", flag, d.message);
    bad.push_back(std::move(d));
  }
}

// "50000h/gpu", "6000h/node"; a node's where neither is said.
Result<search::Failures> failures_of(const std::string& text) {
  const std::size_t slash = text.find('/');
  const std::string each = slash == std::string::npos ? "node" : text.substr(slash + 1);
  const Result<Seconds> mean = reader::seconds_of(text.substr(0, slash));
  if (!mean) return faults(mean.error());
  if (each != "node" && each != "gpu") {
    return fault(
        {.message = fmt::format("`/{}` in `{}`", each, text), .cure = "write /node or /gpu"});
  }
  if (mean->value <= 0) return fault({.message = "no time passes between failures"});
  search::Failures out;
  out.mtbf_hours = mean->value / 3600;
  out.of_gpu = each == "gpu";
  return out;
}

void read_failures(const Arguments& arguments, search::Failures& out, Diagnostics& bad) {
  read_flag(arguments, "--mtbf", failures_of, out, bad);
  read_flag(arguments, "--checkpoint-write", reader::seconds_of, out.write, bad);
  read_flag(arguments, "--restart", reader::seconds_of, out.restart, bad);
  read_flag(arguments, "--checkpoint-every", reader::seconds_of, out.every, bad);
  const bool fails = arguments.has("--mtbf");
  for (const char* flag : {"--checkpoint-write", "--restart"}) {
    if (fails && !arguments.has(flag)) {
      bad.push_back({.message = fmt::format("`--mtbf` without `{}`", flag),
                     .cure = "say how long it takes, e.g. 60s"});
    }
  }
  if (!fails && arguments.has("--restart")) {
    bad.push_back(
        {.message = "`--restart` without `--mtbf`", .cure = "say how often a node fails"});
  }
  if (!fails && arguments.has("--checkpoint-every") && !arguments.has("--checkpoint-write")) {
    bad.push_back({.message = "`--checkpoint-every` without `--checkpoint-write`",
                   .cure = "say how long it takes, e.g. 60s"});
  }
  if (arguments.has("--checkpoint-every") && out.every.value <= 0 && bad.empty()) {
    bad.push_back({.message = "`--checkpoint-every`: no work between two checkpoints"});
  }
  if (!fails && arguments.has("--checkpoint-write") && !arguments.has("--checkpoint-every")) {
    bad.push_back({.message = "`--checkpoint-write` without `--mtbf` or `--checkpoint-every`",
                   .cure = "say how often a node fails, or how often a checkpoint is written"});
  }
  if (out.mtbf_hours > 0 && out.every.value <= 0 && out.write.value <= 0 && bad.empty()) {
    bad.push_back({.message = "checkpoints that take no time have no best interval",
                   .cure = "say --checkpoint-every"});
  }
}

Result<double> price_of(const std::string& word) {
  double price = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), price);
  if (error != std::errc() || end != word.data() + word.size() || !(price > 0) || price > 1e9) {
    return fault({.message = fmt::format("`--price`: `{}` is no price above 0", word),
                  .cure = "write what one accelerator costs an hour, e.g. 2.10, in any currency"});
  }
  return price;
}

// "2.10" of every part, "h100-sxm=2.10" of one.
void read_prices(const Arguments& arguments, Wishes& out, Diagnostics& bad) {
  for (const std::string& text : arguments.values("--price")) {
    const std::size_t equals = text.find('=');
    const std::string part = equals == std::string::npos ? "" : text.substr(0, equals);
    const Result<double> price =
        price_of(equals == std::string::npos ? text : text.substr(equals + 1));
    const auto twice = [&](const std::string& whose) {
      bad.push_back(
          {.message = fmt::format("`--price`: {} has two prices", whose), .cure = "say one"});
    };
    if (!price) {
      bad.insert(bad.end(), price.error().begin(), price.error().end());
    } else if (part.empty()) {
      if (out.price > 0) twice("every part");
      out.price = *price;
    } else if (const auto known = reader::load_accelerator(part); known) {
      if (!out.prices.emplace(known->name, *price).second) twice(known->name);
    } else {
      bad.insert(bad.end(), known.error().begin(), known.error().end());
    }
  }
}

void read_front(const std::vector<std::string>& words, std::vector<Objective>& out,
                Diagnostics& bad) {
  for (const std::string& word : words) {
    for (const std::string& piece : pieces_of(word)) {
      const Result<Objective> objective = search::objective_of(piece);
      if (!objective) {
        bad.insert(bad.end(), objective.error().begin(), objective.error().end());
      } else if (std::find(out.begin(), out.end(), *objective) == out.end()) {
        out.push_back(*objective);
      }
    }
  }
  if (bad.empty() && (out.size() < 2 || out.size() > search::kMostAlong)) {
    bad.push_back(
        {.message = fmt::format("`--pareto` takes two or three figures, not {}", out.size()),
         .cure = "write e.g. step_time,memory,cost"});
  }
}

}  // namespace

bool is_front(const std::string& word, bool asked) {
  const std::vector<std::string> pieces = pieces_of(word);
  return (asked || pieces.size() > 1) &&
         std::any_of(pieces.begin(), pieces.end(),
                     [](const std::string& p) { return search::objective_of(p).has_value(); });
}

Result<Wishes> wishes_of(const Arguments& arguments, const std::vector<std::string>& front) {
  Wishes out;
  Diagnostics bad;
  read_flag(arguments, "--objective", search::objective_of, out.objective, bad);
  for (const std::string& text : arguments.values("--require")) {
    const Result<search::Limit> limit = reader::limit_of(text);
    if (limit) {
      out.limits.push_back(*limit);
    } else {
      for (Diagnostic d : limit.error()) {
        d.message = "`--require`: " + d.message;
        bad.push_back(std::move(d));
      }
    }
  }
  if (arguments.has("--within")) {
    Seconds within;
    read_flag(arguments, "--within", reader::seconds_of, within, bad);
    out.limits.push_back(
        {Objective::train_time, within.value, "train_time<=" + arguments.value("--within")});
  }
  if (!front.empty() && !arguments.has("--pareto")) {
    bad.push_back({.message = fmt::format("`{}` without `--pareto`", front[0])});
  }
  if (!front.empty()) {
    read_front(front, out.front, bad);
  } else if (arguments.has("--pareto")) {
    out.front = {Objective::headroom, Objective::throughput};
  }
  read_flag(arguments, "--tokens", reader::tokens_of, out.tokens, bad);
  if (arguments.has("--tokens") && bad.empty() && !(out.tokens > 0)) {
    bad.push_back({.message = fmt::format("`--tokens`: `{}` is no number above 0",
                                          arguments.value("--tokens")),
                   .cure = "write the tokens to train on, e.g. 15T"});
  }
  read_prices(arguments, out, bad);
  read_failures(arguments, out.failures, bad);
  if (!bad.empty()) return faults(std::move(bad));
  return out;
}

Result<search::Aim> aim_of(const Wishes& wishes, const hardware::ClusterSpec& cluster,
                           double memory_margin) {
  search::Aim out;
  out.objective = wishes.objective;
  out.limits = wishes.limits;
  out.front = wishes.front;
  search::Terms& t = out.terms;
  t.gpus = cluster.gpus();
  t.capacity = cluster.accelerator.memory_visible * (1.0 - memory_margin);
  t.tokens = wishes.tokens;
  const std::string& part = cluster.accelerator.name;
  const auto priced = wishes.prices.find(part);
  t.price_per_gpu_hour = priced != wishes.prices.end() ? priced->second
                         : wishes.price > 0            ? wishes.price
                                                       : cluster.running.price_per_gpu_hour;
  t.power = search::power_of(cluster);
  t.goodput = search::goodput_of(wishes.failures, cluster.nodes, cluster.gpus());
  Diagnostics bad;
  const double between = t.goodput.between_failures.value;
  const double lost = (wishes.failures.write + wishes.failures.restart).value;
  if (wishes.failures.mtbf_hours > 0 && between <= lost) {
    bad.push_back(
        {.message = fmt::format("on {} something fails every {:.3g} s, before a restart and "
                                "a checkpoint of {:.3g} s together are over",
                                cluster.name, between, lost),
         .cure = "say a longer --mtbf, fewer --nodes, or less --restart and "
                 "--checkpoint-write"});
  }
  std::vector<Objective> asked{wishes.objective};
  for (const search::Limit& limit : wishes.limits) asked.push_back(limit.objective);
  asked.insert(asked.end(), wishes.front.begin(), wishes.front.end());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (std::find(asked.begin(), asked.begin() + static_cast<std::ptrdiff_t>(i), asked[i]) !=
        asked.begin() + static_cast<std::ptrdiff_t>(i)) {
      continue;
    }
    std::string missing = search::missing_for(asked[i], t, part);
    if (!missing.empty()) bad.push_back({.message = std::move(missing)});
  }
  if (!bad.empty()) return faults(std::move(bad));
  return out;
}

}  // namespace eratos::apps
