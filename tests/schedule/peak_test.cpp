#include "eratos/schedule/peak.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "eratos/schedule/simulate.h"
#include "schedule/cases.h"
#include "schedule/slow_oracle.h"

namespace eratos::schedule {
namespace {

using testing::OwnedCosts;

void expect_agreement(const Order& order, const OwnedCosts& c) {
  Peaks peaks;
  find_peaks(order, c.chunks, c.outputs, peaks);
  const auto v = static_cast<std::size_t>(order.shape.chunks);
  for (int rank = 0; rank < order.shape.pp; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const testing::SlowPeak slow = testing::slow_peak(order, rank, c);
    ASSERT_EQ(peaks.ranks[r].held, slow.held) << rank;
    ASSERT_EQ(peaks.ranks[r].peak_at, slow.peak_at) << rank;
    for (std::size_t chunk = 0; chunk < v; ++chunk) {
      ASSERT_EQ(peaks.in_flight[r * v + chunk], slow.in_flight[chunk]) << rank;
      ASSERT_EQ(peaks.waiting[r * v + chunk], slow.waiting[chunk]) << rank;
    }
    ASSERT_EQ(peaks.outputs[r], slow.outputs) << rank;
  }
}

TEST(Peaks, AgreeWithTheSlowCountOnEverySmallCase) {
  Rng rng(8);
  Order order;
  testing::for_every_small_case([&](const Schedule& schedule, const Shape& s) {
    SCOPED_TRACE(testing::text(schedule, s));
    for (int seed = 0; seed < 3; ++seed) {
      const OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
      testing::order_of(schedule, s, c, order);
      ASSERT_NO_FATAL_FAILURE(expect_agreement(order, c));
    }
  });
}

TEST(Peaks, AgreeWithTheSlowCountOnRandomOrders) {
  Rng rng(9);
  testing::for_random_orders(rng, 150, [&](const Order& order) {
    SCOPED_TRACE(testing::text(order.shape));
    ASSERT_NO_FATAL_FAILURE(
        expect_agreement(order, testing::random_costs(order.shape, rng, Sends::overlapped)));
  });
}

// 10 bytes from F to the end of B, then 4 to the end of W; 3 from S to T.
//   F0 10   F1 20   B0 20, then 14   F2 24   W0 24, then 20
TEST(Peaks, SplitBackwardByHand) {
  Order order;
  begin_order({1, 1, 3}, Placement::looped, order);
  order.actions = {{0, 0, Kind::forward},         {1, 0, Kind::forward},
                   {0, 0, Kind::input_gradient},  {2, 0, Kind::forward},
                   {0, 0, Kind::weight_gradient}, {1, 0, Kind::backward},
                   {2, 0, Kind::backward}};
  end_rank(order);
  ASSERT_TRUE(is_complete(order));
  Peaks peaks;
  find_peaks(order, std::vector<ChunkCost>{{.held = 10, .kept = 4}}, {}, peaks);
  EXPECT_EQ(peaks.ranks[0].held, 24);
  EXPECT_EQ(peaks.ranks[0].peak_at, 3);
  EXPECT_EQ(peaks.in_flight[0], 2);
  EXPECT_EQ(peaks.waiting[0], 1);
  // What W keeps is more than B gives back: the peak is the end of B0, at 10 + 15.
  order.actions[3].micro_batch = 0;
  order.actions[3].kind = Kind::weight_gradient;
  order.actions[4] = {2, 0, Kind::forward};
  find_peaks(order, std::vector<ChunkCost>{{.held = 10, .kept = 15}}, {}, peaks);
  EXPECT_EQ(peaks.ranks[0].held, 25);
  EXPECT_EQ(peaks.ranks[0].peak_at, 2);
  EXPECT_EQ(peaks.in_flight[0], 1);
  EXPECT_EQ(peaks.waiting[0], 1);
}

TEST(Peaks, TheCurveReachesThePeakAndEndsEmpty) {
  Rng rng(10);
  Workspace w;
  Timing timing;
  std::vector<Interval> timeline;
  testing::for_random_orders(rng, 60, [&](const Order& order) {
    const OwnedCosts c = testing::random_costs(order.shape, rng, Sends::overlapped);
    ASSERT_TRUE(simulate(order, c, w, timing, &timeline).has_value());
    for (int rank = 0; rank < order.shape.pp; ++rank) {
      const std::vector<Level> curve = memory_curve(order, rank, c, timeline);
      std::int64_t most = 0;
      for (std::size_t i = 0; i < curve.size(); ++i) {
        most = std::max(most, curve[i].bytes);
        if (i > 0) {
          ASSERT_LT(curve[i - 1].time, curve[i].time);
        }
      }
      ASSERT_EQ(most, timing.peaks.ranks[static_cast<std::size_t>(rank)].held);
      if (!curve.empty()) {
        ASSERT_EQ(curve.back().bytes, 0);
      }
    }
  });
}

// The short order has the same peak, bytes and counts, whatever the chunks hold.
TEST(Peaks, FewerMicroBatchesGiveTheSamePeak) {
  Rng rng(5);
  Order order;
  Order scratch;
  Peaks whole;
  Peaks quick;
  for (const Schedule* schedule : kSchedules) {
    int cases = 0;
    for (int i = 0; i < 1000; ++i) {
      const auto s = testing::random_shape(*schedule, rng, 9, 4, 150);
      if (!s) continue;
      SCOPED_TRACE(testing::text(*schedule, *s));
      const OwnedCosts c = testing::random_costs(*s, rng, Sends::overlapped);
      testing::order_of(*schedule, *s, c, order);
      find_peaks(order, c.chunks, c.outputs, whole);
      ASSERT_TRUE(find_peaks(*schedule, *s, c, scratch, quick).has_value());
      for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank) {
        ASSERT_EQ(whole.ranks[rank].held, quick.ranks[rank].held) << rank;
      }
      ASSERT_EQ(whole.in_flight, quick.in_flight);
      ASSERT_EQ(whole.waiting, quick.waiting);
      ASSERT_EQ(whole.outputs, quick.outputs);
      const bool walked_whole = schedule->micro_batches_for_peak == nullptr ||
                                schedule->micro_batches_for_peak(*s) == s->micro_batches;
      for (std::size_t rank = 0; rank < whole.ranks.size(); ++rank) {
        ASSERT_LE(quick.ranks[rank].peak_at, whole.ranks[rank].peak_at);
        if (walked_whole) {
          ASSERT_EQ(quick.ranks[rank].peak_at, whole.ranks[rank].peak_at);
        }
      }
      ++cases;
    }
    EXPECT_GT(cases, 500) << schedule->name;
  }
  Peaks refused;
  EXPECT_FALSE(find_peaks(*find("none"), {2, 1, 1}, {}, scratch, refused).has_value());
}

}  // namespace
}  // namespace eratos::schedule
