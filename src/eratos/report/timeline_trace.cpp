// The timeline as trace events, for Perfetto, chrome://tracing and speedscope.
//
// Source: "Trace Event Format", Google 2016 (the document behind catapult's trace viewer).
// Starts are exact. Durations are too, unless a viewer would then see two slices overlap that only
// touch: Perfetto rounds start and duration to nanoseconds apart and drops a slice that laps over
// another (its counter slice_drop_overlapping_complete_event); speedscope adds the two as floating
// numbers, and a sum a hair above the next start nests the rest of the thread below it. Such a
// duration is shorter by less than a nanosecond; the argument duration_us is exact always.
//
// Worked example: F0 of rank 0 from 0 to 1.5 us is
//   {"ph":"X","pid":1,"tid":6000,"ts":0,"dur":1.5,"name":"F0","cat":"forward",...}
#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include "eratos/report/timeline.h"
#include "eratos/report/timeline_parts.h"
#include "eratos/text/dump.h"

namespace eratos::report {

using schedule::Action;
using schedule::Kind;
using schedule::Level;

namespace {

using text::json_quoted;

constexpr Picoseconds kNanosecond = 1'000;

// Microseconds, exact: six decimals at most.
std::string microseconds(Picoseconds time) {
  constexpr Picoseconds kMicrosecond = 1'000'000;
  std::string out = fmt::format("{}", time / kMicrosecond);
  if (const Picoseconds rest = time % kMicrosecond; rest != 0) {
    out += fmt::format(".{:06}", rest);
    out.erase(out.find_last_not_of('0') + 1);
  }
  return out;
}

// The names of colours that the format reserves; Perfetto takes its own from the slice's name.
std::string_view cname_of(Kind kind) {
  constexpr std::array<std::string_view, schedule::kKinds> kNames{
      "rail_response", "rail_idle",           "rail_animation",
      "rail_load",     "thread_state_iowait", "startup"};
  return kNames[static_cast<std::size_t>(kind)];
}

// One slice before it has a line of its own.
struct Slice {
  Picoseconds start = 0;
  Picoseconds end = 0;
  std::string what;  // members of the event after "dur", with their comma
  std::int64_t message = -1;
};

class Trace {
 public:
  Trace(const Timeline& t, const View& view)
      : t_(t),
        e_(extent_of(t, view)),
        most_(view.most_actions > 0 ? view.most_actions : kMostTraceActions),
        filled_(e_.actions > most_) {}

