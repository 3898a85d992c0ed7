#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "eratos/schedule/bounds.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"
#include "schedule/cases.h"

namespace eratos::schedule {
namespace {

using testing::OwnedCosts;

const Schedule* const kBoth[] = {&schedules::dualpipe, &schedules::dualpipev};

Shape shape(int p, int m) { return {.pp = p, .chunks = 2, .micro_batches = m}; }

// Ranks of a half, and micro-batches in one.
int depth(const Schedule& schedule, const Shape& s) {
  return schedule.placement == Placement::bidirectional ? s.pp / 2 : s.pp;
}
int in_a_half(const Schedule& schedule, const Shape& s) {
  return micro_batches_of(s, schedule.placement);
}

std::string text(const Order& order, int rank) {
  const char* const letters[] = {"F", "BW", "B", "W"};
  std::string out;
  for (const Action& a : order.of(rank)) {
    out += (out.empty() ? "" : " ") + std::string(letters[static_cast<int>(a.kind)]) +
           std::to_string(a.micro_batch) + "." + std::to_string(a.chunk) +
           (a.with_next ? " &" : "");
  }
  return out;
}

std::string message(const Schedule& schedule, const Shape& s) {
  const auto why = refusal(schedule, s);
  return why ? to_text(*why) : "";
}

TEST(DualPipe, TwoRanksByHand) {
  Order o;
  schedules::dualpipe.generate(shape(2, 4), o);
  EXPECT_EQ(text(o, 0), "F0.0 F0.1 F1.0 BW0.1 F1.1 & BW0.0 BW1.1 B1.0 W1.0");
  EXPECT_EQ(text(o, 1), "F0.1 F0.0 F1.1 BW0.0 F1.0 & BW0.1 BW1.0 B1.1 W1.1");
}

// Every step is there on rank 0: two F0; one F0 F1; one B* W F1; one turn of pairs; one B F & B;
// one pair of backwards whose second is B*; one W B*; one W.
TEST(DualPipe, VByHand) {
  Order o;
  schedules::dualpipev.generate(shape(2, 4), o);
  EXPECT_EQ(text(o, 0),
            "F0.0 F1.0 F2.0 F0.1 B0.1 W0.1 F1.1 F3.0 & BW1.1 F2.1 & BW0.0 BW2.1 F3.1 & BW1.0 "
            "BW3.1 B2.0 W2.0 B3.0 W3.0");
  EXPECT_EQ(text(o, 1),
            "F0.0 F0.1 F1.0 F1.1 F2.0 BW0.1 F2.1 & BW0.0 F3.0 & BW1.1 F3.1 & BW1.0 BW2.1 BW2.0 "
            "B3.1 B3.0 W3.1 W3.0");
}

TEST(DualPipe, RefusalsSayWhyAndHow) {
  const Schedule& dual = schedules::dualpipe;
  EXPECT_EQ(
      message(dual, shape(3, 12)),
      "error: dualpipe joins two pipelines in the middle of an even number of ranks, but pp is "
      "3; make pp even, or choose dualpipev");
  EXPECT_EQ(message(dual, {.pp = 4, .micro_batches = 8}),
            "error: dualpipe keeps two chunks a rank, one of each copy of the model, but is asked "
            "for 1; leave vpp out");
  EXPECT_EQ(
      message(dual, shape(4, 9)),
      "error: dualpipe needs an even number of micro-batches, at least 2 pp = 8, but there are "
      "9; raise the global batch, or choose 1f1b");
  EXPECT_EQ(
      message(dual, shape(4, 6)),
      "error: dualpipe needs an even number of micro-batches, at least 2 pp = 8, but there are "
      "6; raise the global batch, or choose 1f1b");
  EXPECT_EQ(message(dual, shape(4, 8)), "");
  const Schedule& vee = schedules::dualpipev;
  EXPECT_EQ(message(vee, shape(1, 4)),
            "error: dualpipev needs a pipeline, but pp is 1; choose none");
  EXPECT_EQ(
      message(vee, {.pp = 4, .micro_batches = 8}),
      "error: dualpipev sends a micro-batch down the ranks and back up, two chunks a rank, but "
      "vpp is 1; set vpp to 2");
  EXPECT_EQ(message(vee, shape(4, 7)),
            "error: dualpipev needs at least 2 pp = 8 micro-batches, but there are 7; raise the "
            "global batch, or choose zbv");
  EXPECT_EQ(message(vee, shape(3, 7)), "");
}

// The table of DeepSeek's README, which counts pipeline stages, PP of them; DualPipe runs them on
// PP ranks and holds each twice, DualPipeV on PP / 2 ranks, two stages each and each once. Peak: PP
// + 1 micro-batches of one stage on every rank. Bubble: (PP/2 - 1)(F&B + B - 3W), B the whole
// backward.
TEST(DualPipe, PublishedTable) {
  Order order;
  Workspace w;
  Timing timing;
  for (const Schedule* schedule : kBoth) {
    for (const int stages : {4, 6, 8, 16, 32}) {
      const int p = schedule == &schedules::dualpipe ? stages : stages / 2;
      ASSERT_EQ(stage_count(shape(p, 0), schedule->placement), stages);
      for (const int m : {2 * p, 2 * p + 2, 6 * p}) {
        const Shape s = shape(p, m);
        // F = B = W, as the README's picture draws them.
        const OwnedCosts c = testing::split_costs(s, 10, 10, 10);
        schedule->generate(s, order);
        ASSERT_TRUE(simulate(order, c, w, timing).has_value());
        const Picoseconds bubble = (stages / 2 - 1) * ((10 + 20) + 20 - 3 * 10);
        for (int r = 0; r < p; ++r) {
          const auto i = static_cast<std::size_t>(r);
          EXPECT_EQ(timing.ranks[i].idle, bubble) << testing::text(*schedule, s);
          EXPECT_EQ(timing.peaks.ranks[i].held, stages + 1) << testing::text(*schedule, s);
          EXPECT_EQ(in_flight(*schedule, s, r), stages + 1);
        }
        EXPECT_EQ(timing.makespan, 2 * in_a_half(*schedule, s) * 30 + bubble);
      }
    }
  }
}

// With something to hide a pair takes less than its two passes. The formula is that of the ranks
// where the halves meet; a rank further out runs one pair less, both passes one after the other,
// and so much less of the same makespan is idle.
TEST(DualPipe, PublishedBubbleWithPairs) {
  Order order;
  Workspace w;
  Timing timing;
  for (const Schedule* schedule : kBoth) {
    for (const int h : {2, 3, 4, 8}) {
      const int p = schedule == &schedules::dualpipe ? 2 * h : h;
      const Shape s = shape(p, 4 * p);
      OwnedCosts c = testing::split_costs(s, 10, 10, 10);
      for (ChunkCost& chunk : c.chunks) {
        chunk.forward_hideable = 3;
        chunk.backward_hideable = 4;
      }
      const Picoseconds pair = together(10, 3, 20, 4);
      ASSERT_EQ(pair, 23);
      schedule->generate(s, order);
      ASSERT_TRUE(simulate(order, c, w, timing).has_value());
      const Picoseconds bubble = (h - 1) * (pair + 20 - 3 * 10);
      for (int rank = 0; rank < p; ++rank) {
        const int r = schedule == &schedules::dualpipe ? std::min(rank, p - 1 - rank) : rank;
        const int fewer = std::max(0, h - 2 - r);
        EXPECT_EQ(timing.ranks[static_cast<std::size_t>(rank)].idle, bubble - fewer * (30 - pair))
            << testing::text(*schedule, s) << " rank " << rank;
      }
    }
  }
}

// Where README and simulation part: with F 10, B 13, W 7 the formula says 29 for four stages, but
// no rank waits longer than 26. What it subtracts, 3 W, is time that W fills only if F and B are no
// longer than W.
TEST(DualPipe, PublishedBubbleIsNotExactForUnequalPasses) {
  Order order;
  Workspace w;
  Timing timing;
  const Shape s = shape(4, 16);
  schedules::dualpipe.generate(s, order);
  ASSERT_TRUE(simulate(order, testing::split_costs(s, 10, 13, 7), w, timing).has_value());
  EXPECT_EQ((10 + 20) + 20 - 3 * 7, 29);
  EXPECT_EQ(timing.ranks[0].idle, 26);
}

TEST(DualPipe, ParametersTwiceOrOnce) {
  const Shape s = shape(8, 16);
  for (const Schedule* schedule : kBoth) {
    std::vector<int> held(static_cast<std::size_t>(stage_count(s, schedule->placement)), 0);
    for (int rank = 0; rank < s.pp; ++rank) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        ++held[static_cast<std::size_t>(stage_of(s, schedule->placement, rank, chunk))];
      }
    }
    const int copies = schedule == &schedules::dualpipe ? 2 : 1;
    EXPECT_EQ(held, std::vector<int>(static_cast<std::size_t>(2 * s.pp / copies), copies));
  }
}

