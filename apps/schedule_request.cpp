#include "apps/schedule_request.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "apps/numbers.h"
#include "eratos/parallel/parallel.h"
#include "eratos/report/quantity.h"

namespace eratos::apps {

namespace {

using report::kDefault;
using report::ScheduleCost;

// A unit is drawn as so long, in traces too: 1 ms, times what makes a chunk of it whole.
constexpr Picoseconds kUnit = 1'000'000'000;

constexpr const char* kTimeFlags[] = {"--forward",         "--backward", "--input-gradient",
                                      "--weight-gradient", "--send",     "--output-work",
                                      "--barrier"};

std::optional<double> plain_number(const std::string& word) {
  double value = 0;
  const char* end = word.data() + word.size();
  const auto [at, error] = std::from_chars(word.data(), end, value);
  const bool good = error == std::errc() && at == end && std::isfinite(value) && value >= 0;
  return good ? std::optional<double>(value) : std::nullopt;
}

int count_of(const Arguments& arguments, std::string_view flag, int otherwise) {
  return static_cast<int>(number_of(arguments, flag, otherwise));
}

class Reading {
 public:
  Reading(const Arguments& arguments, ScheduleRequest& request)
      : arguments_(arguments), request_(request) {}

  void fail(std::string message, std::string cure = {}) {
    faults_.push_back({{}, std::move(message), std::move(cure), {}});
  }

  // Every action is simulated, and drawn from a table of some 32 bytes each: 2 GB at most.
  void check_size() {
    constexpr double kMostPasses = 2e7;
    constexpr int kMostRanks = 65536;
    const schedule::Shape& s = request_.shape;
    if (s.pp > kMostRanks) fail(fmt::format("`--pp {}` is more than {}", s.pp, kMostRanks));
    if (1.0 * s.pp * std::max(s.chunks, 2) * s.micro_batches > kMostPasses) {
      fail(fmt::format("{} ranks of {} chunks and {} micro-batches are more than 2e7 passes", s.pp,
                       std::max(s.chunks, 2), s.micro_batches),
           "lower one of them");
    }
  }

  // In which unit durations are, from those that are given: all with one, or all without.
  void read_scale() {
    std::string with;
    std::string without;
    for (const char* flag : kTimeFlags) {
      if (!arguments_.has(flag)) continue;
      const std::string word = arguments_.value(flag);
      if (plain_number(word)) {
        // 0 is 0 in any unit.
        if (*plain_number(word) > 0) without = fmt::format("{} {}", flag, word);
      } else if (reader::duration_of(word)) {
        with = fmt::format("{} {}", flag, word);
      } else {
        fail(fmt::format("`{} {}` is no duration", flag, word),
             "write a number with s, ms, us, ns or ps, at most 1e6 s, or numbers alone to count "
             "in units");
      }
    }
    if (!with.empty() && !without.empty()) {
      fail(fmt::format("`{}` is a duration and `{}` counts in units", with, without),
           "give all of them a unit, or none");
    }
    request_.scale.seconds = !with.empty();
    const Picoseconds v = request_.shape.chunks > 1 ? request_.shape.chunks : 2;
    request_.scale.one_unit = kUnit * (v / std::gcd(v, kUnit));
  }

  // Something that would count as nothing is a slip of the pen.
  Picoseconds counted(const char* flag, const std::string& word, bool positive, Picoseconds time) {
    if (positive && time == 0) {
      fail(fmt::format("`{} {}` is less than can be counted", flag, word),
           request_.scale.seconds ? "write 1ps or more, or 0" : "use larger units, or write 0");
    }
    return time;
  }

  std::optional<Picoseconds> time(const char* flag) {
    if (!arguments_.has(flag)) return std::nullopt;
    const std::string word = arguments_.value(flag);
    if (const auto number = plain_number(word)) {
      const double ps = *number * static_cast<double>(request_.scale.one_unit);
      if (ps > kLongestSeconds * 1e12) {
        fail(fmt::format("`{} {}` is more than can be counted", flag, word), "use smaller units");
        return 0;
      }
      return counted(flag, word, *number > 0, static_cast<Picoseconds>(std::llround(ps)));
    }
    const Seconds seconds = reader::duration_of(word).value_or(Seconds{0});
    return counted(flag, word, seconds.value > 0, to_picoseconds(seconds));
  }