  std::string write() {
    out_ = "{\"traceEvents\":[\n";
    for (int rank = e_.first_rank; rank <= e_.last_rank; ++rank) {
      metadata(rank, "process_name", "name", json_quoted(label_of(t_, rank)));
      metadata(rank, "process_sort_index", "sort_index", fmt::format("{}", rank));
    }
    if (filled_) {
      for (int rank = e_.first_rank; rank <= e_.last_rank; ++rank) columns(rank);
    } else {
      whole();
    }
    for (int rank = e_.first_rank; rank <= e_.last_rank; ++rank) memory(rank);
    out_.erase(out_.size() - 2);  // the last comma
    out_ += "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":{";
    out_ +=
        fmt::format("\"eratos\":{},\"title\":{}", json_quoted(t_.version), json_quoted(t_.title));
    for (std::size_t i = 0; i < t_.facts.size(); ++i) {
      out_ += fmt::format(",\"fact {}\":{}", i + 1, json_quoted(t_.facts[i]));
    }
    if (!t_.time_unit.empty()) {
      out_ += fmt::format(
          ",\"time unit\":{}",
          json_quoted(fmt::format("{} us are 1 {}", microseconds(t_.one_time), t_.time_unit)));
    }
    if (const std::string part = part_text(t_, e_); !part.empty()) {
      out_ += ",\"part\":" + json_quoted(part);
    }
    if (!remark_.empty()) out_ += ",\"remark\":" + json_quoted(remark_);
    return out_ + "}}\n";
  }

 private:
  static int pid_of(int rank) { return rank + 1; }  // viewers keep 0 for the idle process
  // One number for the whole trace, since some viewers look threads up without their process.
  static int tid_of(int rank, Stream stream, int lane) {
    constexpr int kLanes = 1000;
    return (pid_of(rank) * kStreams + static_cast<int>(stream)) * kLanes +
           std::min(lane, kLanes - 1);
  }

  template <typename... Args>
  void event(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += ",\n";
  }

  void metadata(int rank, std::string_view what, std::string_view key, std::string_view value) {
    event("{{\"ph\":\"M\",\"pid\":{},\"name\":\"{}\",\"args\":{{\"{}\":{}}}}}", pid_of(rank), what,
          key, value);
  }
  void thread(int rank, Stream stream, int lane) {
    const int tid = tid_of(rank, stream, lane);
    const std::string name =
        lane == 0 ? std::string(name_of(stream)) : fmt::format("{} {}", name_of(stream), lane + 1);
    event(
        "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\",\"args\":{{\"name\":\"{}\"}}"
        "}}",
        pid_of(rank), tid, name);
    event(
        "{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_sort_index\",\"args\":{{\"sort_"
        "index\":"
        "{}}}}}",
        pid_of(rank), tid, static_cast<int>(stream) * 100 + lane);
  }
  // Where a slice may end as a viewer reckons it.
  struct Limit {
    double microseconds = 0;      // start and duration added as floating numbers
    Picoseconds nanoseconds = 0;  // both rounded, then added
  };
  static Picoseconds rounded(Picoseconds time) { return (time + kNanosecond / 2) / kNanosecond; }
  // The quotient is the double nearest to the decimal number that is written.
  static double as_read(Picoseconds time) { return static_cast<double>(time) / 1e6; }
  static Limit limit_of(Picoseconds end) { return {as_read(end), rounded(end)}; }

  // Returns where it ends for a viewer: the limit of what lies inside.
  Limit slice(int rank, int tid, const Slice& s, const Limit& limit) {
    Picoseconds duration = s.end - s.start;
    if (rounded(s.start) + rounded(duration) > limit.nanoseconds) {
      // The longest that rounds to what is left.
      duration = std::min(
          duration, (limit.nanoseconds - rounded(s.start)) * kNanosecond + kNanosecond / 2 - 1);
    }
    while (duration > 0 && as_read(s.start) + as_read(duration) > limit.microseconds) --duration;
    event("{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}{}}}", pid_of(rank), tid,
          microseconds(s.start), microseconds(duration), s.what);
    return {as_read(s.start) + as_read(duration), rounded(s.start) + rounded(duration)};
  }

  bool is_second(int rank, std::size_t i) const {
    return i > static_cast<std::size_t>(t_.order->first[static_cast<std::size_t>(rank)]) &&
           t_.order->actions[i - 1].with_next;
  }

  Slice slice_of(int rank, std::size_t i) const {
    const Action& a = t_.order->actions[i];
    const schedule::Interval& when = t_.intervals[i];
    Slice s{when.start, when.end, {}};
    s.what = fmt::format(
        ",\"name\":\"{}\",\"cat\":\"{}\",\"cname\":\"{}\",\"args\":{{\"micro-batch\":{},\"chunk\":{"
        "},"
        "\"rank\":{},\"duration_us\":{}{}}}",
        name_of(a, t_.order->shape), name_of(a.kind), cname_of(a.kind), a.micro_batch, a.chunk,
        rank, microseconds(when.end - when.start),
        a.with_next || is_second(rank, i) ? ",\"side by side\":true" : "");
    return s;
  }

  static Slice slice_of(const Span& span) {
    Slice s{span.start, span.start + span.duration, {}};
    s.what = fmt::format(
        ",\"name\":{},\"cat\":\"{}\",\"args\":{{{}\"duration_us\":{}}}", json_quoted(span.name),
        name_of(span.stream),
        span.micro_batch < 0 ? std::string() : fmt::format("\"micro-batch\":{},", span.micro_batch),
        microseconds(span.duration));
    return s;
  }

  bool in_view(Picoseconds start, Picoseconds end) const {
    return start < e_.to && (end > e_.from || (end == start && start >= e_.from));
  }
  bool in_view(std::size_t action) const {
    return in_view(t_.intervals[action].start, t_.intervals[action].end);
  }

  // Everything as it is.
  void whole() {
    std::vector<Message> messages;
    for (const Message& m : messages_of(t_)) {
      const bool ranks = m.from_rank >= e_.first_rank && m.from_rank <= e_.last_rank &&
                         m.to_rank >= e_.first_rank && m.to_rank <= e_.last_rank;
      if (ranks && in_view(static_cast<std::size_t>(m.from)) &&
          in_view(static_cast<std::size_t>(m.to))) {
        messages.push_back(m);
      }
    }
    const std::vector<Span> collectives = collectives_of(t_);
    std::size_t next = 0;  // messages come by rank
    for (int rank = e_.first_rank; rank <= e_.last_rank; ++rank) {
      const std::size_t first = next;
      while (next < messages.size() && messages[next].from_rank == rank) ++next;
      compute(rank);
      for (int s = 1; s < kStreams; ++s) {
        std::vector<Slice> slices = spans_of(rank, static_cast<Stream>(s));
        if (static_cast<Stream>(s) == Stream::p2p) {
          for (std::size_t i = first; i < next; ++i) {
            if (messages[i].duration > 0) slices.push_back(slice_of(messages[i], i));
          }
          for (const Span& c : collectives) {
            if (in_view(c.start, c.start + c.duration)) slices.push_back(slice_of(c));
          }
        }
        lanes(rank, static_cast<Stream>(s), std::move(slices), messages);
      }
      for (std::size_t i = first; i < next; ++i) {
        if (messages[i].duration == 0) flow_of_free(messages[i], i);
      }
    }
  }

  std::vector<Slice> spans_of(int rank, Stream stream) const {
    std::vector<Slice> out;
    if (t_.ranks.empty()) return out;
    for (const Span& s : t_.ranks[static_cast<std::size_t>(rank)].spans) {
      if (s.stream == stream && in_view(s.start, s.start + s.duration)) out.push_back(slice_of(s));
    }
    return out;
  }

  Slice slice_of(const Message& m, std::size_t index) const {
    const Action& a = t_.order->actions[static_cast<std::size_t>(m.from)];
    Slice s{m.start, m.start + m.duration, {}, static_cast<std::int64_t>(index)};
    s.what = fmt::format(
        ",\"name\":\"send {}\",\"cat\":\"P2P\",\"args\":{{\"micro-batch\":{},\"chunk\":{},"
        "\"to rank\":{},\"duration_us\":{}}}",
        name_of(a, t_.order->shape), a.micro_batch, a.chunk, m.to_rank, microseconds(m.duration));
    return s;
  }

  // Actions, and inside them their ops; the second of a pair has a line of its own, since both run
  // at once.
  void compute(int rank) {
    const ActionRange in = actions_in(t_, rank, e_.from, e_.to);
    std::vector<Slice> ops = spans_of(rank, Stream::compute);
    std::vector<Slice> first;
    std::vector<Slice> second;
    for (std::size_t i = in.first; i < in.last; ++i) {
      (is_second(rank, i) ? second : first).push_back(slice_of(rank, i));
    }
    // Longer first where two begin together, so that an op lies inside its action.
    first.insert(first.end(), std::make_move_iterator(ops.begin()),
                 std::make_move_iterator(ops.end()));
    std::stable_sort(first.begin(), first.end(), [](const Slice& a, const Slice& b) {
      return a.start != b.start ? a.start < b.start : a.end > b.end;
    });
    thread(rank, Stream::compute, 0);
    const int tid = tid_of(rank, Stream::compute, 0);
    struct Open {
      Picoseconds end = 0;
      Limit limit;
    };
    std::vector<Open> open;     // slices that hold the next, the innermost last
    std::vector<Slice> beside;  // ops that lap over the end of what holds them
    for (Slice& s : first) {
      while (!open.empty() && open.back().end <= s.start) {
        open.pop_back();
      }
      if (!open.empty() && s.end > open.back().end) {
        beside.push_back(std::move(s));
        continue;
      }
      Limit limit = limit_of(s.end);
      if (!open.empty()) {
        limit.microseconds = std::min(limit.microseconds, open.back().limit.microseconds);
        limit.nanoseconds = std::min(limit.nanoseconds, open.back().limit.nanoseconds);
      }
      open.push_back({s.end, slice(rank, tid, s, limit)});
    }
    const int line = second.empty() ? 1 : 2;
    lanes(rank, Stream::compute, std::move(second), {}, 1);
    lanes(rank, Stream::compute, std::move(beside), {}, line);
  }

  // Slices of one stream, each on the first line where nothing else runs.
  void lanes(int rank, Stream stream, std::vector<Slice> slices,
             const std::vector<Message>& messages, int first_lane = 0) {
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice& a, const Slice& b) { return a.start < b.start; });
    Lanes free;
    std::vector<std::vector<const Slice*>> by_lane;
    for (const Slice& s : slices) {
      const auto lane = static_cast<std::size_t>(free.place(s.start, s.end));
      if (lane >= by_lane.size()) by_lane.resize(lane + 1);
      by_lane[lane].push_back(&s);
    }
    for (std::size_t lane = 0; lane < by_lane.size(); ++lane) {
      const int line = first_lane + static_cast<int>(lane);
      thread(rank, stream, line);
      const int tid = tid_of(rank, stream, line);
      for (const Slice* s : by_lane[lane]) {
        slice(rank, tid, *s, limit_of(s->end));
        if (s->message >= 0) {
          const auto index = static_cast<std::size_t>(s->message);
          flow(messages[index], index, tid, s->start);
        }
      }
    }
  }

