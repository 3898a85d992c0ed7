#include "eratos/schedule/steady.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include "schedule/cases.h"

namespace eratos::schedule {
namespace {

using testing::OwnedCosts;

void expect_same(const Timing& fast, const Timing& whole) {
  ASSERT_EQ(fast.makespan, whole.makespan);
  ASSERT_EQ(fast.pitch, whole.pitch);
  ASSERT_EQ(fast.critical_rank, whole.critical_rank);
  ASSERT_EQ(fast.ranks.size(), whole.ranks.size());
  for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank) {
    const RankTime& a = fast.ranks[rank];
    const RankTime& b = whole.ranks[rank];
    ASSERT_EQ(a.busy, b.busy) << rank;
    ASSERT_EQ(a.transfer, b.transfer) << rank;
    ASSERT_EQ(a.idle, b.idle) << rank;
    ASSERT_EQ(a.first_start, b.first_start) << rank;
    ASSERT_EQ(a.last_end, b.last_end) << rank;
    ASSERT_EQ(fast.peaks.ranks[rank].held, whole.peaks.ranks[rank].held) << rank;
    ASSERT_EQ(fast.peaks.ranks[rank].peak_at, whole.peaks.ranks[rank].peak_at) << rank;
  }
  ASSERT_EQ(fast.peaks.in_flight, whole.peaks.in_flight);
  ASSERT_EQ(fast.peaks.waiting, whole.peaks.waiting);
  ASSERT_EQ(fast.peaks.outputs, whole.peaks.outputs);
}

struct Both {
  Order scratch;
  Order order;
  Workspace fast_workspace;
  Workspace workspace;
  Timing fast;
  Timing whole;

