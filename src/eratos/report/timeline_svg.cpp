// The picture of a schedule as one SVG file: rows of ranks by time, the memory of each below it.
//
// timeline_html puts the same drawing into a page; its script finds the parts by their classes:
// `zoom` (all that stretches with time, in pixels of the unzoomed plot), `numbers`, `axis`.
#include <algorithm>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "eratos/report/html.h"
#include "eratos/report/table.h"
#include "eratos/report/timeline.h"
#include "eratos/report/timeline_parts.h"

namespace eratos::report {

using schedule::Action;
using schedule::Kind;
using schedule::Level;

namespace {

constexpr int kWidth = 1200;
constexpr int kMargin = 20;
constexpr int kMostLabel = 22;                 // characters
constexpr std::int64_t kMostFilled = 100'000;  // columns drawn for all rows together, when filled

struct Geometry {
  int bar = 28;     // height of a row's actions
  int memory = 26;  // of its memory curve
  int gap = 12;     // below it
  int lane = 7;     // of a strip of other streams
  int left = 0;     // of the plot
  int right = 0;    // beyond it
  int top = 0;

  int plot() const { return kWidth - left - right; }
};

Geometry geometry_of(int ranks) {
  if (ranks <= 8) return {28, 26, 12, 7};
  if (ranks <= 16) return {22, 16, 8, 6};
  if (ranks <= 32) return {16, 11, 6, 5};
  return {11, 8, 4, 4};
}

// Pixels with at most three decimals: a zoom of 500 still shows no seam.
std::string px(double v) {
  std::string out = fmt::format("{:.3f}", v);
  out.erase(out.find_last_not_of('0') + 1);
  if (out.back() == '.') out.pop_back();
  return out == "-0" ? "0" : out;
}

// Pixels of 12 px text in a sans-serif of middling width. Which font the reader has is not known.
double text_width(std::string_view text) {
  double out = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0U) == 0x80U) continue;
    const std::string_view narrow = "ijltfr ,.:;|()'!";
    const std::string_view wide = "mwMW%";
    out += narrow.find(c) != std::string_view::npos ? 4 : 7.2;
    if (wide.find(c) != std::string_view::npos) out += 3.5;
  }
  return out;
}

std::string shortened(const std::string& s) {
  if (width(s) <= kMostLabel) return s;
  std::string out;
  std::size_t characters = 0;
  for (const char c : s) {
    if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80U && ++characters >= kMostLabel) break;
    out += c;
  }
  return out + "…";
}

constexpr std::string_view kInk = "#1c2430";

