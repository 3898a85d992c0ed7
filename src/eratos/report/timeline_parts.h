// What all pictures of a Timeline share: the part in view, the columns that stand for too many
// actions, units, ticks, colours.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/report/timeline.h"

namespace eratos::report {

// A View with its ends filled in and put inside the step.
struct Extent {
  Picoseconds from = 0;
  Picoseconds to = 1;  // above `from`
  int first_rank = 0;
  int last_rank = 0;
  std::int64_t actions = 0;  // that touch it

  Picoseconds span() const { return to - from; }
  int ranks() const { return last_rank - first_rank + 1; }
};
Extent extent_of(const Timeline& t, const View& view);

// "from 10 to 20 of 96 us, ranks 0 to 3 of 8" when the view is not all there is; else empty.
std::string part_text(const Timeline& t, const Extent& e);

// Why columns of so long stand for the actions.
std::string too_many_text(const Extent& e, std::int64_t most, const std::string& column);

std::string label_of(const Timeline& t, int rank);

// Indices into order->actions, first to one past the last, of the rank's actions in [from, to).
struct ActionRange {
  std::size_t first = 0;
  std::size_t last = 0;
};
ActionRange actions_in(const Timeline& t, int rank, Picoseconds from, Picoseconds to);

// What ran in each of `columns` equal columns of the extent on one rank: picoseconds by kind (half
// of the time of a pair to each of the two), and how many actions touch the column.
struct ColumnShare {
  std::array<Picoseconds, schedule::kKinds> busy{};
  std::int32_t actions = 0;
};
std::vector<ColumnShare> column_shares(const Timeline& t, const Extent& e, int rank, int columns);
// Where column `i` of `columns` begins.
Picoseconds column_start(const Extent& e, int i, int columns);

// A rank's memory, base included, from the start of the step; bytes change at each level's time.
std::vector<schedule::Level> memory_of(const Timeline& t, int rank);
schedule::Level peak_of(const std::vector<schedule::Level>& curve);  // the first that is highest
// Most held in each column.
std::vector<std::int64_t> column_memory(const std::vector<schedule::Level>& curve, const Extent& e,
                                        int columns);

// Times as numbers of one unit.
struct TimeScale {
  Picoseconds one = 1'000'000'000'000;
  std::string name = "s";
  int decimals = 3;

  // "12.345", no trailing zeros.
  std::string number(Picoseconds time) const;
  std::string text(Picoseconds time) const { return number(time) + ' ' + name; }
};
// Shows a `digits`th of the span.
TimeScale time_scale(const Timeline& t, Picoseconds span, Picoseconds digits = 100'000);

// 1, 2 or 5 times a power of ten of the unit, so that at most `most` fit into the span.
Picoseconds tick_step(const TimeScale& scale, Picoseconds span, int most);

// Bytes as numbers of one unit that suits `most`.
struct MemoryScale {
  double one = 1;
  std::string name;
  std::string number(std::int64_t bytes) const;
  std::string text(std::int64_t bytes) const;
};
MemoryScale memory_scale(const Timeline& t, std::int64_t most);

// "F", "BW", "B", "W", "S", "T".
std::string_view letter_of(schedule::Kind kind);

struct Colour {
  int red = 0;
  int green = 0;
  int blue = 0;
  std::string hex() const;
};
// A kind's hue, lighter from chunk to chunk.
// Source of the hues: Okabe and Ito, "Color Universal Design", 2008, jfly.uni-koeln.de/color.
Colour colour_of(schedule::Kind kind, int chunk, int chunks);
// Is white or dark ink easier to read on it? By contrast ratio, WCAG 2.1 section 1.4.3.
bool wants_white_ink(Colour c);

// "chunk 0", or which way its micro-batches go: "chunk 0 down", "chunk 1 up".
std::string chunk_text(const schedule::Order& order, int chunk);

// What a rank that runs no action does: "bubble", or "bubble, transfers" where sends take time.
std::string_view idle_text(const Timeline& t);

// The kinds that the order holds, in the order of the enum.
std::vector<schedule::Kind> kinds_of(const Timeline& t, const Extent& e);

// timeline_svg without the words above it, which go to `remarks` for the page to say.
std::string timeline_drawing(const Timeline& t, const View& view,
                             std::vector<std::string>& remarks);

// Puts spans that overlap onto different lanes: for each, the first lane that is free. Spans
// have to come in order of their starts.
class Lanes {
 public:
  int place(Picoseconds start, Picoseconds end);

 private:
  std::vector<Picoseconds> free_at_;
};

}  // namespace eratos::report
