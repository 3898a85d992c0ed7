// Looped breadth-first: Lamy-Poirier, "Breadth-First Pipeline Parallelism", arXiv 2211.05953.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "eratos/schedule/bounds.h"
#include "eratos/schedule/peak.h"
#include "eratos/schedule/registry.h"
#include "schedule/cases.h"

namespace eratos::schedule {
namespace {

using testing::OwnedCosts;

const Schedule& bfs() { return *find("looped-bfs"); }

// The example of looped_bfs.cpp.
TEST(LoopedBfs, ByHand) {
  Order order;
  ASSERT_TRUE(make_order("looped-bfs", {2, 2, 2}, order).has_value());
  for (int rank = 0; rank < 2; ++rank) {
    std::string out;
    for (const Action& a : order.of(rank)) {
      out += (a.kind == Kind::forward ? " F" : " B") + std::to_string(a.micro_batch) + "." +
             std::to_string(a.chunk);
    }
    EXPECT_EQ(out, " F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0");
  }
}

TEST(LoopedBfs, WithOneChunkItIsGpipe) {
  Order one;
  Order gpipe;
  for (int p = 1; p <= 5; ++p) {
    for (int m = 1; m <= 9; ++m) {
      ASSERT_TRUE(make_order("looped-bfs", {p, 1, m}, one).has_value());
      ASSERT_TRUE(make_order("gpipe", {p, 1, m}, gpipe).has_value());
      EXPECT_EQ(one.actions, gpipe.actions);
    }
  }
}

// Section 3: the bubble of the pipeline's ends shrinks with the number of loops: p - 1 forwards and
// backwards of one chunk. A chunk of fewer micro-batches than ranks waits for its first one to come
// round.
TEST(LoopedBfs, BubbleWithEqualStages) {
  Order order;
  Workspace w;
  Timing timing;
  for (int p = 1; p <= 6; ++p) {
    for (int v = 1; v <= 4; ++v) {
      for (int m = 1; m <= 2 * p + 1; ++m) {
        const Shape s{p, v, m};
        const OwnedCosts c = testing::equal_costs(s, 7, 13);
        ASSERT_TRUE(make_order("looped-bfs", s, order).has_value());
        ASSERT_TRUE(simulate(order, c, w, timing).has_value());
        if (m >= p) {
          EXPECT_EQ(timing.makespan, (v * m + p - 1) * (7 + 13));
        } else {
          EXPECT_EQ(timing.makespan, (v * p + m - 1) * (7 + 13));
        }
        EXPECT_EQ(bounds(bfs(), s, c).lower, timing.makespan);
        EXPECT_EQ(bounds(bfs(), s, c).upper, timing.makespan);
      }
    }
  }
}

// lower is more than a bound: with overlapped sends it is the makespan, whatever the stages.
TEST(LoopedBfs, LowerBoundIsTheMakespanWithOverlappedSends) {
  Rng rng(31);
  Order order;
  Workspace w;
  Timing timing;
  for (int i = 0; i < 3000; ++i) {
    const Shape s{1 + static_cast<int>(rng.below(9)), 1 + static_cast<int>(rng.below(5)),
                  1 + static_cast<int>(rng.below(20))};
    const OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
    ASSERT_TRUE(make_order("looped-bfs", s, order).has_value());
    ASSERT_TRUE(simulate(order, c, w, timing).has_value());
    ASSERT_EQ(bounds(bfs(), s, c).lower, timing.makespan) << testing::text(s);
  }
}

// Everything is held when the last forward runs; chunks that hold nothing move the moment.
TEST(LoopedBfs, PeakWithoutAnOrder) {
  Rng rng(32);
  Order order;
  Order scratch;
  Peaks whole;
  Peaks closed;
  for (int i = 0; i < 500; ++i) {
    const Shape s{1 + static_cast<int>(rng.below(4)), 1 + static_cast<int>(rng.below(4)),
                  1 + static_cast<int>(rng.below(9))};
    OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
    for (ChunkCost& chunk : c.chunks) {
      if (rng.below(3) == 0) chunk.held = 0;
    }
    ASSERT_TRUE(make_order("looped-bfs", s, order).has_value());
    find_peaks(order, c.chunks, {}, whole);
    ASSERT_TRUE(find_peaks(bfs(), s, c, scratch, closed).has_value());
    for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank) {
      ASSERT_EQ(closed.ranks[rank].held, whole.ranks[rank].held) << testing::text(s);
      ASSERT_EQ(closed.ranks[rank].peak_at, whole.ranks[rank].peak_at) << testing::text(s);
    }
    ASSERT_EQ(closed.in_flight, whole.in_flight) << testing::text(s);
  }
  EXPECT_EQ(in_flight(bfs(), {4, 3, 8}, 2), 24);
}

TEST(LoopedBfs, RefusesGroupsSmallerThanTheStep) {
  EXPECT_FALSE(refusal(bfs(), {2, 2, 4, 0}));
  EXPECT_FALSE(refusal(bfs(), {2, 2, 4, 4}));
  EXPECT_FALSE(refusal(bfs(), {2, 1, 4, 2}));
  const auto why = refusal(bfs(), {2, 2, 4, 2});
  ASSERT_TRUE(why.has_value());
  EXPECT_EQ(
      to_text(*why),
      "error: looped-bfs runs all 4 micro-batches of a chunk in one go, but the group size is 2; "
      "leave it out, or choose interleaved-1f1b");
  EXPECT_EQ(why->field, "schedule.group_size");
}

}  // namespace
}  // namespace eratos::schedule