  // An arrow to the action that takes the message, from the slice that runs at `leaves`.
  void flow(const Message& m, std::size_t id, int from_tid, Picoseconds leaves) {
    event(
        "{{\"ph\":\"s\",\"pid\":{},\"tid\":{},\"ts\":{},\"id\":{},\"name\":\"message\",\"cat\":"
        "\"P2P\"}}",
        pid_of(m.from_rank), from_tid, microseconds(leaves), id);
    event(
        "{{\"ph\":\"f\",\"bp\":\"e\",\"pid\":{},\"tid\":{},\"ts\":{},\"id\":{},\"name\":"
        "\"message\","
        "\"cat\":\"P2P\"}}",
        pid_of(m.to_rank), tid_of_action(m.to_rank, m.to),
        microseconds(t_.intervals[static_cast<std::size_t>(m.to)].start), id);
  }
  // A transfer that takes no time has no slice: the arrow leaves the action itself, as late as a
  // clock of nanoseconds can still tell from its end.
  void flow_of_free(const Message& m, std::size_t id) {
    const schedule::Interval& from = t_.intervals[static_cast<std::size_t>(m.from)];
    flow(m, id, tid_of_action(m.from_rank, m.from),
         std::max(from.start, from.end - 2 * kNanosecond));
  }
  int tid_of_action(int rank, std::int64_t i) const {
    return tid_of(rank, Stream::compute, is_second(rank, static_cast<std::size_t>(i)) ? 1 : 0);
  }