  void say(const char* name, Picoseconds t, std::string_view origin) {
    request_.costs.push_back({name, ScheduleCost::Kind::time, t, "", std::string(origin)});
  }
  void say(const char* name, std::string words, std::string_view origin) {
    request_.costs.push_back(
        {name, ScheduleCost::Kind::words, 0, std::move(words), std::string(origin)});
  }

  // F, BW, B and W of one rank's layers; what is not given follows from what is.
  void read_durations() {
    const auto f = time("--forward");
    const auto bw = time("--backward");
    const auto b = time("--input-gradient");
    const auto w = time("--weight-gradient");
    reader::StageTimes& r = request_.rank;
    if (!f && request_.scale.seconds) {
      fail("durations are given, but not `--forward`", "add --forward DURATION");
    }
    r.forward = f.value_or(request_.scale.one_unit);
    if (bw && b && w) {
      r.backward = *bw;
      r.input_gradient = *b;
      r.weight_gradient = *w;
    } else if (bw) {
      if ((b && *b > *bw) || (w && *w > *bw)) {
        fail("one half of the backward is longer than `--backward`",
             "give --input-gradient and --weight-gradient, and leave --backward out");
      }
      r.backward = *bw;
      r.input_gradient = b ? *b : w ? *bw - *w : *bw / 2;
      r.weight_gradient = w ? *w : *bw - r.input_gradient;
    } else {
      r.input_gradient = b.value_or(r.forward);
      r.weight_gradient = w.value_or(r.forward);
      r.backward = r.input_gradient + r.weight_gradient;
    }
    say("forward", r.forward, f ? "" : kDefault);
    say("backward", r.backward, bw ? "" : b || w ? "both halves" : kDefault);
    const std::string_view rest = bw && (b || w) ? "the rest of backward"
                                  : bw           ? "half of backward"
                                                 : kDefault;
    say("input gradient", r.input_gradient, b ? "" : rest);
    say("weight gradient", r.weight_gradient, w ? "" : rest);
  }

  void read_sends() {
    const auto send = time("--send");
    request_.rank.send_forward = request_.rank.send_backward = send.value_or(0);
    const std::string word = arguments_.value("--sends", "overlapped");
    if (word == "blocking") {
      request_.sends = schedule::Sends::blocking;
    } else if (word != "overlapped") {
      fail(fmt::format("`--sends {}` is neither overlapped nor blocking", word));
    }
    sends_word_ = word;
    send_given_ = send.has_value();
  }
  void say_sends() {
    say("send", request_.rank.send_forward, send_given_ ? "" : kDefault);
    if (send_given_ || sends_word_ == "blocking") say("sends", sends_word_, "");
  }

  std::optional<double> size(const char* flag) {
    if (!arguments_.has(flag)) return std::nullopt;
    const auto bytes = reader::size_of(arguments_.value(flag));
    if (!bytes) {
      fail(fmt::format("`{} {}` is no number of bytes", flag, arguments_.value(flag)),
           "write a number with B, kB, MB, GB, TB, KiB, MiB, GiB or TiB, at most 9e15 B");
      return std::nullopt;
    }
    return bytes->value;
  }

  void read_memory() {
    const auto held = size("--held");
    const auto kept = size("--kept");
    request_.scale.bytes = held.has_value();
    if (kept && !held && !arguments_.has("--times")) {
      fail("`--kept` is given, but not `--held`", "add --held BYTES");
    }
    request_.rank.held = std::llround(held.value_or(0));
    request_.rank.kept = std::llround(kept.value_or(held.value_or(0)));
    if (held) {
      request_.costs.push_back({"held", ScheduleCost::Kind::bytes, request_.rank.held, "", ""});
      request_.costs.push_back(
          {"kept", ScheduleCost::Kind::bytes, request_.rank.kept, "", kept ? "" : "as held"});
    } else if (!arguments_.has("--times")) {
      say("held", "1 stage-micro-batch until W", kDefault);
    }
    if (!arguments_.has("--memory-limit")) return;
    const std::string word = arguments_.value("--memory-limit");
    if (const auto number = plain_number(word)) {
      request_.limit = *number;
      if (*number < 1) {
        fail(fmt::format("`--memory-limit {}` is less than one micro-batch of one rank's layers",
                         word),
             "it must be at least 1 stage-micro-batch, or bytes");
      }
    } else if (const auto bytes = reader::size_of(word)) {
      request_.limit = bytes->value;
      request_.limit_is_bytes = true;
    } else {
      fail(fmt::format("`--memory-limit {}` is no size", word),
           "write bytes, such as 40GiB and at most 9e15 B, or a number of stage-micro-batches");
    }
    if (request_.limit_is_bytes && !held && !arguments_.has("--times")) {
      fail("`--memory-limit` is in bytes, but how many a micro-batch holds is not known",
           "add --held BYTES, or give the limit in stage-micro-batches");
    }
  }

