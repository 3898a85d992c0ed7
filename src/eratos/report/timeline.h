// A pipeline schedule as a picture: ranks by time, with what each holds.
//
// A Timeline says what there is to draw; one function a format draws it. It owns nothing of the
// schedule: order, costs and intervals belong to the caller and must outlive it.
//
//   timeline_trace  Chrome/Perfetto trace events: ranks as processes, streams as threads, memory as
//                   a counter
//   timeline_svg    one picture that needs nothing else
//   timeline_html   the same to zoom and pan, with a few lines of script and nothing to load
//   timeline_text   a terminal of any width
//
// Every format draws at most View::most_actions actions one by one; beyond that it draws columns of
// time with the shares of what ran in them, and says so in the picture.
//
// Worked example: 1F1B, p = 2, m = 2, F = 10 us, B = 20 us, in a terminal of 60 columns
//   rank 0  000000111111            000000000000111111111111
//   rank 1        000000000000000000111111111111111111
// (forwards and backwards in two colours).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::report {

// A thread of the trace. What runs on one of them and overlaps gets a second line of that name.
enum class Stream : std::uint8_t { compute, tp, cp, ep, dp, p2p };
inline constexpr int kStreams = 6;
std::string_view name_of(Stream stream);  // "compute", "TP", ...

// Something beside the actions: an op of one action (op level, drawn inside it when on `compute`),
// a collective, the optimizer step after the drain.
struct Span {
  std::string name;
  Stream stream = Stream::compute;
  Picoseconds start = 0;  // from the start of the step, as all times here
  Picoseconds duration = 0;
  std::int32_t micro_batch = -1;  // -1: belongs to none
};

// What the picture says of one rank beyond its actions.
struct RankLabel {
  std::string name;           // "rank 0" when empty
  std::int64_t base = 0;      // bytes held all the time (weights, optimizer), below the curve
  std::int64_t capacity = 0;  // bytes it has; 0: unknown, no line
  std::vector<Span> spans;    // any order
};

// In what the memory curve counts. `one` of the unit is so many of the costs' bytes.
struct MemoryUnit {
  std::string name;  // "micro-batches"; empty: bytes, shown as GiB, MiB, ...
  std::int64_t one = 1;
};

struct Timeline {
  const schedule::Order* order = nullptr;
  schedule::Costs costs;
  std::span<const schedule::Interval> intervals;  // simulate()'s, one of each of order->actions
  std::string title;                              // "1f1b, 4 ranks, 12 micro-batches"
  std::vector<std::string> facts;                 // short lines below it: "bubble 20.0%"
  std::vector<RankLabel> ranks;                   // [p], or empty
  MemoryUnit memory;
  // Times are counted in a unit that has no length ("1 = one forward"): the axis then says its name
  // and `one_time` picoseconds are 1. Empty: real times, in s, ms or us.
  std::string time_unit;
  Picoseconds one_time = 1;
  std::string version;  // of eratos
};

// Which part, and how much at once.
struct View {
  Picoseconds from = 0;
  Picoseconds to = 0;  // 0: to the end
  int first_rank = 0;
  int last_rank = -1;  // -1: to the last
  // More actions than this in the view are drawn as shares of columns. 0: the format's own limit.
  std::int64_t most_actions = 0;
};
inline constexpr std::int64_t kMostSvgActions = 20'000;     // some 4 MB
inline constexpr std::int64_t kMostTraceActions = 400'000;  // some 200 MB

// The end of the last action or span.
Picoseconds end_of(const Timeline& t);

// "F3", "BW3", "W3"; with more than one chunk "F3.1": micro-batch 3 on chunk 1.
std::string name_of(const schedule::Action& a, const schedule::Shape& shape);

// One message of the pipeline, from the end of the action that makes it; indices into
// order->actions. Chunks of one rank exchange none.
struct Message {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int32_t from_rank = 0;
  std::int32_t to_rank = 0;
  Picoseconds start = 0;
  Picoseconds duration = 0;
};
std::vector<Message> messages_of(const Timeline& t);

// With a cut output layer: the broadcast of the last stage's output and the collectives between S
// and T and after them, in which every rank takes part. By micro-batch; those without length left
// out.
std::vector<Span> collectives_of(const Timeline& t);

std::string timeline_trace(const Timeline& t, const View& view = {});
std::string timeline_svg(const Timeline& t, const View& view = {});
std::string timeline_html(const Timeline& t, const View& view = {});

struct Terminal {
  int columns = 80;     // 20 to 300; outside, the nearest of these
  bool colour = false;  // output.h's style_of(): a terminal, without NO_COLOR
  bool unicode = true;  // is_utf8(); else letters and digits of ASCII alone
};
std::string timeline_text(const Timeline& t, const Terminal& terminal, const View& view = {});

// Does the locale that these three variables choose (the first that is set and not empty) write
// UTF-8?  Source: POSIX.1-2017, XBD section 8.2.
bool is_utf8(std::string_view lc_all, std::string_view lc_ctype, std::string_view lang);

}  // namespace eratos::report
