// The timeline in a terminal: a line of actions and a line of memory for each rank.
#include <algorithm>
#include <array>
#include <cstddef>

#include <fmt/format.h>

#include "eratos/report/table.h"
#include "eratos/report/timeline.h"
#include "eratos/report/timeline_parts.h"

namespace eratos::report {

using schedule::Action;
using schedule::Kind;
using schedule::Level;

namespace {

constexpr int kFewestColumns = 20;
constexpr int kMostColumns = 300;

// What a cell is filled with where there is no colour.
struct Fills {
  std::array<std::string_view, schedule::kKinds> kinds;
  std::string_view pair;
  std::string_view idle;
  std::string_view compressed;
  std::array<std::string_view, 9> levels;  // of memory, empty to full
};
constexpr Fills kUnicode{
    {"░", "█", "▓", "▒", "◆", "◇"}, "▚", "·", "≈", {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}};
constexpr Fills kAscii{
    {"-", "=", "<", "w", "s", "t"}, "#", ".", "~", {" ", ".", ":", "-", "+", "o", "x", "X", "#"}};

// Colours of the 256 that terminals share, near to those of the other pictures, four lightnesses.
constexpr int kShades = 4;
constexpr std::array<std::array<int, kShades>, schedule::kKinds> kPalette{{
    {25, 32, 74, 117},     // F
    {172, 214, 221, 229},  // BW
    {166, 173, 209, 216},  // B
    {29, 36, 79, 121},     // W
    {132, 175, 182, 225},  // S
    {220, 227, 228, 230},  // T
}};

class Lines {
 public:
  Lines(const Timeline& t, const Terminal& terminal, const View& view)
      : t_(t),
        terminal_(terminal),
        e_(extent_of(t, view)),
        fills_(terminal.unicode ? kUnicode : kAscii),
        style_{terminal.colour},
        times_(time_scale(t, e_.span())),
        columns_(std::clamp(terminal.columns, kFewestColumns, kMostColumns)) {
    for (int rank = e_.first_rank; rank <= e_.last_rank; ++rank) {
      curves_.push_back(memory_of(t, rank));
      highest_ = std::max(highest_, peak_of(curves_.back()).bytes);
    }
    memory_ = memory_scale(t, highest_);
    std::size_t longest = 4;
    for (int row = 0; row < e_.ranks(); ++row) {
      longest = std::max({longest, width(label_of(t, e_.first_rank + row)), width(peak_text(row))});
    }
    // Two more for the mark and a blank; a third of a narrow terminal at most.
    label_ = std::min(static_cast<int>(longest), columns_ / 3 - 2);
    plot_ = columns_ - label_ - 2;
  }