TEST(DualPipe, CompletesInsideItsBoundsForAnyTimes) {
  Rng rng(41);
  Order order;
  Order scratch;
  Workspace w;
  Timing timing;
  Peaks fewer;
  int cases = 0;
  for (const Schedule* schedule : kBoth) {
    for (int p = 2; p <= 9; ++p) {
      for (int m = 2 * p; m <= 4 * p + 1; ++m) {
        const Shape s = shape(p, m);
        if (refusal(*schedule, s)) continue;
        ++cases;
        schedule->generate(s, order);
        ASSERT_TRUE(is_complete(order)) << testing::text(*schedule, s);
        for (const Sends sends : {Sends::overlapped, Sends::blocking}) {
          for (int seed = 0; seed < 8; ++seed) {
            const OwnedCosts c = testing::random_costs(s, rng, sends);
            ASSERT_TRUE(simulate(order, c, w, timing).has_value()) << testing::text(*schedule, s);
            const Bounds b = bounds(*schedule, s, c);
            EXPECT_LE(b.lower, timing.makespan) << testing::text(*schedule, s);
            EXPECT_GE(b.upper, timing.makespan) << testing::text(*schedule, s);
            ASSERT_TRUE(find_peaks(*schedule, s, c, scratch, fewer).has_value());
            for (int r = 0; r < p; ++r) {
              const auto i = static_cast<std::size_t>(r);
              EXPECT_EQ(fewer.ranks[i].held, timing.peaks.ranks[i].held);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(cases, 100);
}

// For equal stages, however a backward splits, and whatever pairs hide.
TEST(DualPipe, UpperBoundOfEqualStages) {
  Order order;
  Workspace w;
  Timing timing;
  double tightest = 2;
  for (const Schedule* schedule : kBoth) {
    for (const int p : {2, 4, 6, 10, 16}) {
      const Shape s = shape(p, 4 * p);
      schedule->generate(s, order);
      for (const Picoseconds f : {1, 7, 10, 13, 40}) {
        for (const Picoseconds bw : {1, 6, 10, 20, 33, 90}) {
          const Picoseconds upper = schedule->upper_equal(s, f, bw);
          for (Picoseconds b = 0; b <= bw; b += std::max<Picoseconds>(1, bw / 6)) {
            const OwnedCosts c = testing::split_costs(s, f, b, bw - b);
            ASSERT_TRUE(simulate(order, c, w, timing).has_value());
            EXPECT_LE(timing.makespan, upper)
                << testing::text(*schedule, s) << " F " << f << " BW " << bw << " B " << b;
            tightest = std::min(tightest,
                                static_cast<double>(upper) / static_cast<double>(timing.makespan));
          }
        }
      }
    }
  }
  EXPECT_LT(tightest, 1.001);
}

// Two ranks that send for nothing never wait, pairs or not: the lower bound is then the makespan.
TEST(DualPipe, LowerBoundKnowsThePairs) {
  Rng rng(42);
  Order order;
  Workspace w;
  Timing timing;
  for (int m = 4; m <= 20; m += 2) {
    const Shape s = shape(2, m);
    OwnedCosts c = testing::split_costs(s, 10, 10, 10);
    for (ChunkCost& chunk : c.chunks) {
      chunk.forward_hideable = static_cast<Picoseconds>(rng.below(11));
      chunk.backward_hideable = static_cast<Picoseconds>(rng.below(21));
    }
    // Both directions alike, so that neither rank waits for the other.
    c.chunks[3] = c.chunks[0];
    c.chunks[2] = c.chunks[1];
    schedules::dualpipe.generate(s, order);
    ASSERT_TRUE(simulate(order, c, w, timing).has_value());
    EXPECT_EQ(bounds(schedules::dualpipe, s, c).lower, timing.makespan) << m;
  }
}

// Schedule::period: one turn of step 4 more, four passes.
TEST(DualPipe, OneMorePeriodIsOneMoreTurn) {
  Order small;
  Order large;
  for (const Schedule* schedule : kBoth) {
    for (const int p : {2, 4, 8}) {
      const Shape s = shape(p, 3 * p);
      Shape more = s;
      more.micro_batches += schedule->period(s);
      schedule->generate(s, small);
      schedule->generate(more, large);
      const int h = depth(*schedule, s);
      for (int rank = 0; rank < p; ++rank) {
        const auto a = small.of(rank);
        const auto b = large.of(rank);
        ASSERT_EQ(b.size(), a.size() + 4);
        // Steps 1 to 3 and the first turn of step 4.
        const int r = schedule == &schedules::dualpipe ? std::min(rank, p - 1 - rank) : rank;
        const auto before =
            static_cast<std::size_t>(2 * (h - r - 1) + 2 * (r + 1) + 3 * (h - r - 1) + 4);
        for (std::size_t i = 0; i < before; ++i) EXPECT_EQ(b[i], a[i]);
        for (std::size_t i = before; i < a.size(); ++i) {
          Action later = a[i];
          ++later.micro_batch;
          EXPECT_EQ(b[i + 4], later) << testing::text(*schedule, s) << " rank " << rank;
        }
      }
    }
  }
}

// W comes in the order of its B*, and none is left over.
TEST(DualPipe, WeightGradientsAreAQueue) {
  Order order;
  for (const Schedule* schedule : kBoth) {
    const Shape s = shape(8, 20);
    schedule->generate(s, order);
    for (int rank = 0; rank < s.pp; ++rank) {
      std::vector<std::pair<int, int>> begun;
      std::vector<std::pair<int, int>> ended;
      for (const Action& a : order.of(rank)) {
        if (a.kind == Kind::input_gradient) begun.emplace_back(a.chunk, a.micro_batch);
        if (a.kind == Kind::weight_gradient) ended.emplace_back(a.chunk, a.micro_batch);
      }
      EXPECT_EQ(begun, ended);
      // h - r - 1 of step 3, r + 1 of step 6, h - r - 1 of step 7.
      const int h = depth(*schedule, s);
      const int r = schedule == &schedules::dualpipe ? std::min(rank, s.pp - 1 - rank) : rank;
      EXPECT_EQ(begun.size(), static_cast<std::size_t>(2 * h - r - 1));
    }
  }
}

}  // namespace
}  // namespace eratos::schedule
