#include "eratos/report/timeline.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "eratos/base/check.h"
#include "eratos/report/timeline_parts.h"

namespace eratos::report {

using schedule::Action;
using schedule::Interval;
using schedule::Kind;
using schedule::Level;

std::string_view name_of(Stream stream) {
  constexpr std::array<std::string_view, kStreams> kNames{"compute", "TP", "CP", "EP", "DP", "P2P"};
  return kNames[static_cast<std::size_t>(stream)];
}

std::string_view letter_of(Kind kind) {
  constexpr std::array<std::string_view, schedule::kKinds> kLetters{"F", "BW", "B", "W", "S", "T"};
  return kLetters[static_cast<std::size_t>(kind)];
}

std::string name_of(const Action& a, const schedule::Shape& shape) {
  if (shape.chunks == 1) return fmt::format("{}{}", letter_of(a.kind), a.micro_batch);
  return fmt::format("{}{}.{}", letter_of(a.kind), a.micro_batch, a.chunk);
}

Picoseconds end_of(const Timeline& t) {
  Picoseconds end = 0;
  // The last action of a rank ends last.
  for (int rank = 0; rank < t.order->shape.pp; ++rank) {
    const auto last = static_cast<std::size_t>(t.order->first[static_cast<std::size_t>(rank) + 1]);
    if (!t.order->of(rank).empty()) end = std::max(end, t.intervals[last - 1].end);
  }
  for (const RankLabel& r : t.ranks) {
    for (const Span& s : r.spans) end = std::max(end, s.start + s.duration);
  }
  return end;
}

Extent extent_of(const Timeline& t, const View& view) {
  const int p = t.order->shape.pp;
  ERATOS_CHECK(t.intervals.size() == t.order->actions.size());
  ERATOS_CHECK(t.ranks.empty() || t.ranks.size() == static_cast<std::size_t>(p));
  Extent e;
  e.first_rank = std::clamp(view.first_rank, 0, p - 1);
  e.last_rank = view.last_rank < 0 ? p - 1 : std::clamp(view.last_rank, e.first_rank, p - 1);
  const Picoseconds end = std::max<Picoseconds>(1, end_of(t));
  e.from = std::clamp<Picoseconds>(view.from, 0, end - 1);
  e.to = view.to <= 0 ? end : std::clamp(view.to, e.from + 1, end);
  for (int rank = e.first_rank; rank <= e.last_rank; ++rank) {
    const ActionRange in = actions_in(t, rank, e.from, e.to);
    e.actions += static_cast<std::int64_t>(in.last - in.first);
  }
  return e;
}

std::string part_text(const Timeline& t, const Extent& e) {
  std::string out;
  const Picoseconds end = end_of(t);
  if (e.from > 0 || e.to < end) {
    const TimeScale scale = time_scale(t, end);
    out = fmt::format("from {} to {} of {}", scale.number(e.from), scale.number(e.to),
                      scale.text(end));
  }
  const int p = t.order->shape.pp;
  if (e.ranks() < p) {
    if (!out.empty()) out += ", ";
    out += e.ranks() == 1 ? fmt::format("rank {} of {}", e.first_rank, p)
                          : fmt::format("ranks {} to {} of {}", e.first_rank, e.last_rank, p);
  }
  return out;
}

std::string too_many_text(const Extent& e, std::int64_t most, const std::string& column) {
  return fmt::format(
      "{} actions are too many to show one by one (at most {}): each column of {} shows what share "
      "of it went where",
      e.actions, most, column);
}

std::string label_of(const Timeline& t, int rank) {
  if (!t.ranks.empty()) {
    const std::string& name = t.ranks[static_cast<std::size_t>(rank)].name;
    if (!name.empty()) return name;
  }
  return fmt::format("rank {}", rank);
}

ActionRange actions_in(const Timeline& t, int rank, Picoseconds from, Picoseconds to) {
  const auto begin = t.intervals.begin() + t.order->first[static_cast<std::size_t>(rank)];
  const auto end = t.intervals.begin() + t.order->first[static_cast<std::size_t>(rank) + 1];
  // Starts and ends of a rank's actions never go back.
  const auto first = std::partition_point(
      begin, end, [&](const Interval& i) { return i.end <= from && i.start < from; });
  const auto last =
      std::partition_point(first, end, [&](const Interval& i) { return i.start < to; });
  return {static_cast<std::size_t>(first - t.intervals.begin()),
          static_cast<std::size_t>(last - t.intervals.begin())};
}

Picoseconds column_start(const Extent& e, int i, int columns) {
  // In two parts, so that the product stays within 64 bits.
  const Picoseconds whole = e.span() / columns;
  const Picoseconds rest = e.span() % columns;
  return e.from + whole * i + rest * i / columns;
}

namespace {

int column_at(const Extent& e, Picoseconds time, int columns) {
  auto i = static_cast<int>(static_cast<double>(time - e.from) / static_cast<double>(e.span()) *
                            columns);
  i = std::clamp(i, 0, columns - 1);
  while (i > 0 && column_start(e, i, columns) > time) --i;
  while (i + 1 < columns && column_start(e, i + 1, columns) <= time) ++i;
  return i;
}

}  // namespace

std::vector<ColumnShare> column_shares(const Timeline& t, const Extent& e, int rank, int columns) {
  std::vector<ColumnShare> out(static_cast<std::size_t>(columns));
  const ActionRange in = actions_in(t, rank, e.from, e.to);
  for (std::size_t i = in.first; i < in.last; ++i) {
    const Action& a = t.order->actions[i];
    const bool second = i > in.first && t.order->actions[i - 1].with_next;
    const Interval& when = t.intervals[i];
    const Picoseconds start = std::max(when.start, e.from);
    const Picoseconds end = std::min(when.end, e.to);
    for (int c = column_at(e, start, columns); c < columns; ++c) {
      const Picoseconds left = column_start(e, c, columns);
      const Picoseconds right = column_start(e, c + 1, columns);
      if (left >= end && left > start) break;
      ColumnShare& share = out[static_cast<std::size_t>(c)];
      const Picoseconds busy =
          std::max<Picoseconds>(0, std::min(end, right) - std::max(start, left));
      // The halves of an odd number of picoseconds make it whole again.
      const Picoseconds counted = a.with_next ? busy / 2 : second ? busy - busy / 2 : busy;
      share.busy[static_cast<std::size_t>(a.kind)] += counted;
      ++share.actions;
      if (right >= end) break;
    }
  }
  return out;
}

std::vector<Level> memory_of(const Timeline& t, int rank) {
  const std::int64_t base = t.ranks.empty() ? 0 : t.ranks[static_cast<std::size_t>(rank)].base;
  std::vector<Level> out{{0, base}};
  for (const Level& l : schedule::memory_curve(*t.order, rank, t.costs, t.intervals)) {
    if (l.time == 0) {
      out.front().bytes = base + l.bytes;
    } else {
      out.push_back({l.time, base + l.bytes});
    }
  }
  return out;
}

Level peak_of(const std::vector<Level>& curve) {
  Level most = curve.front();
  for (const Level& l : curve) {
    if (l.bytes > most.bytes) most = l;
  }
  return most;
}

std::vector<std::int64_t> column_memory(const std::vector<Level>& curve, const Extent& e,
                                        int columns) {
  std::vector<std::int64_t> out;
  std::size_t at = 0;  // the level that holds at the column's start
  for (int c = 0; c < columns; ++c) {
    const Picoseconds left = column_start(e, c, columns);
    const Picoseconds right = column_start(e, c + 1, columns);
    while (at + 1 < curve.size() && curve[at + 1].time <= left) ++at;
    std::int64_t most = curve[at].bytes;
    while (at + 1 < curve.size() && curve[at + 1].time < right) {
      ++at;
      most = std::max(most, curve[at].bytes);
    }
    out.push_back(most);
  }
  return out;
}

namespace {

std::string trimmed(double value, int decimals) {
  std::string out = fmt::format("{:.{}f}", value, decimals);
  if (out.find('.') != std::string::npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return out;
}

}  // namespace

std::string TimeScale::number(Picoseconds time) const {
  return trimmed(static_cast<double>(time) / static_cast<double>(one), decimals);
}

TimeScale time_scale(const Timeline& t, Picoseconds span, Picoseconds digits) {
  TimeScale out;
  if (!t.time_unit.empty()) {
    out.one = std::max<Picoseconds>(1, t.one_time);
    out.name = t.time_unit;
  } else {
    constexpr std::array<std::pair<Picoseconds, const char*>, 5> kUnits{{{1'000'000'000'000, "s"},
                                                                         {1'000'000'000, "ms"},
                                                                         {1'000'000, "us"},
                                                                         {1'000, "ns"},
                                                                         {1, "ps"}}};
    for (const auto& [one, name] : kUnits) {
      out.one = one;
      out.name = name;
      if (span >= one) break;
    }
  }
  // No finer than a picosecond.
  out.decimals = 0;
  for (Picoseconds finest = out.one; out.decimals < 6 && finest > 1 && finest > span / digits;
       finest /= 10) {
    ++out.decimals;
  }
  return out;
}

Picoseconds tick_step(const TimeScale& scale, Picoseconds span, int most) {
  Picoseconds step = scale.one;
  while (step % 10 == 0 && span / step < most) step /= 10;
  for (int i = 0; span / step > most; ++i) {
    step = i % 3 == 1 ? step / 2 * 5 : step * 2;  // 1, 2, 5, 10
  }
  return step;
}

std::string MemoryScale::number(std::int64_t bytes) const {
  const double n = static_cast<double>(bytes) / one;
  return trimmed(n, n < 10 ? 2 : 1);
}

std::string MemoryScale::text(std::int64_t bytes) const {
  const std::string n = number(bytes);
  // "1 micro-batch", whatever the plural is made of.
  if (n == "1" && name.size() > 2 && name.back() == 's' && name.find("-batches") != name.npos) {
    return n + ' ' + name.substr(0, name.size() - 2);
  }
  return n + ' ' + name;
}

MemoryScale memory_scale(const Timeline& t, std::int64_t most) {
  if (!t.memory.name.empty()) {
    return {static_cast<double>(std::max<std::int64_t>(1, t.memory.one)), t.memory.name};
  }
  constexpr std::array<std::pair<double, const char*>, 3> kUnits{
      {{kGiB, "GiB"}, {kGiB / 1024, "MiB"}, {1024, "KiB"}}};
  for (const auto& [one, name] : kUnits) {
    if (static_cast<double>(most) >= one) return {one, name};
  }
  return {1, "bytes"};
}

std::string Colour::hex() const { return fmt::format("#{:02x}{:02x}{:02x}", red, green, blue); }

Colour colour_of(Kind kind, int chunk, int chunks) {
  constexpr std::array<Colour, schedule::kKinds> kHues{{
      {0x00, 0x72, 0xb2},  // F blue
      {0xe6, 0x9f, 0x00},  // BW orange
      {0xd5, 0x5e, 0x00},  // B vermillion
      {0x00, 0x9e, 0x73},  // W bluish green
      {0xcc, 0x79, 0xa7},  // S reddish purple
      {0xf0, 0xe4, 0x42},  // T yellow
  }};
  // In whole percent, so that every machine rounds alike. More than half white and the hues of two
  // kinds come too near to one another.
  constexpr int kMostWhite = 50;
  const int white = chunks <= 1 ? 0 : kMostWhite * chunk / (chunks - 1);
  const Colour hue = kHues[static_cast<std::size_t>(kind)];
  const auto mixed = [&](int c) { return (c * (100 - white) + 255 * white + 50) / 100; };
  return {mixed(hue.red), mixed(hue.green), mixed(hue.blue)};
}

bool wants_white_ink(Colour c) {
  const auto linear = [](int channel) {
    const double s = channel / 255.0;
    return s <= 0.03928 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
  };
  const double l = 0.2126 * linear(c.red) + 0.7152 * linear(c.green) + 0.0722 * linear(c.blue);
  constexpr double kInk = 0.017;  // of #1c2430
  return 1.05 / (l + 0.05) > (l + 0.05) / (kInk + 0.05);
}

std::string chunk_text(const schedule::Order& order, int chunk) {
  if (order.placement == schedule::Placement::looped) return fmt::format("chunk {}", chunk);
  return fmt::format("chunk {} ({})", chunk, chunk == 0 ? "down" : "up");
}

std::string_view idle_text(const Timeline& t) {
  const bool sends =
      std::any_of(t.costs.links.begin(), t.costs.links.end(),
                  [](const schedule::LinkCost& l) { return l.forward > 0 || l.backward > 0; });
  return sends ? "bubble, transfers" : "bubble";
}

std::vector<Kind> kinds_of(const Timeline& t, const Extent& e) {
  std::array<bool, schedule::kKinds> there{};
  for (int rank = e.first_rank; rank <= e.last_rank; ++rank) {
    const ActionRange in = actions_in(t, rank, e.from, e.to);
    for (std::size_t i = in.first; i < in.last; ++i) {
      there[static_cast<std::size_t>(t.order->actions[i].kind)] = true;
    }
  }
  std::vector<Kind> out;
  for (std::size_t k = 0; k < there.size(); ++k) {
    if (there[k]) out.push_back(static_cast<Kind>(k));
  }
  return out;
}

int Lanes::place(Picoseconds start, Picoseconds end) {
  for (std::size_t i = 0; i < free_at_.size(); ++i) {
    if (free_at_[i] > start) continue;
    free_at_[i] = end;
    return static_cast<int>(i);
  }
  free_at_.push_back(end);
  return static_cast<int>(free_at_.size()) - 1;
}

std::vector<Message> messages_of(const Timeline& t) {
  const schedule::Order& order = *t.order;
  const schedule::Shape& s = order.shape;
  const auto m = static_cast<std::size_t>(s.micro_batches);
  const auto slots = static_cast<std::size_t>(slot_count(s));
  // Who takes it: the forward, or the backward, of a slot and micro-batch.
  std::vector<std::int64_t> taker(2 * slots * m, -1);
  const auto place = [&](bool gradient, int slot, std::int32_t micro_batch) -> std::int64_t& {
    return taker[((gradient ? slots : 0) + static_cast<std::size_t>(slot)) * m +
                 static_cast<std::size_t>(micro_batch)];
  };
  const auto is_gradient = [](Kind k) { return k == Kind::backward || k == Kind::input_gradient; };
  for (int rank = 0; rank < s.pp; ++rank) {
    std::int64_t i = order.first[static_cast<std::size_t>(rank)];
    for (const Action& a : order.of(rank)) {
      if (a.kind == Kind::forward || is_gradient(a.kind)) {
        place(is_gradient(a.kind), slot_of(s, rank, a.chunk), a.micro_batch) = i;
      }
      ++i;
    }
  }
  std::vector<Message> out;
  for (int rank = 0; rank < s.pp; ++rank) {
    std::int64_t i = order.first[static_cast<std::size_t>(rank)];
    for (const Action& a : order.of(rank)) {
      const std::int64_t from = i++;
      const bool gradient = is_gradient(a.kind);
      if (a.kind != Kind::forward && !gradient) continue;
      const int slot = slot_of(s, rank, a.chunk);
      const std::int32_t to = gradient ? order.before[static_cast<std::size_t>(slot)]
                                       : order.after[static_cast<std::size_t>(slot)];
      if (to < 0 || to / s.chunks == rank) continue;
      const std::int64_t index = place(gradient, to, a.micro_batch);
      if (index < 0) continue;
      out.push_back(
          {.from = from,
           .to = index,
           .from_rank = rank,
           .to_rank = to / s.chunks,
           .start = t.intervals[static_cast<std::size_t>(from)].end,
           .duration = gradient ? send_backward(t.costs, slot) : send_forward(t.costs, slot)});
    }
  }
  return out;
}

std::vector<Span> collectives_of(const Timeline& t) {
  const schedule::Order& order = *t.order;
  const schedule::Shape& s = order.shape;
  std::vector<Span> out;
  if (s.output == schedule::OutputLayer::last_stage) return out;
  const auto m = static_cast<std::size_t>(s.micro_batches);
  const int last = slot_at(s, order.placement, stage_count(s, order.placement) - 1);
  std::vector<Picoseconds> forward(m, -1);
  std::vector<Picoseconds> shares(m, -1);     // the last S
  std::vector<Picoseconds> gradients(m, -1);  // the last T
  for (int rank = 0; rank < s.pp; ++rank) {
    auto i = static_cast<std::size_t>(order.first[static_cast<std::size_t>(rank)]);
    for (const Action& a : order.of(rank)) {
      const Picoseconds end = t.intervals[i++].end;
      const auto micro_batch = static_cast<std::size_t>(a.micro_batch);
      if (a.kind == Kind::forward && slot_of(s, rank, a.chunk) == last) forward[micro_batch] = end;
      if (a.kind == Kind::output) shares[micro_batch] = std::max(shares[micro_batch], end);
      if (a.kind == Kind::output_gradient) {
        gradients[micro_batch] = std::max(gradients[micro_batch], end);
      }
    }
  }
  const schedule::OutputLinks& links = t.costs.output_links;
  const auto add = [&](const char* name, Picoseconds start, Picoseconds duration, std::size_t i) {
    if (start < 0 || duration <= 0) return;
    out.push_back(
        {fmt::format("{}{}", name, i), Stream::p2p, start, duration, static_cast<std::int32_t>(i)});
  };
  for (std::size_t i = 0; i < m; ++i) {
    add("broadcast ", forward[i], links.broadcast, i);
    add("barrier S", shares[i], links.barrier, i);
    if (s.output != schedule::OutputLayer::one_barrier) {
      add("barrier T", gradients[i], links.second_barrier, i);
    }
  }
  return out;
}

bool is_utf8(std::string_view lc_all, std::string_view lc_ctype, std::string_view lang) {
  const std::string_view name = !lc_all.empty() ? lc_all : !lc_ctype.empty() ? lc_ctype : lang;
  std::string lower;
  for (const char c : name) lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
}

}  // namespace eratos::report