  void read_output_layer() {
    const std::string word = arguments_.value("--output-layer", "last-stage");
    bool known = false;
    for (const parallel::OutputLayer layer : parallel::kOutputLayers) {
      if (parallel::name_of(layer) != word) continue;
      request_.shape.output = layer;
      known = true;
    }
    if (!known) {
      fail(
          fmt::format("`--output-layer {}` is none of last-stage, two-barriers, one-barrier and "
                      "interlaced",
                      word));
    }
    const auto work = time("--output-work");
    const auto barrier = time("--barrier");
    const bool cut = request_.shape.output != schedule::OutputLayer::last_stage;
    if (cut && !work) {
      fail(fmt::format("`--output-layer {}` needs to know how long the output layer takes", word),
           "add --output-work DURATION, its forward of one micro-batch on one rank");
    }
    if (barrier && !cut) {
      fail("`--barrier` is given, but the output layer stays on the last stage",
           "add --output-layer two-barriers, one-barrier or interlaced");
    }
    const auto held = size("--output-held");
    if (held && !work) {
      fail("`--output-held` is given, but not `--output-work`", "add --output-work DURATION");
    }
    if (held && !request_.scale.bytes && !arguments_.has("--times")) {
      fail(
          "`--output-held` is in bytes, but how many a micro-batch of the layers holds is not "
          "known",
          "add --held BYTES");
    }
    request_.output_held = std::llround(held.value_or(0));
    request_.output_forward = work.value_or(0);
    request_.barrier = barrier.value_or(0);
    if (work) say("output work", *work, "its backward twice that");
    if (held) {
      request_.costs.push_back(
          {"output held", ScheduleCost::Kind::bytes, request_.output_held, "", ""});
    }
    if (cut) say("barrier", request_.barrier, barrier ? "" : kDefault);
  }

  Diagnostics& faults() { return faults_; }

