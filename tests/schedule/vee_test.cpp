// V-Min, V-Half and ZBV: what arXiv 2405.15362 says of them, against exact simulation.
//
// Letters: order.h. A unit is one pass of one chunk with F = B = W; a micro-batch is six of them on
// every rank. Peaks are in chunks, F to W; the paper counts micro-batches of a rank's two chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "eratos/schedule/bounds.h"
#include "eratos/schedule/peak.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"
#include "schedule/cases.h"

namespace eratos::schedule {
namespace {

constexpr std::string_view kVees[] = {"v-min", "v-half", "zbv"};

testing::OwnedCosts costs_of(const Shape& s, Picoseconds f, Picoseconds b, Picoseconds w) {
  testing::OwnedCosts c = testing::split_costs(s, f, b, w);
  for (ChunkCost& chunk : c.chunks) chunk.kept = chunk.held;
  return c;
}

Order make(std::string_view name, const Shape& s) {
  Order order;
  EXPECT_TRUE(make_order(name, s, order).has_value()) << name << " " << testing::text(s);
  return order;
}

class Simulated {
 public:
  const Timing& operator()(std::string_view name, const Shape& s, Picoseconds f, Picoseconds b,
                           Picoseconds w) {
    EXPECT_TRUE(make_order(name, s, order_).has_value());
    const auto done = simulate(order_, costs_of(s, f, b, w), workspace_, timing_);
    EXPECT_TRUE(done.has_value()) << name << " " << testing::text(s);
    return timing_;
  }

