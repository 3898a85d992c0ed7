#include "eratos/schedule/bounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "eratos/schedule/peak.h"
#include "schedule/cases.h"

namespace eratos::schedule {
namespace {

using testing::equal_costs;
using testing::OwnedCosts;

// The example of bounds.h.
TEST(Bounds, ByHand) {
  const Shape s{2, 1, 2};
  const Bounds b = bounds(*find("1f1b"), s, equal_costs(s, 10, 20, 3));
  EXPECT_EQ(b.lower, 96);
  EXPECT_EQ(b.upper, 108);
}

// p = 4, m = 8, F = B = 10, sends 40, overlapped. A turn from rank 1 down to rank 3 and back is
// 6 * 10 + 4 * 40 = 220 and carries 3 micro-batches: fill 50, three turns, the one backward left
// on rank 1 and the drain 50 are 770. Rank by rank there is only fill 150, work 160, drain 150.
TEST(Bounds, OneForwardOneBackwardCarriesFewMicroBatchesATurn) {
  const Shape s{4, 1, 8};
  const OwnedCosts c = equal_costs(s, 10, 10, 40);
  EXPECT_EQ(bounds(*find("1f1b"), s, c).lower, 770);
  // Down and up once, and 7 more on the slowest stage either way: 80 + 240 + 7 * 20.
  EXPECT_EQ(bounds(*find("gpipe"), s, c).lower, 460);
  Order order;
  Workspace w;
  Timing timing;
  ASSERT_TRUE(make_order("1f1b", s, order).has_value());
  ASSERT_TRUE(simulate(order, c, w, timing).has_value());
  EXPECT_EQ(timing.makespan, 860);
}

TEST(Bounds, BracketEverySmallCase) {
  Rng rng(11);
  Order order;
  Workspace w;
  Timing timing;
  testing::for_every_small_case([&](const Schedule& schedule, const Shape& s) {
    for (const Sends sends : {Sends::overlapped, Sends::blocking}) {
      for (int seed = 0; seed < 20; ++seed) {
        const OwnedCosts c = testing::random_costs(s, rng, sends);
        testing::order_of(schedule, s, c, order);
        ASSERT_TRUE(simulate(order, c, w, timing).has_value()) << testing::text(schedule, s);
        const Bounds b = bounds(schedule, s, c);
        ASSERT_LE(b.lower, timing.makespan) << testing::text(schedule, s);
        ASSERT_GE(b.upper, timing.makespan) << testing::text(schedule, s);
      }
    }
  });
}

TEST(Bounds, LowerIsExactForGpipe) {
  Rng rng(13);
  Order order;
  Workspace w;
  Timing timing;
  for (int i = 0; i < 300; ++i) {
    const Shape s{1 + static_cast<int>(rng.below(16)), 1, 1 + static_cast<int>(rng.below(64))};
    const Sends sends = i % 2 == 0 ? Sends::overlapped : Sends::blocking;
    const OwnedCosts c = testing::random_costs(s, rng, sends);
    testing::order_of(schedules::gpipe, s, c, order);
    ASSERT_TRUE(simulate(order, c, w, timing).has_value());
    ASSERT_EQ(bounds(schedules::gpipe, s, c).lower, timing.makespan) << testing::text(s);
  }
}

struct Tightness {
  std::vector<double> lower;  // over the makespan
  std::vector<double> upper;

