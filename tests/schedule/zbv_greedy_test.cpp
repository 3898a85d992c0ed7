// zbv-greedy: within its limits whatever they are, never waiting for itself, never worse than the
// first formatted V that fits.
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

struct Limited {
  testing::OwnedCosts costs;
  std::vector<std::int64_t> limits;

  operator Costs() const {
    Costs c = costs;
    c.limits = limits;
    return c;
  }
};

// Equal passes that hold a byte a chunk from F to W, `chunks` of them on every rank at most.
Limited equal(const Shape& s, Picoseconds f, Picoseconds b, Picoseconds w, int chunks) {
  Limited c{testing::split_costs(s, f, b, w), {}};
  for (ChunkCost& chunk : c.costs.chunks) chunk.kept = chunk.held;
  c.limits.assign(static_cast<std::size_t>(s.pp), chunks);
  return c;
}

Timing run(std::string_view name, const Shape& s, const Costs& costs) {
  Order order;
  Workspace w;
  Timing t;
  EXPECT_TRUE(make_order(*find(name), s, costs, order).has_value()) << testing::text(s);
  EXPECT_TRUE(is_complete(order)) << testing::text(s);
  EXPECT_TRUE(simulate(order, costs, w, t).has_value()) << testing::text(s);
  return t;
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

// The example of zbv_greedy.cpp.
TEST(ZbvGreedy, RoomForOneMicroBatchByHand) {
  const Shape s{2, 2, 2};
  const Limited c = equal(s, 1, 1, 1, 2);
  Order order;
  ASSERT_TRUE(make_order(*find("zbv-greedy"), s, c, order).has_value());
  EXPECT_EQ(text(order, 0), "F0.0 F0.1 B0.1 W0.1 B0.0 F1.0 W0.0 F1.1 B1.1 W1.1 B1.0 W1.0");
  EXPECT_EQ(run("zbv-greedy", s, c).makespan, 17);
}

// With zbv's memory and equal passes it is as good as zbv: no bubble but the fill.
TEST(ZbvGreedy, AsMuchMemoryAsZbvIsAsFast) {
  for (int p = 2; p <= 10; ++p) {
    const Shape s{p, 2, 3 * p};
    const Timing t = run("zbv-greedy", s, equal(s, 10, 10, 10, 2 * p));
    EXPECT_EQ(t.pitch, 10 * 6 * 3 * p);
    EXPECT_EQ(t.makespan, 10 * (6 * 3 * p + p - 1));
  }
}

// What lies between v-half's room and zbv's is used.
TEST(ZbvGreedy, UsesRoomBetweenHalfAndAll) {
  const Shape s{8, 2, 40};
  const Picoseconds half = run("v-half", s, equal(s, 10, 10, 10, 10)).makespan;
  const Picoseconds with_half = run("zbv-greedy", s, equal(s, 10, 10, 10, 10)).makespan;
  const Picoseconds between = run("zbv-greedy", s, equal(s, 10, 10, 10, 12)).makespan;
  const Picoseconds all = run("zbv-greedy", s, equal(s, 10, 10, 10, 16)).makespan;
  EXPECT_LE(with_half, half);
  EXPECT_LT(between, half);
  EXPECT_LT(all, between);
}

// Every small shape, limits from what one micro-batch needs to more than zbv holds, any times and
// bytes, W that holds more than F included.
TEST(ZbvGreedy, SmallCasesStayWithinTheirLimits) {
  Rng rng(41);
  Order order;
  Workspace w;
  Timing t;
  int refused = 0;
  int ran = 0;
  for (int p = 2; p <= 4; ++p) {
    for (int m = 1; m <= 8; ++m) {
      for (int seed = 0; seed < 40; ++seed) {
        const Shape s{p, 2, m};
        const Sends sends = seed % 2 == 0 ? Sends::overlapped : Sends::blocking;
        Limited c{testing::random_costs(s, rng, sends), {}};
        for (int r = 0; r < p; ++r) {
          c.limits.push_back(
              static_cast<std::int64_t>(500 + rng.below(seed % 4 == 0 ? 1500 : 6000)));
        }
        const Schedule& greedy = *find("zbv-greedy");
        if (refusal(greedy, s, c)) {
          ++refused;
          continue;
        }
        ++ran;
        ASSERT_TRUE(make_order(greedy, s, c, order).has_value());
        ASSERT_TRUE(is_complete(order)) << testing::text(s);
        ASSERT_TRUE(simulate(order, c, w, t).has_value()) << testing::text(s);
        for (int r = 0; r < p; ++r) {
          ASSERT_LE(t.peaks.ranks[static_cast<std::size_t>(r)].held,
                    c.limits[static_cast<std::size_t>(r)])
              << testing::text(s) << " rank " << r;
        }
        const Bounds b = bounds(greedy, s, c);
        ASSERT_LE(b.lower, t.makespan) << testing::text(s);
        ASSERT_GE(b.upper, t.makespan) << testing::text(s);
      }
    }
  }
  EXPECT_GT(refused, 50);
  EXPECT_GT(ran, 400);
}

// A formatted V that fits is a candidate, so neither the pitch nor the makespan is ever worse than
// that of the first which surely does.
TEST(ZbvGreedy, NeverWorseThanTheFirstFormattedThatFits) {
  Rng rng(42);
  int better = 0;
  for (int i = 0; i < 150; ++i) {
    const int p = 2 + static_cast<int>(rng.below(7));
    const Shape s{p, 2, 1 + static_cast<int>(rng.below(30))};
    Limited c{testing::random_costs(s, rng, Sends::overlapped), {}};
    for (ChunkCost& chunk : c.costs.chunks) chunk.held = chunk.kept = 1;
    struct {
      const char* name;
      int chunks;
    } const formatted[] = {
        {"zbv", 2 * p}, {"v-half", 2 * (p / 2 + 1)}, {"v-min", 2 * ((p + 4) / 3)}};
    for (const auto& f : formatted) {
      c.limits.assign(static_cast<std::size_t>(p), f.chunks);
      const Timing greedy = run("zbv-greedy", s, c);
      const Timing other = run(f.name, s, c);
      EXPECT_LE(greedy.pitch, other.pitch) << f.name << " " << testing::text(s);
      EXPECT_LE(greedy.makespan, other.makespan) << f.name << " " << testing::text(s);
      better += greedy.makespan < other.makespan;
    }
  }
  EXPECT_GT(better, 100);
}

// Without limits the room is 2 p of the largest chunk, as zbv needs when all are alike.
TEST(ZbvGreedy, WithoutLimitsItHoldsNoMoreThanZbv) {
  const Shape s{5, 2, 17};
  Limited c = equal(s, 10, 14, 8, 10);
  const Timing with = run("zbv-greedy", s, c);
  c.limits.clear();
  const Timing without = run("zbv-greedy", s, c);
  EXPECT_EQ(with.makespan, without.makespan);
  for (const RankPeak& rank : without.peaks.ranks) EXPECT_LE(rank.held, 10);
}

TEST(ZbvGreedy, SameInputSameOrder) {
  Rng rng(43);
  const Shape s{6, 2, 19};
  const testing::OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
  Order first;
  Order second;
  ASSERT_TRUE(make_order(*find("zbv-greedy"), s, c, first).has_value());
  ASSERT_TRUE(make_order(*find("zbv-greedy"), s, c, second).has_value());
  EXPECT_EQ(first.actions, second.actions);
}

TEST(ZbvGreedy, RefusalsSayWhyAndHow) {
  Order order;
  const Shape s{4, 2, 8};
  Limited c = equal(s, 1, 1, 1, 2);
  c.limits[2] = 1;
  const auto done = make_order(*find("zbv-greedy"), s, c, order);
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(to_text(done.error()[0]),
            "error: rank 2 may hold 1 bytes of activations, but one micro-batch takes 2 in its two "
            "chunks; raise the limit, or lower what a micro-batch holds: batch.micro, or recompute "
            "with interleaved-1f1b");
  EXPECT_EQ(done.error()[0].field, "schedule.activation_limit");
}

}  // namespace
}  // namespace eratos::schedule