  std::string draw() {
    std::string out;
    if (!t_.title.empty()) out += style_.bold(wrapped(t_.title, width_of_lines(), "")) + '\n';
    std::string facts;
    for (const std::string& f : t_.facts) facts += (facts.empty() ? "" : ", ") + f;
    if (!facts.empty()) out += style_.dim(wrapped(facts, width_of_lines(), "")) + '\n';
    if (const std::string part = part_text(t_, e_); !part.empty()) {
      out += wrapped(part, width_of_lines(), "") + '\n';
    }
    std::vector<std::vector<Cell>> cells;
    std::vector<bool> crowded(at(e_.ranks()), false);
    for (int row = 0; row < e_.ranks(); ++row) {
      bool here = false;
      cells.push_back(cells_of(row, here));
      crowded[at(row)] = here;
      compressed_ = compressed_ || here;
    }
    numbers_ = most_have_room(cells);
    std::string rows;
    for (int row = 0; row < e_.ranks(); ++row)
      rows += row_of(row, cells[at(row)], crowded[at(row)]);
    out += rows + axis() + legend();
    if (compressed_) {
      const Picoseconds column = e_.span() / plot_;
      out += wrapped(
                 fmt::format("{} compressed: a column is {}, up to {} actions share one, and "
                             "columns go to each kind as often as it ran",
                             fills_.compressed, time_scale(t_, column, 1'000).text(column), crowd_),
                 width_of_lines(), "  ") +
             '\n';
    }
    return out;
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::size_t width_of_lines() const { return static_cast<std::size_t>(columns_); }

  std::string peak_text(int row) const {
    const std::int64_t most = peak_of(curves_[at(row)]).bytes;
    return t_.memory.name.empty() ? memory_.text(most) : memory_.number(most);
  }

  // At most `label_` columns, filled up with blanks. A name that is too long and ends in a number
  // keeps its first letter and the number: "r12".
  std::string label(const std::string& s, Align align) const {
    std::string kept = s;
    if (width(s) > at(label_)) {
      const std::size_t digits = s.find_last_not_of("0123456789") + 1;
      if (digits < s.size() && digits > 0) kept = s.substr(0, 1) + s.substr(digits);
    }
    std::string out;
    int columns = 0;
    for (const char c : kept) {
      if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80U && ++columns > label_) break;
      out += c;
    }
    return padded(out, at(label_), align);
  }

  // What fills one column.
  struct Cell {
    int kind = -1;  // -1: idle
    std::size_t action = 0;
    bool pair = false;
    int chunk = 0;
    int other_kind = 0;  // of a pair
    int other_chunk = 0;
  };

  std::vector<Cell> cells_of(int row, bool& crowded) {
    const int rank = e_.first_rank + row;
    const std::vector<ColumnShare> shares = column_shares(t_, e_, rank, plot_);
    std::vector<Cell> out;
    const ActionRange in = actions_in(t_, rank, e_.from, e_.to);
    constexpr std::int32_t kBothNeighbours = 2;
    std::array<Picoseconds, schedule::kKinds + 1> behind{};  // idle, then the kinds
    std::size_t i = in.first;
    for (int c = 0; c < plot_; ++c) {
      const ColumnShare& share = shares[at(c)];
      const Picoseconds left = column_start(e_, c, plot_);
      const Picoseconds right = column_start(e_, c + 1, plot_);
      Cell cell;
      // What took most of the column. Where actions crowd, kinds take turns: each column goes to
      // the kind that is furthest behind its share so far.
      std::array<Picoseconds, schedule::kKinds + 1> share_of{right - left};
      for (std::size_t k = 0; k < share.busy.size(); ++k) {
        share_of[k + 1] = share.busy[k];
        share_of[0] -= share.busy[k];
      }
      if (share.actions <= kBothNeighbours) behind.fill(0);
      std::size_t most = 0;
      for (std::size_t k = 0; k < share_of.size(); ++k) {
        behind[k] += share_of[k];
        // Busy wins over idle where they are equal.
        if (behind[k] > behind[most] || (most == 0 && k > 0 && behind[k] == behind[most])) most = k;
      }
      behind[most] -= right - left;
      cell.kind = static_cast<int>(most) - 1;
      // The longest action of that kind.
      while (i < in.last && t_.intervals[i].end <= left && t_.intervals[i].start < left) ++i;
      Picoseconds longest = -1;
      for (std::size_t j = i; j < in.last && t_.intervals[j].start < right; ++j) {
        const Action& a = t_.order->actions[j];
        const Picoseconds in_column =
            std::min(t_.intervals[j].end, right) - std::max(t_.intervals[j].start, left);
        if (in_column <= longest || static_cast<int>(a.kind) != cell.kind) continue;
        longest = in_column;
        cell.action = j;
        cell.chunk = a.chunk;
        cell.pair = false;
        const bool second = j > in.first && t_.order->actions[j - 1].with_next;
        if (!a.with_next && !second) continue;
        const Action& other = t_.order->actions[second ? j - 1 : j + 1];
        cell.pair = true;
        cell.other_kind = static_cast<int>(other.kind);
        cell.other_chunk = other.chunk;
        if (second) {
          std::swap(cell.kind, cell.other_kind);
          std::swap(cell.chunk, cell.other_chunk);
          cell.action = j - 1;
          break;
        }
      }
      crowd_ = std::max(crowd_, share.actions);
      out.push_back(cell);
    }
    // Does any action have no cell of its own?
    std::size_t seen = 0;
    for (std::size_t c = 0; c < out.size(); ++c) {
      if (out[c].kind < 0) continue;
      const bool first = c == 0 || out[c - 1].kind < 0 || out[c - 1].action != out[c].action;
      if (first) seen += out[c].pair ? 2 : 1;
    }
    std::size_t all = 0;
    for (std::size_t j = in.first; j < in.last; ++j) {
      if (t_.intervals[j].end > t_.intervals[j].start) ++all;
    }
    crowded = seen < all;
    return out;
  }

  int shade(int kind, int chunk) const {
    const int chunks = t_.order->shape.chunks;
    const int step = chunks <= 1 ? 0 : chunk * (kShades - 1) / (chunks - 1);
    return kPalette[at(kind)][at(step)];
  }
  // White where the background is dark.
  static std::string painted(int colour, std::string_view s) {
    const bool dark = colour == 25 || colour == 29 || colour == 132;
    return fmt::format("\x1b[{};48;5;{}m{}\x1b[0m", dark ? 97 : 30, colour, s);
  }

  // The end of the run of equal cells that begins at `i`.
  static std::size_t run_end(const std::vector<Cell>& cells, std::size_t i) {
    const Cell& cell = cells[i];
    std::size_t end = i + 1;
    while (end < cells.size() && cells[end].kind == cell.kind && cells[end].pair == cell.pair &&
           (cell.kind < 0 || cells[end].action == cell.action)) {
      ++end;
    }
    return end;
  }

  // Columns that a number needs beside what says the kind.
  std::size_t room_of(const Cell& cell) const {
    const std::string number = fmt::format("{}", t_.order->actions[cell.action].micro_batch);
    return number.size() + (terminal_.colour ? 0 : 1);
  }

  // Numbers on a few actions alone would only look like noise.
  bool most_have_room(const std::vector<std::vector<Cell>>& rows) const {
    std::size_t all = 0;
    std::size_t roomy = 0;
    for (const std::vector<Cell>& cells : rows) {
      for (std::size_t i = 0; i < cells.size();) {
        const std::size_t end = run_end(cells, i);
        if (cells[i].kind >= 0 && !cells[i].pair) {
          ++all;
          if (end - i >= room_of(cells[i])) ++roomy;
        }
        i = end;
      }
    }
    return 2 * roomy >= all;
  }

  std::string bar_of(const std::vector<Cell>& cells) const {
    std::string out;
    for (std::size_t i = 0; i < cells.size();) {
      const std::size_t end = run_end(cells, i);
      out += run_of(cells[i], end - i);
      i = end;
    }
    return out;
  }

  // `columns` equal cells.
  std::string run_of(const Cell& cell, std::size_t columns) const {
    const auto filled = [&](std::string_view fill, std::size_t count) {
      std::string out;
      for (std::size_t i = 0; i < count; ++i) out += fill;
      return out;
    };
    if (cell.kind < 0) return style_.dim(filled(fills_.idle, columns));
    const std::string number = fmt::format("{}", t_.order->actions[cell.action].micro_batch);
    if (cell.pair) {
      if (terminal_.colour && terminal_.unicode) {
        return fmt::format("\x1b[38;5;{};48;5;{}m{}\x1b[0m", shade(cell.kind, cell.chunk),
                           shade(cell.other_kind, cell.other_chunk), filled("▀", columns));
      }
      return filled(fills_.pair, columns);
    }
    if (terminal_.colour) {
      // Blanks on a coloured ground; the number in the middle.
      std::string inside(columns, ' ');
      if (numbers_ && columns >= room_of(cell)) {
        inside.replace((columns - number.size()) / 2, number.size(), number);
      }
      return painted(shade(cell.kind, cell.chunk), inside);
    }
    // The number and at least one cell that says the kind.
    const std::string_view fill = fills_.kinds[at(cell.kind)];
    if (numbers_ && columns >= room_of(cell)) {
      return number + filled(fill, columns - number.size());
    }
    return filled(fill, columns);
  }

  std::string memory_line(int row) const {
    const std::vector<std::int64_t> most = column_memory(curves_[at(row)], e_, plot_);
    std::string out;
    for (const std::int64_t bytes : most) {
      const double share =
          highest_ > 0 ? static_cast<double>(bytes) / static_cast<double>(highest_) : 0;
      // Rounded up: what is held is seen.
      int level = static_cast<int>(share * 8);
      if (bytes > 0 && share * 8 > level) ++level;
      out += fills_.levels[at(std::clamp(level, 0, 8))];
    }
    return out;
  }

  static std::string without_end_blanks(std::string s) {
    s.erase(s.find_last_not_of(' ') + 1);
    return s;
  }

  std::string row_of(int row, const std::vector<Cell>& cells, bool crowded) const {
    std::string out = label(label_of(t_, e_.first_rank + row), Align::left);
    out += crowded ? std::string(fills_.compressed) : " ";
    out += ' ' + bar_of(cells);
    return out + '\n' +
           style_.dim(
               without_end_blanks(label(peak_text(row), Align::right) + "  " + memory_line(row))) +
           '\n';
  }

  // Numbers that begin at their tick.
  std::string axis() const {
    constexpr int kColumnsATick = 10;
    const Picoseconds step = tick_step(times_, e_.span(), std::max(1, plot_ / kColumnsATick));
    std::string numbers(at(plot_), ' ');
    int free_from = 0;
    for (Picoseconds time = (e_.from + step - 1) / step * step; time <= e_.to; time += step) {
      const auto column = static_cast<int>(static_cast<double>(time - e_.from) /
                                           static_cast<double>(e_.span()) * plot_);
      const std::string number = times_.number(time);
      const int end = column + static_cast<int>(number.size());
      if (column < free_from || end > plot_) continue;
      numbers.replace(at(column), number.size(), number);
      free_from = end + 1;
    }
    return style_.dim(without_end_blanks(label(times_.name, Align::right) + "  " + numbers)) + '\n';
  }

  std::string legend() const {
    const Style none;
    std::vector<std::pair<std::string, std::size_t>> words;  // with their columns
    const auto add = [&](const std::string& swatch, std::size_t columns, const std::string& text) {
      words.emplace_back(swatch + ' ' + text, columns + 1 + width(text));
    };
    bool pairs = false;
    for (int rank = e_.first_rank; rank <= e_.last_rank && !pairs; ++rank) {
      const ActionRange in = actions_in(t_, rank, e_.from, e_.to);
      for (std::size_t i = in.first; i < in.last && !pairs; ++i) {
        pairs = t_.order->actions[i].with_next;
      }
    }
    const int chunks = t_.order->shape.chunks;
    for (const Kind k : kinds_of(t_, e_)) {
      const int kind = static_cast<int>(k);
      std::string swatch(fills_.kinds[at(kind)]);
      std::size_t columns = 1;
      if (terminal_.colour) {
        swatch = painted(shade(kind, 0), " ");
        if (chunks > 1) swatch += painted(shade(kind, chunks - 1), " ");
        columns = chunks > 1 ? 2 : 1;
      }
      add(swatch, columns, fmt::format("{} {}", letter_of(k), name_of(k)));
    }
    if (pairs && !(terminal_.colour && terminal_.unicode)) {
      add(std::string(fills_.pair), 1, "two side by side");
    }
    add(style_.dim(fills_.idle), 1, std::string(idle_text(t_)));
    if (terminal_.colour && chunks > 1) {
      const std::string text = "lighter: later chunk";
      words.emplace_back(text, width(text));
    }
    const std::string memory =
        "below: memory, " + (t_.memory.name.empty() ? std::string("peak at the left")
                                                    : t_.memory.name + ", peak at the left");
    words.emplace_back(memory, width(memory));
    std::string out;
    std::size_t used = 0;
    for (const auto& [word, columns] : words) {
      if (used > 0 && used + 2 + columns > width_of_lines()) {
        out += '\n';
        used = 0;
      }
      if (used > 0) {
        out += "  ";
        used += 2;
      }
      if (columns > width_of_lines()) {
        out += wrapped(word, width_of_lines(), "");
        used = width_of_lines();
      } else {
        out += word;
        used += columns;
      }
    }
    return out + '\n';
  }

  const Timeline& t_;
  const Terminal& terminal_;
  Extent e_;
  const Fills& fills_;
  Style style_;
  TimeScale times_;
  int columns_ = 80;
  int label_ = 0;
  int plot_ = 0;
  MemoryScale memory_;
  std::vector<std::vector<Level>> curves_;
  std::int64_t highest_ = 0;
  bool compressed_ = false;
  bool numbers_ = false;
  std::int32_t crowd_ = 0;
};

}  // namespace

std::string timeline_text(const Timeline& t, const Terminal& terminal, const View& view) {
  return Lines(t, terminal, view).draw();
}

}  // namespace eratos::report