  // Whether the fast path left a shorter order behind, so did not walk the whole.
  void compare(const Schedule& schedule, const Shape& s, const Costs& c, bool& skipped) {
    ASSERT_TRUE(simulate_fast(schedule, s, c, scratch, fast_workspace, fast).has_value());
    testing::order_of(schedule, s, c, order);
    ASSERT_TRUE(simulate(order, c, workspace, whole).has_value());
    ASSERT_NO_FATAL_FAILURE(expect_same(fast, whole));
    skipped = scratch.shape.micro_batches < s.micro_batches;
  }
};

TEST(Steady, EqualsTheOracleOnEverySmallCase) {
  Rng rng(21);
  Both both;
  int skips = 0;
  testing::for_every_small_case([&](const Schedule& schedule, const Shape& s) {
    for (const Sends sends : {Sends::overlapped, Sends::blocking}) {
      for (int seed = 0; seed < 6; ++seed) {
        SCOPED_TRACE(testing::text(schedule, s));
        bool skipped = false;
        const OwnedCosts c = testing::random_costs(s, rng, sends);
        ASSERT_NO_FATAL_FAILURE(both.compare(schedule, s, c, skipped));
        skips += skipped;
      }
    }
  });
  EXPECT_GT(skips, 50);
}

TEST(Steady, EqualsTheOracleOnRandomWideCases) {
  Rng rng(22);
  Both both;
  for (const Schedule* schedule : kSchedules) {
    int skips = 0;
    for (int i = 0; i < 300; ++i) {
      const auto s = testing::random_shape(*schedule, rng, 16, 4, 300);
      if (!s) continue;
      SCOPED_TRACE(testing::text(*schedule, *s));
      OwnedCosts c =
          testing::random_costs(*s, rng, i % 2 == 0 ? Sends::overlapped : Sends::blocking);
      // Small and equal times settle soon; large unequal ones late, or never.
      if (i % 3 == 0) c = testing::equal_costs(*s, 7, 13, i % 5, c.sends);
      if (i % 3 == 1) {
        for (ChunkCost& chunk : c.chunks) {
          chunk.forward = 1000 + chunk.forward % 3;
          chunk.backward = 2000 + chunk.backward % 3;
        }
      }
      bool skipped = false;
      ASSERT_NO_FATAL_FAILURE(both.compare(*schedule, *s, c, skipped));
      skips += skipped;
    }
    std::printf("%s: %d orders were shorter\n", schedule->name.data(), skips);
    EXPECT_EQ(schedule->period != nullptr, skips > 50) << schedule->name;
  }
}

bool is_later(const Action& a, const Action& b, int shift) {
  return Action{a.micro_batch + shift, a.chunk, a.kind, a.with_next} == b;
}

// From where on, seen from its middle, a rank's order is the same `length` actions later; -1 if not
// for a turn and a half.
std::int64_t start_of_turns(std::span<const Action> a, std::size_t length, int shift) {
  std::size_t low = a.size() / 2;
  std::size_t high = low;
  while (low > 0 && low - 1 + length < a.size() &&
         is_later(a[low - 1], a[low - 1 + length], shift)) {
    --low;
  }
  while (high + length < a.size() && is_later(a[high], a[high + length], shift)) ++high;
  return 2 * (high - low) < length ? -1 : static_cast<std::int64_t>(low);
}

// The promise of Schedule::period: if the order of m repeats itself on every rank, that of one
// period more has one turn more there.
TEST(Steady, OnePeriodMoreIsOneTurnMore) {
  Rng rng(23);
  Order before;
  Order after;
  for (const Schedule* schedule : kSchedules) {
    if (schedule->period == nullptr) continue;
    int seen = 0;
    for (int i = 0; i < 1000; ++i) {
      const auto drawn = testing::random_shape(*schedule, rng, 24, 4, 120);
      if (!drawn || drawn->micro_batches < fewest_for_turns(*schedule, *drawn)) continue;
      Shape s = *drawn;
      const int period = schedule->period(s);
      const int shift = period / copies_of(schedule->placement);
      const OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
      testing::order_of(*schedule, s, c, before);
      s.micro_batches += period;
      testing::order_of(*schedule, s, c, after);
      bool repeats = true;
      for (int rank = 0; rank < s.pp; ++rank) {
        const std::size_t length = after.of(rank).size() - before.of(rank).size();
        repeats &= start_of_turns(before.of(rank), length, shift) >= 0;
      }
      if (!repeats) continue;
      ++seen;
      for (int rank = 0; rank < s.pp; ++rank) {
        const auto a = before.of(rank);
        const auto b = after.of(rank);
        const std::size_t length = b.size() - a.size();
        const auto put = static_cast<std::size_t>(start_of_turns(a, length, shift)) + length;
        for (std::size_t at = 0; at < b.size(); ++at) {
          const bool same = at < put ? a[at] == b[at] : is_later(a[at - length], b[at], shift);
          ASSERT_TRUE(same) << testing::text(*schedule, *drawn) << " rank " << rank << " action "
                            << at;
        }
      }
    }
    EXPECT_GT(seen, 200) << schedule->name;
  }
}

// Two stages in a loop with long sends come back to where they were only every second turn.
TEST(Steady, CyclesOfSeveralTurns) {
  const Shape s{4, 1, 1000};
  Rng rng(24);
  Both both;
  for (int seed = 0; seed < 50; ++seed) {
    OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
    for (LinkCost& link : c.links) link = {200 + static_cast<Picoseconds>(rng.below(50)), 200};
    bool skipped = false;
    ASSERT_NO_FATAL_FAILURE(both.compare(schedules::one_f_one_b, s, c, skipped));
    EXPECT_TRUE(skipped);
  }
}

TEST(Steady, RefusesWhatTheScheduleRefuses) {
  Order order;
  Workspace w;
  Timing timing;
  const Shape s{4, 2, 100};
  const OwnedCosts c = testing::equal_costs(s, 1, 2);
  EXPECT_FALSE(simulate_fast(schedules::one_f_one_b, s, c, order, w, timing).has_value());
}

}  // namespace
}  // namespace eratos::schedule