  static double quantile(std::vector<double> v, double q) {
    std::sort(v.begin(), v.end());
    return v[static_cast<std::size_t>(q * static_cast<double>(v.size() - 1))];
  }
};

// Wider shapes than the exhaustive ones. Prints the table of docs/model/schedules.md: how tight,
// where stages are as alike as those of a real job, and where every time is drawn for itself.
TEST(Bounds, BracketRandomWideCasesAndAreTight) {
  Rng rng(12);
  Order order;
  Workspace w;
  Timing timing;
  for (const Schedule* schedule : kSchedules) {
    for (const bool alike : {true, false}) {
      Tightness tight;
      for (int i = 0; i < 400; ++i) {
        const auto s = testing::random_shape(*schedule, rng, 16, 4, 64);
        if (!s) continue;
        const Sends sends = i % 2 == 0 ? Sends::overlapped : Sends::blocking;
        OwnedCosts c = testing::random_costs(*s, rng, sends);
        if (alike) {
          // F, B and W within a tenth of 1,000, sends below a tenth.
          const auto near = [&] { return 950 + static_cast<Picoseconds>(rng.below(101)); };
          for (ChunkCost& chunk : c.chunks) {
            chunk.forward = near();
            chunk.input_gradient = near();
            chunk.weight_gradient = near();
            chunk.backward = chunk.input_gradient + chunk.weight_gradient;
          }
        }
        testing::order_of(*schedule, *s, c, order);
        ASSERT_TRUE(simulate(order, c, w, timing).has_value()) << testing::text(*schedule, *s);
        const Bounds b = bounds(*schedule, *s, c);
        ASSERT_LE(b.lower, timing.makespan) << testing::text(*schedule, *s);
        ASSERT_GE(b.upper, timing.makespan) << testing::text(*schedule, *s);
        const auto makespan = static_cast<double>(timing.makespan);
        tight.lower.push_back(static_cast<double>(b.lower) / makespan);
        tight.upper.push_back(static_cast<double>(b.upper) / makespan);
      }
      ASSERT_GT(tight.lower.size(), 200u);
      std::printf("%-17s %s lower %.3f worst %.3f upper %.2f worst %.2f\n", schedule->name.data(),
                  alike ? "alike  " : "unequal", Tightness::quantile(tight.lower, 0.5),
                  Tightness::quantile(tight.lower, 0.0), Tightness::quantile(tight.upper, 0.5),
                  Tightness::quantile(tight.upper, 1.0));
      EXPECT_GT(Tightness::quantile(tight.lower, 0.5), alike ? 0.75 : 0.4) << schedule->name;
    }
  }
}

TEST(Bounds, ExactForEqualStagesAndFreeSends) {
  for (int p = 2; p <= 8; ++p) {
    const Shape flat{p, 1, 3 * p};
    const Bounds one = bounds(*find("1f1b"), flat, equal_costs(flat, 10, 20));
    EXPECT_EQ(one.lower, (3 * p + p - 1) * 30);
    EXPECT_EQ(one.upper, one.lower);
    const Shape looped{p, 2, 3 * p};
    const Bounds two = bounds(*find("interleaved-1f1b"), looped, equal_costs(looped, 10, 20));
    EXPECT_EQ(two.lower, (6 * p + p - 1) * 30);
    EXPECT_EQ(two.upper, two.lower);
  }
}

TEST(InFlight, ClosedFormsAreExact) {
  Order order;
  Peaks peaks;
  int forms = 0;
  const auto check = [&](const Schedule& schedule, const Shape& s) {
    if (schedule.in_flight == nullptr) return;
    const OwnedCosts ones = equal_costs(s, 1, 2);
    testing::order_of(schedule, s, ones, order);
    find_peaks(order, ones.chunks, {}, peaks);
    for (int rank = 0; rank < s.pp; ++rank) {
      const auto closed = in_flight(schedule, s, rank);
      ASSERT_TRUE(closed.has_value());
      ASSERT_EQ(*closed, peaks.ranks[static_cast<std::size_t>(rank)].held)
          << testing::text(schedule, s) << " rank " << rank;
      ++forms;
    }
  };
  testing::for_every_small_case(check);
  for (const int p : {5, 8, 13}) {
    for (const int v : {2, 3, 4}) {
      for (const int group : {0, p + 2, 2 * p}) {
        for (int m = 1; m <= 4 * p; ++m) check(*find("interleaved-1f1b"), {p, v, m, group});
      }
    }
  }
  EXPECT_GT(forms, 1000);
}

TEST(InFlight, Published) {
  EXPECT_EQ(in_flight(*find("1f1b"), {8, 1, 64}, 0), 8);
  EXPECT_EQ(in_flight(*find("1f1b"), {8, 1, 64}, 7), 1);
  EXPECT_EQ(in_flight(*find("1f1b"), {8, 1, 3}, 0), 3);
  EXPECT_EQ(in_flight(*find("gpipe"), {8, 1, 64}, 3), 64);
  // 2 * 7 + 3 * 8 + 1 = 39 chunks of a quarter stage.
  EXPECT_EQ(in_flight(*find("interleaved-1f1b"), {8, 4, 64}, 0), 39);
  EXPECT_EQ(in_flight(*find("interleaved-1f1b"), {8, 4, 8}, 0), 32);
}

}  // namespace
}  // namespace eratos::schedule