// What the picture looks like on its own; timeline_html puts its own colours over these classes.
constexpr std::string_view kSvgStyle = R"(
.timeline .paper { fill: #fff; } .timeline .ink { fill: #1c2430; }
.timeline .dim { fill: #5d6b7d; } .timeline .ground { fill: #f1f4f8; }
.timeline .hatch { stroke: #c9d3df; stroke-width: 1.2; }
.timeline .grid { stroke: #dfe5ec; stroke-width: 1; }
.timeline .frame { stroke: #aab6c4; fill: none; }
.timeline .held { fill: #8b9bb0; fill-opacity: .45; }
.timeline .base { fill: #8b9bb0; fill-opacity: .45; }
.timeline .edge { fill: none; stroke: #4a5a70; stroke-width: 1.2; vector-effect: non-scaling-stroke; }
.timeline .limit { stroke: #b3261e; stroke-dasharray: 5 4; } .timeline .peak { fill: #1c2430; }
.timeline .zoom rect { stroke: #fff; stroke-width: .8; vector-effect: non-scaling-stroke; }
.timeline .zoom.dense rect { stroke: none; } .timeline .span { fill: #5d6b7d; }
.timeline .tp { fill: #7b5ea7; } .timeline .cp { fill: #a0522d; } .timeline .ep { fill: #2e8b8b; }
.timeline .dp { fill: #a8325e; } .timeline .p2p { fill: #b08900; }
.timeline .lightink { fill: #fff; } .timeline .darkink { fill: #1c2430; }
.timeline text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
.timeline .title { font-size: 17px; font-weight: 600; } .timeline .note { font-style: italic; }
.timeline .numbers text { text-anchor: middle; pointer-events: none; }
)";

// A page may hold several pictures, and ids and colours of one must not reach another.
// FNV-1a; Source: RFC 9923 (The FNV Non-Cryptographic Hash Algorithm), 64 bits.
std::string id_of(const Timeline& t, const Extent& e) {
  const std::string key =
      fmt::format("{}/{}/{}/{}/{}", t.title, e.from, e.to, e.first_rank, e.last_rank);
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return fmt::format("timeline-{:016x}", hash);
}

class Picture {
 public:
  Picture(const Timeline& t, const View& view, bool bare)
      : t_(t),
        bare_(bare),
        e_(extent_of(t, view)),
        most_(view.most_actions > 0 ? view.most_actions : kMostSvgActions),
        times_(time_scale(t, e_.span())),
        g_(geometry_of(e_.ranks())),
        id_(id_of(t, e_)) {
    for (int rank = e_.first_rank; rank <= e_.last_rank; ++rank) {
      curves_.push_back(memory_of(t, rank));
      const Level peak = peak_of(curves_.back());
      highest_ = std::max(highest_, peak.bytes);
      if (!t.ranks.empty()) {
        const RankLabel& label = t.ranks[at(rank)];
        capacity_ = std::max(capacity_, label.capacity);
        for (const Span& s : label.spans) streams_.insert(s.stream);
      }
    }
    memory_ = memory_scale(t, std::max(highest_, capacity_));
    filled_ = e_.actions > most_;
    columns_ = filled_ ? static_cast<int>(
                             std::clamp<std::int64_t>(kMostFilled / e_.ranks(), 100, g_.plot() / 2))
                       : 0;
    place();
    if (!filled_) number_size_ = common_size();
  }

  std::vector<std::string> remarks() const {
    std::vector<std::string> out;
    if (const std::string part = part_text(t_, e_); !part.empty()) out.push_back(part);
    if (filled_) {
      const Picoseconds column = e_.span() / columns_;
      out.push_back(too_many_text(e_, most_, time_scale(t_, column, 1'000).text(column)));
    }
    return out;
  }

  std::string draw() {
    const int height = g_.top + e_.ranks() * row_height() + kAxis;
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"timeline\" id=\"{10}\" "
        "viewBox=\"0 0 {0} {1}\" "
        "width=\"{0}\" height=\"{1}\" role=\"img\" aria-labelledby=\"{10}-title\" "
        "data-left=\"{2}\" data-width=\"{3}\" data-from=\"{4}\" data-to=\"{5}\" data-one=\"{6}\" "
        "data-unit=\"{7}\" data-top=\"{8}\" data-bottom=\"{9}\">\n",
        kWidth, height, g_.left, g_.plot(), e_.from, e_.to, times_.one, escaped(times_.name),
        g_.top, height - kAxis, id_);
    out += "<title id=\"" + id_ + "-title\">" +
           escaped(t_.title.empty() ? "schedule by time" : t_.title) + "</title>\n<desc>" +
           escaped(description()) + "</desc>\n<style>" + std::string(kSvgStyle) + colours() +
           "</style>\n";
    out += fmt::format(
        "<defs><pattern id=\"{}-idle\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect class=\"ground\" width=\"6\" height=\"6\"/><line "
        "class=\"hatch\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern><clipPath "
        "id=\"{}-plot\"><rect "
        "x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath></defs>\n",
        id_, id_, g_.left, g_.top - 2, g_.plot(), height - kAxis - g_.top + 4);
    out += fmt::format("<rect class=\"paper\" width=\"{}\" height=\"{}\"/>\n", kWidth, height);
    out += head_;
    for (int row = 0; row < e_.ranks(); ++row) out += frame_of(row);
    out += axis(height);
    out += "<g clip-path=\"url(#" + id_ + "-plot)\">\n";
    out += fmt::format("<g class=\"zoom{}\">\n", filled_ || dense() ? " dense" : "");
    for (int row = 0; row < e_.ranks(); ++row) out += row_of(row);
    out += "</g>\n<g class=\"numbers\">\n" + numbers_ + "</g>\n</g>\n";
    return out + "</svg>\n";
  }

 private:
  // Sizes of the numbers of micro-batches, in pixels.
  static constexpr double kMostNumber = 12;
  static constexpr double kReadable = 9.5;
  static constexpr double kLeastNumber = 8;
  static constexpr int kAxis = 40;  // height of the axis below the rows

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  int strips() const { return static_cast<int>(streams_.size()); }
  int row_height() const { return g_.bar + strips() * g_.lane + g_.memory + g_.gap; }
  int row_top(int row) const { return g_.top + row * row_height(); }
  int memory_top(int row) const { return row_top(row) + g_.bar + strips() * g_.lane + 2; }

  double x(Picoseconds time) const {
    return g_.left +
           static_cast<double>(time - e_.from) / static_cast<double>(e_.span()) * g_.plot();
  }
  double memory_y(int row, std::int64_t bytes) const {
    const std::int64_t most = std::max<std::int64_t>(1, std::max(highest_, capacity_));
    const double share = static_cast<double>(bytes) / static_cast<double>(most);
    return memory_top(row) + g_.memory - 2 - share * (g_.memory - 4);
  }
  // So many actions that lines between them would hide them.
  bool dense() const { return e_.actions > std::int64_t{e_.ranks()} * g_.plot() / 4; }

  std::string description() const {
    std::string out =
        fmt::format("{} ranks by time, {} in all.", e_.ranks(), times_.text(e_.span()));
    for (const std::string& f : t_.facts) out += ' ' + f + '.';
    return out;
  }

  // A class of each kind and chunk that is drawn: "F0", "BW1".
  std::string colours() const {
    std::string out;
    for (const Kind k : kinds_of(t_, e_)) {
      for (int c = 0; c < t_.order->shape.chunks; ++c) {
        out += fmt::format("#{} .{}{} {{ fill: {}; }}\n", id_, letter_of(k), c,
                           colour_of(k, c, t_.order->shape.chunks).hex());
      }
    }
    return out;
  }

  // A unit that is no byte stands in the legend alone.
  std::string peak_text(int row) const {
    const std::int64_t most = peak_of(curves_[at(row)]).bytes;
    return "peak " + (t_.memory.name.empty() ? memory_.text(most) : memory_.number(most));
  }

  void place() {
    double longest = text_width("time, " + times_.name);
    double peak = 0;
    for (int row = 0; row < e_.ranks(); ++row) {
      longest = std::max(longest, text_width(shortened(label_of(t_, e_.first_rank + row))));
      peak = std::max(peak, text_width(peak_text(row)));
    }
    g_.left = kMargin + static_cast<int>(longest) + 16;
    g_.right = kMargin + static_cast<int>(peak) + 8;
    // A page that says title and facts itself leaves them empty.
    int y = bare_ ? 0 : t_.title.empty() ? -7 : kMargin + 14;
    if (!bare_) head_ += words_above(y);
    y += bare_ ? 2 : 14;
    head_ += legend(y);
    g_.top = y + 14 + 18;
  }

  // Title, facts and remarks; `y` moves down to the last line.
  std::string words_above(int& y) const {
    std::string out;
    if (!t_.title.empty()) {
      out += fmt::format("<text class=\"ink title\" x=\"{}\" y=\"{}\">{}</text>\n", kMargin, y,
                         escaped(t_.title));
    }
    std::string facts;
    for (const std::string& f : t_.facts) facts += (facts.empty() ? "" : "   ·   ") + f;
    if (!facts.empty()) {
      y += 21;
      out += fmt::format("<text class=\"dim\" x=\"{}\" y=\"{}\" xml:space=\"preserve\">{}</text>\n",
                         kMargin, y, escaped(facts));
    }
    for (const std::string& r : remarks()) {
      y += 18;
      out += fmt::format("<text class=\"dim note\" x=\"{}\" y=\"{}\">{}</text>\n", kMargin, y,
                         escaped(r));
    }
    return out;
  }

  // One line of swatches; `y` is its top.
  std::string legend(int& y) const {
    constexpr int kSwatch = 13;
    std::string out = "<g class=\"legend\">\n";
    double x = kMargin;
    const auto words = [&](const std::string& text) {
      out += fmt::format("<text class=\"dim\" x=\"{}\" y=\"{}\">{}</text>\n", px(x), y + 11,
                         escaped(text));
      x += text_width(text) + 20;
    };
    const auto swatch = [&](const std::string& classes, const std::string& fill, double wide) {
      out += fmt::format("<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}/>\n",
                         classes, px(x), y, px(wide), kSwatch, fill);
      x += wide;
    };
    const auto room = [&](const std::string& text, double swatches) {
      const double need = text_width(text) + swatches + 6;
      if (x > kMargin && x + need > kWidth - kMargin) {
        x = kMargin;
        y += 20;
      }
    };
    const int chunks = t_.order->shape.chunks;
    for (const Kind k : kinds_of(t_, e_)) {
      const std::string text = fmt::format("{} {}", letter_of(k), name_of(k));
      const int shown = filled_ ? 1 : chunks;
      const double each = shown > 4 ? 6 : kSwatch;
      room(text, each * shown);
      for (int c = 0; c < shown; ++c) swatch(fmt::format("{}{}", letter_of(k), c), "", each);
      x += 6;
      words(text);
    }
    if (chunks > 1 && !filled_) {
      std::string text = "darker to lighter: " + chunk_text(*t_.order, 0) +
                         (chunks > 2 ? " to " : ", ") + chunk_text(*t_.order, chunks - 1);
      room(text, 0);
      words(text);
    }
    const std::string idle(idle_text(t_));
    room(idle, kSwatch);
    swatch("", " fill=\"url(#" + id_ + "-idle)\"", kSwatch);
    x += 6;
    words(idle);
    for (const Stream s : streams_) {
      const std::string text(s == Stream::compute ? "ops" : name_of(s));
      room(text, kSwatch);
      swatch(class_of(s), "", kSwatch);
      x += 6;
      words(text);
    }
    const std::string memory = "memory a rank, " + memory_.name;
    room(memory, kSwatch);
    swatch("held", "", kSwatch);
    x += 6;
    words(memory);
    if (capacity_ > 0) {
      const std::string text = "capacity " + memory_.text(capacity_);
      room(text, kSwatch + 6);
      out += fmt::format("<line class=\"limit\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n", px(x),
                         px(x + kSwatch + 6), y + 7, y + 7);
      x += kSwatch + 12;
      words(text);
    }
    return out + "</g>\n";
  }

  static std::string class_of(Stream s) {
    switch (s) {
      case Stream::compute:
        return "span";
      case Stream::tp:
        return "tp";
      case Stream::cp:
        return "cp";
      case Stream::ep:
        return "ep";
      case Stream::dp:
        return "dp";
      case Stream::p2p:
        return "p2p";
    }
    return "span";
  }

  // What does not move with the zoom: the ground of a row, its names, its peak.
  std::string frame_of(int row) const {
    const int rank = e_.first_rank + row;
    const int middle = row_top(row) + g_.bar / 2 + 4;
    std::string out =
        fmt::format("<text class=\"ink\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                    g_.left - 10, middle, escaped(shortened(label_of(t_, rank))));
    out += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"url(#{}-idle)\"><title>{}: "
        "bubble</title></rect>\n",
        g_.left, row_top(row), g_.plot(), g_.bar, id_, escaped(label_of(t_, rank)));
    out += fmt::format("<rect class=\"ground\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>\n",
                       g_.left, memory_top(row), g_.plot(), g_.memory - 2);
    const int level = g_.memory >= 16 ? memory_top(row) + g_.memory / 2 + 3 : middle + 2;
    out += fmt::format("<text class=\"dim\" x=\"{}\" y=\"{}\">{}</text>\n", g_.left + g_.plot() + 8,
                       level, escaped(peak_text(row)));
    return out;
  }

  std::string row_of(int row) {
    const int rank = e_.first_rank + row;
    std::string out = fmt::format("<g class=\"row\" data-rank=\"{}\">\n", rank);
    out += filled_ ? filled_bar(row) : actions(row);
    out += spans(row) + memory(row);
    return out + "</g>\n";
  }

  std::string hover(int rank, std::size_t i) const {
    const Action& a = t_.order->actions[i];
    const schedule::Interval& when = t_.intervals[i];
    std::string out = fmt::format("{} {}, micro-batch {}", name_of(a, t_.order->shape),
                                  name_of(a.kind), a.micro_batch);
    if (t_.order->shape.chunks > 1) out += ", " + chunk_text(*t_.order, a.chunk);
    out += fmt::format("\n{}\n{} to {}, {} long", label_of(t_, rank), times_.number(when.start),
                       times_.text(when.end), times_.text(when.end - when.start));
    return out;
  }

  // The largest size of a number that fits into an action.
  static double fitting_size(double wide, double high, std::size_t digits) {
    return std::min({kMostNumber, high - 2, (wide - 1.5) / (0.62 * static_cast<double>(digits))});
  }

  // One size for all numbers if every one can be read at it; else 0, and each takes what it can.
  double common_size() const {
    double least = kMostNumber;
    for (int rank = e_.first_rank; rank <= e_.last_rank; ++rank) {
      const ActionRange in = actions_in(t_, rank, e_.from, e_.to);
      for (std::size_t i = in.first; i < in.last; ++i) {
        const schedule::Interval& when = t_.intervals[i];
        if (when.end == when.start) continue;
        const double wide =
            static_cast<double>(when.end - when.start) / static_cast<double>(e_.span()) * g_.plot();
        const std::size_t digits = fmt::format("{}", t_.order->actions[i].micro_batch).size();
        const bool half = t_.order->actions[i].with_next || is_second(rank, i);
        least = std::min(least, fitting_size(wide, half ? g_.bar / 2.0 : g_.bar, digits));
      }
    }
    return least >= kReadable ? least : 0;
  }

  bool is_second(int rank, std::size_t i) const {
    return i > static_cast<std::size_t>(t_.order->first[at(rank)]) &&
           t_.order->actions[i - 1].with_next;
  }

  std::string actions(int row) {
    const int rank = e_.first_rank + row;
    const int chunks = t_.order->shape.chunks;
    const ActionRange in = actions_in(t_, rank, e_.from, e_.to);
    std::string out;
    for (std::size_t i = in.first; i < in.last; ++i) {
      const Action& a = t_.order->actions[i];
      const schedule::Interval& when = t_.intervals[i];
      const bool second = is_second(rank, i);
      const bool half = a.with_next || second;
      const double left = x(std::max(when.start, e_.from));
      const double wide = x(std::min(when.end, e_.to)) - left;
      const double high = half ? g_.bar / 2.0 : g_.bar;
      const double top = row_top(row) + (second ? high : 0);
      out += fmt::format(
          "<rect class=\"{}{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}{}</title></"
          "rect>\n",
          letter_of(a.kind), a.chunk, px(left), px(top), px(wide), px(high),
          escaped(hover(rank, i)), half ? "\nside by side with the other half" : "");
      const std::string number = fmt::format("{}", a.micro_batch);
      const double size = number_size_ > 0 ? number_size_ : fitting_size(wide, high, number.size());
      if (size >= kLeastNumber) {
        numbers_ += fmt::format(
            "<text class=\"{}\" x=\"{}\" y=\"{}\"{}>{}</text>\n",
            wants_white_ink(colour_of(a.kind, a.chunk, chunks)) ? "lightink" : "darkink",
            px(left + wide / 2), px(top + high / 2 + size * 0.36),
            size < kMostNumber ? fmt::format(" style=\"font-size:{}px\"", px(size)) : "", number);
      }
    }
    return out;
  }

  // Each kind is one path: columns that stand on those of the kinds before it.
  std::string filled_bar(int row) const {
    const int rank = e_.first_rank + row;
    const std::vector<ColumnShare> shares = column_shares(t_, e_, rank, columns_);
    std::vector<double> floor(shares.size(), 0);
    std::string out;
    for (const Kind k : kinds_of(t_, e_)) {
      std::string path;
      Picoseconds all = 0;
      for (int c = 0; c < columns_; ++c) {
        const Picoseconds start = column_start(e_, c, columns_);
        const Picoseconds end = column_start(e_, c + 1, columns_);
        const Picoseconds busy = shares[at(c)].busy[static_cast<std::size_t>(k)];
        if (busy == 0) continue;
        all += busy;
        const double high = static_cast<double>(busy) / static_cast<double>(end - start) * g_.bar;
        const double bottom = row_top(row) + g_.bar - floor[at(c)];
        path += fmt::format("M{:.1f} {:.1f}H{:.1f}V{:.1f}H{:.1f}z", x(start), bottom, x(end),
                            bottom - high, x(start));
        floor[at(c)] += high;
      }
      if (path.empty()) continue;
      out +=
          fmt::format("<path class=\"{}0\" d=\"{}\"><title>{}</title></path>\n", letter_of(k), path,
                      escaped(fmt::format("{}\n{}: {} in all", label_of(t_, rank), name_of(k),
                                          times_.text(all))));
    }
    return out;
  }

  std::string spans(int row) const {
    if (t_.ranks.empty()) return "";
    const int rank = e_.first_rank + row;
    std::string out;
    for (const Span& s : t_.ranks[at(rank)].spans) {
      if (s.start >= e_.to || s.start + s.duration <= e_.from) continue;
      const double left = x(std::max(s.start, e_.from));
      const double wide = x(std::min(s.start + s.duration, e_.to)) - left;
      const int strip = static_cast<int>(std::distance(streams_.begin(), streams_.find(s.stream)));
      // What computes outside of every action stands in the row itself.
      const bool alone = s.stream == Stream::compute && is_alone(rank, s);
      out += fmt::format(
          "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></"
          "rect>\n",
          class_of(s.stream), px(left),
          alone ? row_top(row) : row_top(row) + g_.bar + strip * g_.lane + 1, px(wide),
          alone ? g_.bar : g_.lane - 1,
          escaped(
              fmt::format("{}, {}{}\n{} to {}, {} long", s.name,
                          s.stream == Stream::compute ? "" : std::string(name_of(s.stream)) + " ",
                          label_of(t_, rank), times_.number(s.start),
                          times_.text(s.start + s.duration), times_.text(s.duration))));
    }
    return out;
  }

  bool is_alone(int rank, const Span& s) const {
    const ActionRange in =
        actions_in(t_, rank, s.start, s.start + std::max<Picoseconds>(1, s.duration));
    return in.first == in.last;
  }

  // The curve as steps; where it has more steps than can be seen, the most of each column.
  std::string memory(int row) const {
    const std::vector<Level>& curve = curves_[at(row)];
    std::vector<Level> steps;
    const int columns = filled_ ? columns_ : g_.plot() * 2;
    const bool thin = filled_ || curve.size() > at(4 * columns);
    if (thin) {
      const std::vector<std::int64_t> most = column_memory(curve, e_, columns);
      for (int c = 0; c < columns; ++c) {
        if (steps.empty() || steps.back().bytes != most[at(c)]) {
          steps.push_back({column_start(e_, c, columns), most[at(c)]});
        }
      }
    } else {
      for (const Level& l : curve) {
        if (l.time >= e_.to) break;
        if (l.time <= e_.from) steps.clear();
        steps.push_back({std::max(l.time, e_.from), l.bytes});
      }
    }
    const std::string right = px(g_.left + g_.plot());
    std::string line;
    for (const Level& l : steps) {
      line += line.empty() ? fmt::format("M{} {}", px(x(l.time)), px(memory_y(row, l.bytes)))
                           : fmt::format("H{}V{}", px(x(l.time)), px(memory_y(row, l.bytes)));
    }
    line += "H" + right;
    const int rank = e_.first_rank + row;
    const std::int64_t base = t_.ranks.empty() ? 0 : t_.ranks[at(rank)].base;
    const Level peak = peak_of(curve);
    std::string what = fmt::format("{}\nmemory at most {}, first at {}", label_of(t_, rank),
                                   memory_.text(peak.bytes), times_.text(peak.time));
    if (base > 0) what += fmt::format("\nof it {} all the time", memory_.text(base));
    std::string out = fmt::format("<path class=\"held\" d=\"{}V{}H{}z\"><title>{}</title></path>\n",
                                  line, px(memory_y(row, 0)), px(g_.left), escaped(what));
    if (base > 0) {
      out += fmt::format("<path class=\"base\" d=\"M{} {}H{}V{}H{}z\"/>\n", px(g_.left),
                         px(memory_y(row, base)), right, px(memory_y(row, 0)), px(g_.left));
    }
    out += fmt::format("<path class=\"edge\" d=\"{}\"/>\n", line);
    if (const std::int64_t room = t_.ranks.empty() ? 0 : t_.ranks[at(rank)].capacity; room > 0) {
      out += fmt::format(
          "<line class=\"limit\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\" "
          "vector-effect=\"non-scaling-stroke\"/>\n",
          g_.left, right, px(memory_y(row, room)), px(memory_y(row, room)));
    }
    return out;
  }

  // Lines through all rows and numbers below them.
  std::string axis(int height) const {
    const int bottom = height - kAxis;
    std::string out = "<g class=\"axis\">\n";
    const Picoseconds step = tick_step(times_, e_.span(), 14);
    for (Picoseconds time = (e_.from + step - 1) / step * step; time <= e_.to; time += step) {
      out += fmt::format("<line class=\"grid\" x1=\"{0}\" x2=\"{0}\" y1=\"{1}\" y2=\"{2}\"/>\n",
                         px(x(time)), g_.top - 6, bottom + 3);
      out += fmt::format("<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                         px(x(time)), bottom + 18, times_.number(time));
    }
    out += "</g>\n";
    out += fmt::format("<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                       g_.left - 16, bottom + 18, escaped("time, " + times_.name));
    return out;
  }

  const Timeline& t_;
  bool bare_;
  Extent e_;
  std::int64_t most_;
  TimeScale times_;
  Geometry g_;
  std::string id_;
  MemoryScale memory_;
  std::vector<std::vector<Level>> curves_;  // of the ranks in view
  std::int64_t highest_ = 0;
  std::int64_t capacity_ = 0;
  std::set<Stream> streams_;
  bool filled_ = false;
  int columns_ = 0;
  std::string head_;
  std::string numbers_;
  double number_size_ = 0;
};

}  // namespace

std::string timeline_svg(const Timeline& t, const View& view) {
  return Picture(t, view, false).draw();
}

std::string timeline_drawing(const Timeline& t, const View& view,
                             std::vector<std::string>& remarks) {
  Picture picture(t, view, true);
  remarks = picture.remarks();
  return picture.draw();
}

}  // namespace eratos::report