 private:
  const Arguments& arguments_;
  ScheduleRequest& request_;
  Diagnostics faults_;
  std::string sends_word_;
  bool send_given_ = false;
};

Picoseconds part_of(Picoseconds whole, std::int64_t parts) { return (whole + parts / 2) / parts; }

}  // namespace

Result<ScheduleRequest> schedule_request(const Arguments& arguments) {
  ScheduleRequest out;
  out.algorithm = arguments.value("--algorithm", "auto");
  out.shape.pp = count_of(arguments, "--pp", 0);
  out.chunks_given = arguments.has("--vpp");
  out.shape.chunks = count_of(arguments, "--vpp", 1);
  out.shape.micro_batches = count_of(arguments, "--micro-batches", 0);
  out.shape.group_size = count_of(arguments, "--group-size", 0);
  out.times_file = arguments.value("--times");
  out.hideable = number_of(arguments, "--hideable", 0);

  Reading reading(arguments, out);
  if (!arguments.has("--pp") && out.times_file.empty()) {
    reading.fail("`schedule` needs --pp N, the number of pipeline ranks");
  }
  if (!arguments.has("--micro-batches")) {
    reading.fail("`schedule` needs --micro-batches N, those of one step");
  }
  reading.check_size();
  reading.read_scale();
  if (out.times_file.empty()) {
    reading.read_durations();
    reading.read_sends();
    reading.say_sends();
  } else {
    for (const char* flag : {"--forward", "--backward", "--input-gradient", "--weight-gradient",
                             "--send", "--held", "--kept"}) {
      if (arguments.has(flag)) {
        reading.fail(fmt::format("`{}` and `--times` say the same thing", flag),
                     "leave one of them out");
      }
    }
    for (const char* flag : {"--output-work", "--barrier"}) {
      const auto number = plain_number(arguments.value(flag, "0"));
      if (number && *number > 0) {
        reading.fail(fmt::format("`{} {}` has no unit, and --times is in seconds", flag,
                                 arguments.value(flag)),
                     "write a number with s, ms, us, ns or ps");
      }
    }
    reading.read_sends();
  }
  reading.read_memory();
  reading.read_output_layer();
  if (out.hideable > 0) {
    out.costs.push_back({"hideable", ScheduleCost::Kind::words, 0,
                         report::percent(out.hideable) + " of F and B side by side", ""});
  }
  if (arguments.has("--time-limit")) {
    const auto limit = reader::duration_of(arguments.value("--time-limit"));
    if (!limit || limit->value <= 0) {
      reading.fail(fmt::format("`--time-limit {}` is no duration", arguments.value("--time-limit")),
                   "write a number with s or ms");
    }
    out.time_limit = limit.value_or(out.time_limit);
  }
  if (!reading.faults().empty()) return faults(reading.faults());
  return out;
}

Result<void> add_times(ScheduleRequest& request) {
  if (request.times_file.empty()) return {};
  Result<reader::Times> times = reader::read_times(request.times_file);
  if (!times) return faults(std::move(times.error()));
  const int stages = static_cast<int>(times->stages.size());
  schedule::Shape& shape = request.shape;
  if (shape.pp == 0) shape.pp = times->ranks > 0 ? times->ranks : stages / shape.chunks;
  if (shape.pp == 0 || stages % shape.pp != 0) {
    return fault({{request.times_file, 0, 0},
                  fmt::format("{} stages cannot be put on {} ranks evenly", stages, shape.pp),
                  "every rank has as many stages as every other: change --pp or the file",
                  "parallel.pp"});
  }
  if (times->ranks > 0 && times->ranks != shape.pp) {
    return fault({{request.times_file, 0, 0},
                  fmt::format("the file has {} ranks, --pp says {}", times->ranks, shape.pp),
                  "leave --pp out",
                  "parallel.pp"});
  }
  request.scale.seconds = true;
  request.scale.bytes = times->bytes;
  if (request.output_held > 0 && !times->bytes) {
    return fault({{request.times_file, 0, 0},
                  "--output-held is in bytes, but the file does not say what a stage holds",
                  "add `held` to every stage, or leave --output-held out"});
  }
  if (request.limit_is_bytes && !times->bytes) {
    return fault({{request.times_file, 0, 0},
                  "--memory-limit is in bytes, but the file does not say what a stage holds",
                  "add `held` to every stage, or give the limit in stage-micro-batches"});
  }
  request.costs.insert(request.costs.begin(),
                       {"times", ScheduleCost::Kind::words, 0,
                        fmt::format("of {} stages from {}", stages, request.times_file), ""});
  if (times->sends) {
    request.costs.push_back({"sends", ScheduleCost::Kind::words, 0,
                             request.sends == schedule::Sends::blocking ? "blocking" : "overlapped",
                             ""});
  }
  if (!times->sends) request.notes.emplace_back("the file has no `send`: transfers take no time");
  if (!times->bytes) {
    request.notes.emplace_back(
        "the file has no `held`: every stage holds the same, one stage-micro-batch a rank");
  } else if (times->split && !times->kept) {
    request.notes.emplace_back(
        "the file has no `kept`: a stage keeps as much until its weight gradient as it holds "
        "before");
  }
  request.times = std::move(*times);
  return {};
}

Result<ScheduleCosts> costs_of(const ScheduleRequest& request, const schedule::Shape& shape,
                               schedule::Placement placement, bool splits) {
  const int stages = schedule::stage_count(shape, placement);
  const std::int64_t parts = stages / shape.pp;  // virtual stages of one rank's layers
  ScheduleCosts out;
  out.chunks.resize(static_cast<std::size_t>(schedule::slot_count(shape)));
  out.links.resize(out.chunks.size());
  int joined = 1;  // stages of the file that are one virtual stage
  if (request.times) {
    const int have = static_cast<int>(request.times->stages.size());
    if (have % stages != 0) {
      return fault({.message = fmt::format("it needs {} virtual stages, {} has {}", stages,
                                           request.times_file, have),
                    .cure = "give the times of more, smaller stages",
                    .field = "parallel.vpp"});
    }
    if (splits && !request.times->split) {
      return fault(
          {.message = fmt::format("it runs the halves of a backward apart, {} has only the "
                                  "whole",
                                  request.times_file),
           .cure = "add input_gradient and weight_gradient to every stage"});
    }
    joined = have / stages;
  }
  out.one_held = parts * joined;
  double time = 0;
  double bytes = 0;
  for (int copy = 0; copy < schedule::copies_of(placement); ++copy) {
    for (int stage = 0; stage < stages; ++stage) {
      const auto slot = static_cast<std::size_t>(schedule::slot_at(shape, placement, stage, copy));
      schedule::ChunkCost& c = out.chunks[slot];
      schedule::LinkCost& l = out.links[slot];
      if (request.times) {
        for (int i = 0; i < joined; ++i) {
          const reader::StageTimes& t =
              request.times->stages[static_cast<std::size_t>(stage * joined + i)];
          c.forward += t.forward;
          c.backward += t.backward;
          c.input_gradient += t.input_gradient;
          c.weight_gradient += t.weight_gradient;
          c.held += request.times->bytes ? t.held : 1;
          c.kept += request.times->bytes ? t.kept : 1;
          if (i == 0) l.backward = t.send_backward;
          l.forward = t.send_forward;
        }
      } else {
        const reader::StageTimes& t = request.rank;
        c.forward = part_of(t.forward, parts);
        c.backward = part_of(t.backward, parts);
        c.input_gradient = part_of(t.input_gradient, parts);
        c.weight_gradient = part_of(t.weight_gradient, parts);
        c.held = request.scale.bytes ? part_of(t.held, parts) : 1;
        c.kept = request.scale.bytes ? part_of(t.kept, parts) : 1;
        l = {t.send_forward, t.send_backward};
      }
      const auto hidden = [&](Picoseconds t) {
        return static_cast<Picoseconds>(std::llround(request.hideable * static_cast<double>(t)));
      };
      c.forward_hideable = hidden(c.forward);
      c.backward_hideable = hidden(splits ? c.input_gradient : c.backward / 2);
      if (stage + 1 == stages && shape.output == schedule::OutputLayer::last_stage) {
        // A product forward, one each for the gradients of input and weights.
        c.forward += request.output_forward;
        c.backward += 2 * request.output_forward;
        c.input_gradient += request.output_forward;
        c.weight_gradient += request.output_forward;
        // The logits; their gradient, which W needs, is as large.
        c.held += request.output_held;
        c.kept += request.output_held;
      }
      time += static_cast<double>(c.forward + c.backward) +
              static_cast<double>(c.input_gradient + c.weight_gradient) +
              2 * static_cast<double>(l.forward + l.backward);
      bytes += static_cast<double>(c.held + c.kept);
    }
  }
  if (shape.output != schedule::OutputLayer::last_stage) {
    // Each rank has 1/p of the vocabulary. With one barrier the input's gradient is made in S.
    // Source: arXiv 2411.05288, section 4.
    const Picoseconds share = part_of(request.output_forward, shape.pp);
    const bool early = shape.output == schedule::OutputLayer::one_barrier;
    out.outputs.assign(static_cast<std::size_t>(shape.pp),
                       {early ? 2 * share : share, early ? share : 2 * share,
                        part_of(request.output_held, shape.pp)});
    bytes += static_cast<double>(request.output_held);
    out.view.output_links = {request.barrier, request.barrier, request.barrier};
    time += 3 * static_cast<double>(request.output_forward + request.barrier);
  }
  const double m = shape.micro_batches;
  constexpr double kMost = 4e18;  // half of what 64 bits hold
  if (time * m > kMost || bytes * m > kMost) {
    return fault({.message = fmt::format("{} micro-batches of these stages are more than 64 bits "
                                         "count in picoseconds and bytes",
                                         shape.micro_batches),
                  .cure = "use fewer micro-batches or smaller numbers",
                  .field = "batch.global"});
  }
  if (request.limit) {
    for (int rank = 0; rank < shape.pp; ++rank) {
      double one = 0;  // what one micro-batch of one rank's layers holds
      for (int c = 0; c < shape.chunks; ++c) {
        one += static_cast<double>(
            out.chunks[static_cast<std::size_t>(schedule::slot_of(shape, rank, c))].held);
      }
      if (shape.output == schedule::OutputLayer::last_stage) {
        // Layers alone: logits are no part of a stage-micro-batch.
        for (int copy = 0; copy < schedule::copies_of(placement); ++copy) {
          const int last = schedule::slot_at(shape, placement, stages - 1, copy);
          if (last / shape.chunks == rank) one -= static_cast<double>(request.output_held);
        }
      }
      one /= schedule::copies_of(placement);
      const double limit = request.limit_is_bytes ? *request.limit : *request.limit * one;
      out.limits.push_back(static_cast<std::int64_t>(std::min(limit, kMost)));
    }
  }
  out.view.chunks = out.chunks;
  out.view.links = out.links;
  out.view.sends = request.sends;
  out.view.outputs = out.outputs;
  out.view.limits = out.limits;
  return out;
}

}  // namespace eratos::apps