 private:
  Order order_;
  Workspace workspace_;
  Timing timing_;
};

std::int64_t most_held(const Timing& t) {
  std::int64_t most = 0;
  for (const RankPeak& rank : t.peaks.ranks) most = std::max(most, rank.held);
  return most;
}

std::string text(const Order& order, int rank) {
  std::string out;
  for (const Action& a : order.of(rank)) {
    out += out.empty() ? "" : " ";
    out += a.kind == Kind::forward ? "F" : a.kind == Kind::input_gradient ? "B" : "W";
    out += std::to_string(a.micro_batch) + "." + std::to_string(a.chunk);
  }
  return out;
}

TEST(Vee, ZbvByHand) {
  const Order o = make("zbv", {2, 2, 3});
  EXPECT_EQ(text(o, 0),
            "F0.0 F1.0 F2.0 F0.1 B0.1 W0.1 F1.1 B1.1 W1.1 B0.0 W0.0 F2.1 B2.1 W2.1 B1.0 W1.0 B2.0 "
            "W2.0");
  EXPECT_EQ(text(o, 1),
            "F0.0 F0.1 F1.0 F1.1 B0.1 W0.1 F2.0 B0.0 W0.0 F2.1 B1.1 W1.1 B1.0 B2.1 B2.0 W1.0 W2.1 "
            "W2.0");
}

// One micro-batch waits for nothing but itself: down, up, down, up, and the last W.
TEST(Vee, OneMicroBatchTakesItsOwnWay) {
  Simulated run;
  for (const std::string_view name : kVees) {
    for (int p = 2; p <= 9; ++p) EXPECT_EQ(run(name, {p, 2, 1}, 1, 1, 1).makespan, 4 * p + 1);
  }
}

// The paper's table: ZBV p, V-Half p / 2 + 1, V-Min ceil((p + 2) / 3) micro-batches. It gives
// V-Half for even p; its published description floor((p + 2) / 2), which holds for odd p too.
TEST(Vee, PublishedPeaks) {
  Simulated run;
  for (int p = 2; p <= 24; ++p) {
    for (const int m : {p + 1, 2 * p, 4 * p + 3}) {
      const Shape s{p, 2, m};
      EXPECT_EQ(most_held(run("zbv", s, 1, 1, 1)), 2 * p) << testing::text(s);
      EXPECT_EQ(most_held(run("v-half", s, 1, 1, 1)), 2 * ((p + 2) / 2)) << testing::text(s);
      EXPECT_EQ(most_held(run("v-min", s, 1, 1, 1)), 2 * ((p + 2 + 2) / 3)) << testing::text(s);
    }
  }
}

// V-Min of the Primus projection holds 2, 2, 4, 6 micro-batches for p = 2, 4, 8, 16.
TEST(Vee, PeaksOfAnotherImplementation) {
  Simulated run;
  EXPECT_EQ(most_held(run("v-min", {2, 2, 32}, 1, 1, 1)), 2 * 2);
  EXPECT_EQ(most_held(run("v-min", {4, 2, 32}, 1, 1, 1)), 2 * 2);
  EXPECT_EQ(most_held(run("v-min", {8, 2, 32}, 1, 1, 1)), 2 * 4);
  EXPECT_EQ(most_held(run("v-min", {16, 2, 64}, 1, 1, 1)), 2 * 6);
}

// No rank of ZBV holds more than another: that is what the V is for.
TEST(Vee, ZbvHoldsTheSameOnEveryRank) {
  Simulated run;
  for (const RankPeak& rank : run("zbv", {7, 2, 20}, 1, 1, 1).peaks.ranks) {
    EXPECT_EQ(rank.held, 14);
  }
}

// The paper says ZBV has no bubble. That holds for each rank between its own first and last action,
// which is the pitch when no rank waits for another between steps. It does not hold for the
// makespan: the last rank cannot begin before a micro-batch has come down to it, p - 1 units.
TEST(Vee, ZbvHasNoBubbleButTheFill) {
  Simulated run;
  for (int p = 2; p <= 24; ++p) {
    for (const int m : {2 * p - 1, 2 * p, 3 * p + 1, 8 * p}) {
      const Timing& t = run("zbv", {p, 2, m}, 10, 10, 10);
      EXPECT_EQ(t.makespan, 10 * (6 * m + p - 1)) << p << " " << m;
      EXPECT_EQ(t.pitch, 10 * 6 * m) << p << " " << m;
      for (int rank = 0; rank < p; ++rank) {
        const RankTime& time = t.ranks[static_cast<std::size_t>(rank)];
        EXPECT_EQ(time.first_start, 10 * rank);
        EXPECT_EQ(time.last_end - time.first_start, time.busy);
      }
    }
  }
}

// Few micro-batches leave ranks without work, whatever the order; the first p - 1 of them do so
// alone.
TEST(Vee, ZbvOfFewMicroBatches) {
  Simulated run;
  for (int p = 2; p <= 16; ++p) {
    for (int m = 1; m < 2 * p - 1; ++m) {
      const Picoseconds bubble = run("zbv", {p, 2, m}, 1, 1, 1).makespan - 6 * m;
      if (m <= p) {
        EXPECT_EQ(bubble, std::max(4 * p - 1 - 4 * m, 3 * p - 1 - 2 * m)) << p << " " << m;
      } else {
        EXPECT_LE(bubble, std::max(p - 1, 2 * p - 5)) << p << " " << m;
      }
    }
  }
}

// The paper's description has bubbles of 2 p / (3 m) for V-Min and p / (2 m) for V-Half, of a
// step's work: 4 p and 3 p units. Those are the leading terms. Exactly, from m = p + 1 on: V-Min 4
// p - 5, two less where its block has a pause (p a multiple of 3), V-Half 3 p - 4, three less where
// its block has (p even), and p - 1 for p = 2, where the fill alone is more.
// The rule of the paper's own code (zbv_greedy.py), worked out apart for p = 2 to 8, gives the
// same: 3 5 11 15 17 23 27 and 1 5 5 11 11 17 17.
TEST(Vee, BubblesOfMinAndHalf) {
  Simulated run;
  for (int p = 2; p <= 24; ++p) {
    const int min = 4 * p - 5 - (p % 3 == 0 ? 2 : 0);
    const int half = std::max(p - 1, 3 * p - 4 - (p % 2 == 0 ? 3 : 0));
    for (const int m : {p + 1, p + 2, 2 * p + 3, 4 * p, 9 * p + 1}) {
      EXPECT_EQ(run("v-min", {p, 2, m}, 1, 1, 1).makespan, 6 * m + min) << p << " " << m;
      EXPECT_EQ(run("v-half", {p, 2, m}, 1, 1, 1).makespan, 6 * m + half) << p << " " << m;
    }
  }
}

// A turn of the steady part when F, B and W differ. V-Half has no bubble there exactly when
// W + 2 B >= 2 F and W + 2 F >= 2 B, as its authors say; else four forwards or four gradients and a
// W are one chain of waits. V-Min, whose passes follow one another without a pause, has chains of
// six forwards and of six gradients, so it also needs B + W >= 2 F and F + W >= 2 B. ZBV has none.
TEST(Vee, SteadyTurnWithUnequalPasses) {
  Simulated run;
  Rng rng(31);
  const auto draw = [&] { return static_cast<Picoseconds>(5 + rng.below(30)); };
  int with_bubble = 0;
  for (int i = 0; i < 300; ++i) {
    const Picoseconds f = draw();
    const Picoseconds b = draw();
    const Picoseconds w = draw();
    const int p = 3 + static_cast<int>(rng.below(6));
    const auto turn = [&](std::string_view name) {
      const Picoseconds before = run(name, {p, 2, 60}, f, b, w).makespan;
      return (run(name, {p, 2, 90}, f, b, w).makespan - before) / 30;
    };
    const Picoseconds work = 2 * (f + b + w);
    const std::string what = std::to_string(p) + ": " + std::to_string(f) + " " +
                             std::to_string(b) + " " + std::to_string(w);
    EXPECT_EQ(turn("v-min"), std::max({work, 6 * f, 6 * b})) << what;
    EXPECT_EQ(turn("v-half"), std::max({work, 4 * f + w, 4 * b + w})) << what;
    EXPECT_EQ(turn("zbv"), work) << what;
    with_bubble += w + 2 * b < 2 * f || w + 2 * f < 2 * b;
  }
  EXPECT_GT(with_bubble, 30);
  EXPECT_LT(with_bubble, 270);
}

// m + 1 micro-batches: one turn more, the same as the turn before it, and all after it one later.
bool is_one_turn_more(std::span<const Action> few, std::span<const Action> more) {
  if (more.size() != few.size() + 6) return false;
  const auto later = [](Action a) {
    ++a.micro_batch;
    return a;
  };
  std::size_t same = 0;
  while (same < few.size() && few[same] == more[same]) ++same;
  // The turn can be put in anywhere between the first that repeats and the last.
  for (std::size_t at = 6; at <= same; ++at) {
    bool fits = true;
    for (std::size_t i = at; fits && i < at + 6; ++i) fits = more[i] == later(more[i - 6]);
    for (std::size_t i = at; fits && i < few.size(); ++i) fits = more[i + 6] == later(few[i]);
    if (fits) return true;
  }
  return false;
}

TEST(Vee, OneMicroBatchMoreIsOneTurnMore) {
  for (const std::string_view name : kVees) {
    const Schedule& schedule = *find(name);
    for (int p = 2; p <= 17; ++p) {
      const int from = schedule.micro_batches_for_peak({p, 2, 1000});
      ASSERT_LE(from, 2 * p + 6);
      ASSERT_EQ(schedule.period({p, 2, 1000}), 1);
      for (const int m : {from, from + 1, from + 2, from + 7, 6 * p + 20}) {
        const Order few = make(name, {p, 2, m});
        const Order more = make(name, {p, 2, m + 1});
        for (int rank = 0; rank < p; ++rank) {
          EXPECT_TRUE(is_one_turn_more(few.of(rank), more.of(rank)))
              << name << " p " << p << " m " << m << " rank " << rank;
        }
      }
    }
  }
}

// Any times and bytes, m below, at and beyond p: complete, never waiting for itself, bracketed.
TEST(Vee, AnyShapeCompletesWithAnyTimes) {
  Rng rng(32);
  Order order;
  Workspace w;
  Timing t;
  for (const std::string_view name : kVees) {
    const Schedule& schedule = *find(name);
    for (int p = 2; p <= 13; ++p) {
      for (int m = 1; m <= 3 * p + 2; ++m) {
        const Shape s{p, 2, m};
        const Sends sends = m % 2 == 0 ? Sends::overlapped : Sends::blocking;
        const testing::OwnedCosts c = testing::random_costs(s, rng, sends);
        ASSERT_TRUE(make_order(schedule, s, order).has_value());
        ASSERT_TRUE(is_complete(order)) << testing::text(schedule, s);
        ASSERT_TRUE(simulate(order, c, w, t).has_value()) << testing::text(schedule, s);
        const Bounds b = bounds(schedule, s, c);
        EXPECT_LE(b.lower, t.makespan) << testing::text(schedule, s);
        EXPECT_GE(b.upper, t.makespan) << testing::text(schedule, s);
      }
    }
  }
}

// The upper bound is the makespan itself when all passes take as long, and a send belongs to each.
TEST(Vee, UpperBoundIsExactForEqualPasses) {
  Simulated run;
  for (const std::string_view name : kVees) {
    for (int p = 3; p <= 12; ++p) {
      for (const int m : {2 * p - 1, 3 * p}) {
        const Shape s{p, 2, m};
        const Bounds b = bounds(*find(name), s, costs_of(s, 10, 10, 10));
        const Picoseconds makespan = run(name, s, 10, 10, 10).makespan;
        EXPECT_LE(b.lower, makespan);
        EXPECT_EQ(b.upper, makespan) << name << " " << p;
      }
    }
  }
}

// Equal stages, any F, B and W: the bound sees the chains of a turn, not only the work of a rank.
// It does not see the W in v-half's.
TEST(Vee, LowerBoundSeesTheChainsOfATurn) {
  Simulated run;
  Rng rng(33);
  const auto draw = [&] { return static_cast<Picoseconds>(5 + rng.below(30)); };
  int longer_than_work = 0;
  for (const std::string_view name : kVees) {
    for (int i = 0; i < 200; ++i) {
      const Picoseconds f = draw();
      const Picoseconds b = draw();
      const Picoseconds w = draw();
      const int p = 3 + static_cast<int>(rng.below(10));
      const Shape s{p, 2, 10 * p};
      const Picoseconds makespan = run(name, s, f, b, w).makespan;
      const Bounds found = bounds(*find(name), s, costs_of(s, f, b, w));
      EXPECT_LE(found.lower, makespan);
      EXPECT_GE(found.lower * 10, makespan * (name == "v-half" ? 8 : 9))
          << name << " " << p << ": " << f << " " << b << " " << w;
      longer_than_work += found.lower > 11 * s.micro_batches * (f + b + w) / 5;
    }
  }
  EXPECT_GT(longer_than_work, 50);
}

TEST(Vee, UsedAgainAnOrderDoesNotAllocate) {
  for (const std::string_view name : kVees) {
    Order order = make(name, {6, 2, 40});
    const Action* const data = order.actions.data();
    const std::size_t capacity = order.actions.capacity();
    for (const int m : {40, 7, 1, 12, 39}) {
      ASSERT_TRUE(make_order(name, {6, 2, m}, order).has_value());
      EXPECT_EQ(order.actions.data(), data) << name;
      EXPECT_EQ(order.actions.capacity(), capacity) << name;
    }
  }
}

TEST(Vee, RefusalsSayWhyAndHow) {
  Order order;
  const auto message = [&](std::string_view name, const Shape& s) {
    const auto done = make_order(name, s, order);
    return done ? std::string() : to_text(done.error()[0]);
  };
  EXPECT_EQ(message("zbv", {1, 2, 4}), "error: zbv needs a pipeline, but pp is 1; choose none");
  EXPECT_EQ(
      message("v-min", {4, 1, 4}),
      "error: v-min sends a micro-batch down the ranks and back up, two chunks a rank, but vpp "
      "is 1; set vpp to 2");
  EXPECT_EQ(message("v-half", {4, 3, 4}),
            "error: v-half sends a micro-batch down the ranks and back up, two chunks a rank, but "
            "vpp is 3; set vpp to 2");
}

}  // namespace
}  // namespace eratos::schedule
