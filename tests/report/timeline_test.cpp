#include "eratos/report/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/report/timeline_parts.h"
#include "timeline_hand.h"

namespace eratos::report {
namespace {

using schedule::Kind;

// The example of the header of simulate.h: F = 10, B = 20, every send 3.
TEST(Timeline, MessagesOfTheWorkedExample) {
  Drawn d("1f1b", 2, 1, 2);
  for (schedule::ChunkCost& c : d.chunks) {
    c.forward = 10;
    c.backward = 20;
  }
  d.links.assign(2, {3, 3});
  d.timeline.costs.links = d.links;
  schedule::Workspace w;
  ASSERT_TRUE(simulate(d.order, d.timeline.costs, w, d.timing, &d.intervals).has_value());
  d.timeline.intervals = d.intervals;
  EXPECT_EQ(end_of(d.timeline), 96);
  const std::vector<Message> messages = messages_of(d.timeline);
  ASSERT_EQ(messages.size(), 4U);  // two micro-batches, there and back
  // F0 of rank 0, its first action, ends at 10; its output is taken by rank 1's first action.
  EXPECT_EQ(messages[0].from, 0);
  EXPECT_EQ(messages[0].to, 4);
  EXPECT_EQ(messages[0].to_rank, 1);
  EXPECT_EQ(messages[0].start, 10);
  EXPECT_EQ(messages[0].duration, 3);
  for (const Message& m : messages) {
    EXPECT_LE(m.start + m.duration, d.intervals[static_cast<std::size_t>(m.to)].start);
  }
}

// Every stage but the last passes each micro-batch on, and gets its gradient; the two chunks of the
// last rank of a V are neighbours and send nothing.
TEST(Timeline, MessagesAreCounted) {
  EXPECT_EQ(messages_of(Drawn("1f1b", 4, 1, 12).timeline).size(), 2U * 3 * 12);
  EXPECT_EQ(messages_of(Drawn("interleaved-1f1b", 4, 2, 12).timeline).size(), 2U * 7 * 12);
  EXPECT_EQ(messages_of(Drawn("zbv", 4, 2, 12).timeline).size(), 2U * 6 * 12);
  EXPECT_EQ(messages_of(Drawn("dualpipe", 4, 2, 12).timeline).size(), 2U * 3 * 12);
}

TEST(Timeline, NamesOfActions) {
  const schedule::Shape one{.pp = 2, .chunks = 1, .micro_batches = 4};
  const schedule::Shape two{.pp = 2, .chunks = 2, .micro_batches = 4};
  EXPECT_EQ(name_of(schedule::Action{3, 0, Kind::forward}, one), "F3");
  EXPECT_EQ(name_of(schedule::Action{3, 1, Kind::backward}, two), "BW3.1");
  EXPECT_EQ(name_of(schedule::Action{0, 1, Kind::weight_gradient}, two), "W0.1");
}

TEST(Timeline, ViewsAreCutToTheStep) {
  const Drawn d("1f1b", 4, 1, 12);
  const Extent all = extent_of(d.timeline, {});
  EXPECT_EQ(all.from, 0);
  EXPECT_EQ(all.to, d.timing.makespan);
  EXPECT_EQ(all.actions, 96);
  EXPECT_EQ(part_text(d.timeline, all), "");
  const Extent some = extent_of(
      d.timeline, {.from = 100'000'000, .to = 1'000'000'000'000, .first_rank = 2, .last_rank = 99});
  EXPECT_EQ(some.to, d.timing.makespan);
  EXPECT_EQ(some.ranks(), 2);
  EXPECT_EQ(part_text(d.timeline, some), "from 100 to 450 of 450 us, ranks 2 to 3 of 4");
  // Rank 3's first backward runs from 40 to 60 us: seen from 50 on, gone at 60.
  EXPECT_EQ(extent_of(d.timeline, {.from = 50'000'000, .to = 60'000'000, .first_rank = 3}).actions,
            1);
}

// Whatever the columns, no picosecond is lost or counted twice.
TEST(Timeline, ColumnSharesAddUp) {
  for (const Case& c : kTimelineCases) {
    const Drawn d(c.name, c.p, c.v, c.m, Times::uneven);
    for (const View view : {View{}, View{.from = 33'333'333, .to = 77'777'777}}) {
      const Extent e = extent_of(d.timeline, view);
      for (int rank = 0; rank < c.p; ++rank) {
        Picoseconds busy = 0;
        for (std::size_t i =
                 static_cast<std::size_t>(d.order.first[static_cast<std::size_t>(rank)]);
             i < static_cast<std::size_t>(d.order.first[static_cast<std::size_t>(rank) + 1]); ++i) {
          if (d.order.actions[i].with_next) continue;  // the pair is its second
          busy += std::max<Picoseconds>(
              0, std::min(d.intervals[i].end, e.to) - std::max(d.intervals[i].start, e.from));
        }
        for (const int columns : {1, 7, 64, 1000}) {
          Picoseconds sum = 0;
          int i = 0;
          for (const ColumnShare& s : column_shares(d.timeline, e, rank, columns)) {
            Picoseconds here = 0;
            for (const Picoseconds part : s.busy) here += part;
            EXPECT_LE(here, column_start(e, i + 1, columns) - column_start(e, i, columns));
            sum += here;
            ++i;
          }
          EXPECT_EQ(sum, busy) << c.name << " rank " << rank << ", " << columns << " columns";
        }
      }
    }
  }
}

TEST(Timeline, MemoryPeaksWithTheSchedule) {
  for (const Case& c : kTimelineCases) {
    Drawn d(c.name, c.p, c.v, c.m, Times::uneven);
    d.timeline.ranks.resize(static_cast<std::size_t>(c.p));
    for (int rank = 0; rank < c.p; ++rank) {
      d.timeline.ranks[static_cast<std::size_t>(rank)].base = 1000;
      const std::vector<schedule::Level> curve = memory_of(d.timeline, rank);
      const std::int64_t held = d.timing.peaks.ranks[static_cast<std::size_t>(rank)].held;
      EXPECT_EQ(peak_of(curve).bytes, 1000 + held);
      EXPECT_EQ(curve.back().bytes, 1000);  // all is given back
      for (const int columns : {1, 10, 333}) {
        const std::vector<std::int64_t> most =
            column_memory(curve, extent_of(d.timeline, {}), columns);
        EXPECT_EQ(*std::max_element(most.begin(), most.end()), 1000 + held);
      }
    }
  }
}

TEST(Timeline, TicksAreRoundAndFew) {
  const Drawn d("1f1b", 4, 1, 12);
  for (const Picoseconds span : {1LL, 7LL, 1'234LL, 450'000'000LL, 99'999'999'999'999LL}) {
    const TimeScale scale = time_scale(d.timeline, span);
    for (const int most : {1, 5, 14}) {
      Picoseconds step = tick_step(scale, span, most);
      EXPECT_LE(span / step, most);
      // The step before would have been too fine, and each is at most 2.5 times the last.
      if (step > 1) {
        EXPECT_GE(5 * (span / step + 1), 2 * most);
      }
      while (step % 10 == 0) step /= 10;
      EXPECT_TRUE(step == 1 || step == 2 || step == 5) << span << ' ' << most << ' ' << step;
    }
  }
  EXPECT_EQ(tick_step(time_scale(d.timeline, 450'000'000), 450'000'000, 14), 50'000'000);
}

TEST(Timeline, TimesAndBytesAsNumbers) {
  Drawn d("1f1b", 2, 1, 2);
  EXPECT_EQ(time_scale(d.timeline, 450'000'000).text(12'345'678), "12.346 us");
  EXPECT_EQ(time_scale(d.timeline, 2'000'000'000'000).text(500'000'000'000), "0.5 s");
  d.timeline.time_unit = "F";
  d.timeline.one_time = 10'000'000;
  EXPECT_EQ(time_scale(d.timeline, 450'000'000).text(35'000'000), "3.5 F");
  EXPECT_EQ(memory_scale(d.timeline, 3LL << 30).text(3LL << 29), "1.5 GiB");
  EXPECT_EQ(memory_scale(d.timeline, 12).text(12), "12 bytes");
  d.timeline.memory = {"micro-batches", 12};
  EXPECT_EQ(memory_scale(d.timeline, 48).text(12), "1 micro-batch");
  EXPECT_EQ(memory_scale(d.timeline, 48).text(30), "2.5 micro-batches");
}

TEST(Timeline, LocaleOfUtf8) {
  EXPECT_TRUE(is_utf8("", "", "en_GB.UTF-8"));
  EXPECT_TRUE(is_utf8("", "de_DE.utf8", "C"));
  EXPECT_FALSE(is_utf8("C", "", "en_GB.UTF-8"));
  EXPECT_FALSE(is_utf8("", "", "en_US.ISO-8859-1"));
  EXPECT_FALSE(is_utf8("", "", ""));
}

TEST(Timeline, LanesNeverOverlap) {
  Lanes lanes;
  EXPECT_EQ(lanes.place(0, 10), 0);
  EXPECT_EQ(lanes.place(5, 15), 1);
  EXPECT_EQ(lanes.place(10, 20), 0);
  EXPECT_EQ(lanes.place(12, 13), 2);
}

// CIE L*a*b* of a colour as seen with a lack of one kind of cone, whole.
// Source: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
// Vision Deficiency", 2009, severity 1; sRGB and D65 of IEC 61966-2-1.
using Matrix = std::array<double, 9>;
constexpr std::array<Matrix, 4> kEyes{{
    {1, 0, 0, 0, 1, 0, 0, 0, 1},
    {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
    {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
    {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900},
}};

double linear(int channel) {
  const double s = channel / 255.0;
  return s <= 0.04045 ? s / 12.92 : std::pow((s + 0.055) / 1.055, 2.4);
}

std::array<double, 3> lab(Colour c, const Matrix& eye) {
  const std::array<double, 3> rgb{linear(c.red), linear(c.green), linear(c.blue)};
  std::array<double, 3> seen{};
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) seen[i] += eye[3 * i + j] * rgb[j];
    seen[i] = std::clamp(seen[i], 0.0, 1.0);
  }
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f((0.4124 * seen[0] + 0.3576 * seen[1] + 0.1805 * seen[2]) / 0.95047);
  const double y = f(0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]);
  const double z = f((0.0193 * seen[0] + 0.1192 * seen[1] + 0.9505 * seen[2]) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

// Two colours are just told apart at a distance of 2.3 (Mahy, Van Eycken and Oosterlinck 1994).
TEST(Timeline, ColoursSurviveColourBlindness) {
  struct Used {
    Kind kind;
    Colour colour;
  };
  std::vector<Used> used;
  for (const Kind k :
       {Kind::forward, Kind::backward, Kind::input_gradient, Kind::weight_gradient}) {
    used.push_back({k, colour_of(k, 0, 2)});
    used.push_back({k, colour_of(k, 1, 2)});
  }
  // S and T run once a rank, on chunk 0.
  used.push_back({Kind::output, colour_of(Kind::output, 0, 2)});
  used.push_back({Kind::output_gradient, colour_of(Kind::output_gradient, 0, 2)});
  constexpr std::array<double, 4> kLeast{15, 12, 12, 7};  // no lack; red, green, blue cones
  for (std::size_t eye = 0; eye < kEyes.size(); ++eye) {
    for (std::size_t i = 0; i < used.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const auto a = lab(used[i].colour, kEyes[eye]);
        const auto b = lab(used[j].colour, kEyes[eye]);
        const double distance = std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
        EXPECT_GT(distance, kLeast[eye]) << used[i].colour.hex() << ' ' << used[j].colour.hex();
      }
    }
  }
}

// WCAG 2.1 asks for 4.5 of small text, 3 of graphics; the numbers name what the colour says.
TEST(Timeline, NumbersCanBeReadOnTheirColours) {
  for (int k = 0; k < schedule::kKinds; ++k) {
    for (int chunk = 0; chunk < 8; ++chunk) {
      const Colour c = colour_of(static_cast<Kind>(k), chunk, 8);
      const auto luminance = [](Colour x) {
        return 0.2126 * linear(x.red) + 0.7152 * linear(x.green) + 0.0722 * linear(x.blue);
      };
      const double ground = luminance(c);
      const double ink = wants_white_ink(c) ? 1 : luminance({0x1c, 0x24, 0x30});
      const double ratio = (std::max(ground, ink) + 0.05) / (std::min(ground, ink) + 0.05);
      EXPECT_GT(ratio, 4) << c.hex();
    }
  }
}

}  // namespace
}  // namespace eratos::report