  int column_count() const {
    constexpr std::int64_t kFewest = 100;
    constexpr std::int64_t kMost = 2'000;
    return static_cast<int>(std::clamp(most_ / e_.ranks(), kFewest, kMost));
  }

  // Too many: a slice a column, named by what ran in it.
  void columns(int rank) {
    const int columns = column_count();
    if (remark_.empty()) {
      const Picoseconds column = e_.span() / columns;
      remark_ = too_many_text(e_, most_, time_scale(t_, column, 1'000).text(column));
    }
    metadata(rank, "process_labels", "labels", json_quoted("columns, not actions"));
    thread(rank, Stream::compute, 0);
    const int tid = tid_of(rank, Stream::compute, 0);
    const std::vector<ColumnShare> shares = column_shares(t_, e_, rank, columns);
    for (int c = 0; c < columns; ++c) {
      const ColumnShare& share = shares[static_cast<std::size_t>(c)];
      Slice s{column_start(e_, c, columns), column_start(e_, c + 1, columns), {}};
      std::string name;
      std::string times;
      for (std::size_t k = 0; k < share.busy.size(); ++k) {
        if (share.busy[k] == 0) continue;
        const auto kind = static_cast<Kind>(k);
        name += (name.empty() ? "" : " ") + std::string(letter_of(kind));
        times += fmt::format(",\"{}_us\":{}", name_of(kind), microseconds(share.busy[k]));
      }
      if (name.empty()) continue;
      s.what = fmt::format(
          ",\"name\":\"{}\",\"cat\":\"column\",\"args\":{{\"actions\":{},\"rank\":{},"
          "\"duration_us\":{}{}}}",
          name, share.actions, rank, microseconds(s.end - s.start), times);
      slice(rank, tid, s, limit_of(s.end));
    }
    for (int s = 1; s < kStreams; ++s) {
      lanes(rank, static_cast<Stream>(s), spans_of(rank, static_cast<Stream>(s)), {});
    }
  }

  void counter(int rank, Picoseconds time, std::int64_t bytes) {
    const std::string value =
        t_.memory.name.empty() ? fmt::format("{}", bytes) : memory_scale(t_, bytes).number(bytes);
    event("{{\"ph\":\"C\",\"pid\":{},\"ts\":{},\"name\":\"memory\",\"args\":{{{}:{}}}}}",
          pid_of(rank), microseconds(time),
          json_quoted(t_.memory.name.empty() ? "bytes" : t_.memory.name), value);
  }

  void memory(int rank) {
    const std::vector<Level> curve = memory_of(t_, rank);
    if (filled_) {
      const int columns = column_count();
      const std::vector<std::int64_t> most = column_memory(curve, e_, columns);
      for (int c = 0; c < columns; ++c) {
        const auto i = static_cast<std::size_t>(c);
        if (i == 0 || most[i] != most[i - 1]) counter(rank, column_start(e_, c, columns), most[i]);
      }
      return;
    }
    std::size_t i = 0;
    while (i + 1 < curve.size() && curve[i + 1].time <= e_.from) ++i;
    for (; i < curve.size() && curve[i].time < e_.to; ++i) {
      counter(rank, std::max(curve[i].time, e_.from), curve[i].bytes);
    }
    // A level of no length would hide the last one.
    if (i < curve.size() && e_.to == end_of(t_)) counter(rank, curve[i].time, curve[i].bytes);
  }

  const Timeline& t_;
  Extent e_;
  std::int64_t most_;
  bool filled_;
  std::string out_;
  std::string remark_;
};

}  // namespace

std::string timeline_trace(const Timeline& t, const View& view) { return Trace(t, view).write(); }

}  // namespace eratos::report
