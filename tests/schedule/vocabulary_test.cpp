#include "eratos/schedule/vocabulary.h"

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

using testing::equal_costs;
using testing::OwnedCosts;

constexpr OutputLayer kCut[] = {OutputLayer::two_barriers, OutputLayer::one_barrier,
                                OutputLayer::interlaced};

const Schedule& flat() { return schedules::one_f_one_b; }

Shape cut(int p, int m, OutputLayer output) {
  return {.pp = p, .micro_batches = m, .output = output};
}

std::string text(const Order& order, int rank) {
  const char* const letters[] = {"F", "BW", "B", "W", "S", "T"};
  std::string out;
  for (const Action& a : order.of(rank)) {
    out += (out.empty() ? "" : " ") + std::string(letters[static_cast<int>(a.kind)]) +
           std::to_string(a.micro_batch);
  }
  return out;
}

Order drawn_for_twice(const Shape& s) {
  Order order;
  EXPECT_TRUE(make_order(flat(), s, order).has_value());
  return order;
}

struct Ran {
  Order order;
  Timing timing;
  std::vector<Interval> timeline;
};
Ran run(const Shape& s, const OwnedCosts& costs) {
  Ran r;
  Workspace w;
  EXPECT_TRUE(make_order(flat(), s, costs, r.order).has_value());
  EXPECT_TRUE(is_complete(r.order)) << testing::text(s);
  const auto done = simulate(r.order, costs, w, r.timing, &r.timeline);
  EXPECT_TRUE(done.has_value()) << testing::text(s);
  return r;
}

OwnedCosts with_output(const Shape& s, Picoseconds f, Picoseconds bw, Picoseconds output,
                       Picoseconds gradient) {
  OwnedCosts c = equal_costs(s, f, bw);
  c.outputs.assign(static_cast<std::size_t>(s.pp), {output, gradient, 0});
  return c;
}

TEST(Repeat, SortsABlockByItsStarts) {
  // F of i at 3 i, BW at 3 i + 7: a turn later by two and at 1 of a turn of 3.
  const Pass block[] = {{Kind::backward, 0, 7}, {Kind::forward, 0, 0}};
  Order order;
  begin_order({.micro_batches = 4}, Placement::looped, order);
  repeat(block, 3, 4, order);
  end_rank(order);
  EXPECT_EQ(text(order, 0), "F0 F1 F2 BW0 F3 BW1 BW2 BW3");
}

TEST(Repeat, TakesStartsBeforeZeroAndKeepsTheOrderOfTies) {
  const Pass block[] = {{Kind::backward, 0, -1}, {Kind::output, 0, -4}, {Kind::forward, 0, -7}};
  Order order;
  begin_order({.micro_batches = 3, .output = OutputLayer::one_barrier}, Placement::looped, order);
  repeat(block, 3, 3, order);
  end_rank(order);
  EXPECT_EQ(text(order, 0), "F0 S0 F1 BW0 S1 F2 BW1 S2 BW2");
}

TEST(CutOutput, TwoBarriersByHand) {
  const Order o = drawn_for_twice(cut(2, 3, OutputLayer::two_barriers));
  EXPECT_EQ(text(o, 0), "F0 S0 F1 T0 S1 F2 T1 S2 BW0 T2 BW1 BW2");
  EXPECT_EQ(text(o, 1), "F0 S0 F1 T0 S1 F2 BW0 T1 S2 BW1 T2 BW2");
}

TEST(CutOutput, OneBarrierByHand) {
  const Order o = drawn_for_twice(cut(2, 3, OutputLayer::one_barrier));
  EXPECT_EQ(text(o, 0), "F0 S0 F1 T0 S1 F2 BW0 T1 S2 BW1 T2 BW2");
  EXPECT_EQ(text(o, 1), "F0 S0 F1 BW0 T0 S1 F2 BW1 T1 S2 BW2 T2");
}

// Ranks 1 and 3 run a forward and then a backward between two meetings, ranks 0 and 2 the other
// way.
TEST(CutOutput, InterlacedByHand) {
  const Order o = drawn_for_twice(cut(4, 4, OutputLayer::interlaced));
  EXPECT_EQ(text(o, 0), "F0 F1 S0 T0 F2 S1 T1 F3 S2 T2 S3 T3 BW0 BW1 BW2 BW3");
  EXPECT_EQ(text(o, 1), "F0 F1 S0 T0 F2 S1 T1 F3 S2 T2 BW0 S3 T3 BW1 BW2 BW3");
  EXPECT_EQ(text(o, 2), "F0 S0 T0 F1 S1 T1 F2 BW0 S2 T2 F3 BW1 S3 T3 BW2 BW3");
  EXPECT_EQ(text(o, 3), "F0 S0 T0 BW0 F1 S1 T1 BW1 F2 S2 T2 BW2 F3 S3 T3 BW3");
}

// In micro-batches of the rank's layers: p + 2 and p + 1 on the first rank, and one less each rank
// down (figure 10 of arXiv 2411.05288); interlaced 1.5 p (its appendix B.1, where it is
// "approximately": exactly it is 1.5 (p - r), rounded down).
TEST(CutOutput, PublishedPeaks) {
  for (int p = 2; p <= 32; ++p) {
    const int m = 4 * p;
    const Ran one = run(cut(p, m, OutputLayer::two_barriers),
                        with_output(cut(p, m, OutputLayer::two_barriers), 100, 200, 10, 10));
    const Ran two = run(cut(p, m, OutputLayer::one_barrier),
                        with_output(cut(p, m, OutputLayer::one_barrier), 100, 200, 10, 10));
    const Ran both = run(cut(p, m, OutputLayer::interlaced),
                         with_output(cut(p, m, OutputLayer::interlaced), 100, 200, 10, 10));
    for (int r = 0; r < p; ++r) {
      const auto i = static_cast<std::size_t>(r);
      EXPECT_EQ(one.timing.peaks.ranks[i].held, p - r + 2);
      EXPECT_EQ(two.timing.peaks.ranks[i].held, p - r + 1);
      EXPECT_EQ(both.timing.peaks.ranks[i].held, 3 * (p - r) / 2);
    }
  }
}

// A turn takes F + BW + S + T, as if nobody waited for a barrier, and what is not a turn is 1F1B's
// (p - 1)(F + BW) and a part that neither p nor m changes: the last stage's first B waits for S and
// T of all ranks, and one or two forwards before it. Interlaced adds no such part; but each of its
// turns takes the three collectives too, which the others hide.
TEST(CutOutput, BubbleIsThatOfOneForwardOneBackward) {
  for (const Picoseconds bw : {100, 150, 200, 300, 500}) {
    for (const OutputLayer output : kCut) {
      for (const int p : {2, 4, 8, 16, 32}) {
        const Picoseconds turn = 100 + bw + 20;
        Picoseconds makespan[2];
        for (int i = 0; i < 2; ++i) {
          const Shape s = cut(p, 4 * p + i, output);
          OwnedCosts c = with_output(s, 100, bw, 9, 11);
          c.output_links = {4, 5, 6};
          makespan[i] = run(s, c).timing.makespan;
        }
        const bool stands = output == OutputLayer::interlaced;
        EXPECT_EQ(makespan[1] - makespan[0], turn + (stands ? 15 : 0)) << p << " " << bw;
        const Picoseconds rest = makespan[0] - 4 * p * turn - (p - 1) * (100 + bw);
        if (stands) {
          EXPECT_EQ(rest, 4 * p * 15);
        } else {
          EXPECT_LE(rest, output == OutputLayer::two_barriers ? 2 * turn : turn) << p << " " << bw;
        }
      }
    }
  }
}

// What the paper profiles for: drawn for a backward of twice a forward, an order of full recompute
// loses time every turn; drawn for its own times it does not.
TEST(CutOutput, TimesMoveTheShares) {
  const Shape s = cut(32, 128, OutputLayer::two_barriers);
  const OwnedCosts c = with_output(s, 100, 300, 10, 10);
  Workspace w;
  Timing blind;
  const Order order = drawn_for_twice(s);
  ASSERT_TRUE(simulate(order, c, w, blind).has_value());
  const Picoseconds seeing = run(s, c).timing.makespan;
  EXPECT_GT(static_cast<double>(blind.makespan), 1.03 * static_cast<double>(seeing));
}

// Barriers and broadcasts inside the slack of a third of a turn change nothing but the ends,
// blocking sends or not: they have streams of their own (section 6.1). Interlaced ranks stand still
// for them.
TEST(CutOutput, CollectivesHideBehindTheLayers) {
  for (const Sends sends : {Sends::overlapped, Sends::blocking}) {
    for (const OutputLayer output : kCut) {
      const Shape s = cut(8, 64, output);
      OwnedCosts c = with_output(s, 300, 600, 20, 20);
      c.sends = sends;
      const Picoseconds free = run(s, c).timing.makespan;
      c.output_links = {100, 100, 100};
      const Picoseconds hidden = run(s, c).timing.makespan;
      if (output == OutputLayer::interlaced) {
        EXPECT_EQ(hidden, free + 64 * 300);  // each collective once, on every rank
      } else {
        EXPECT_LE(hidden, free + 300);
      }
      c.output_links = {2000, 2000, 2000};
      EXPECT_GT(run(s, c).timing.makespan, free + 64 * 300);
    }
  }
}

// Between T and S of two micro-batches no other pass runs: a rank holds one share, not two.
TEST(CutOutput, OneShareAtATime) {
  for (const OutputLayer output : kCut) {
    const Shape s = cut(8, 40, output);
    OwnedCosts c = with_output(s, 100, 200, 10, 10);
    for (ChunkCost& chunk : c.chunks) chunk.held = 0;
    for (OutputCost& o : c.outputs) o.held = 7;
    for (const RankPeak& peak : run(s, c).timing.peaks.ranks) EXPECT_EQ(peak.held, 7);
  }
}

// For any times: S after the last stage's F of it, T after every S, B of the last stage after every
// T (with one barrier: every S), collectives included.
TEST(CutOutput, NothingIsUsedBeforeItIsReceived) {
  Rng rng(31);
  for (const OutputLayer output : kCut) {
    for (int p = 1; p <= 6; ++p) {
      for (int m = 1; m <= 3 * p + 2; ++m) {
        const Shape s = cut(p, m, output);
        const OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
        const Ran r = run(s, c);
        const auto n = static_cast<std::size_t>(m);
        std::vector<Interval> forward(n), backward(n);
        std::vector<Picoseconds> first_s(n, 1 << 30), last_s(n, 0), first_t(n, 1 << 30),
            last_t(n, 0);
        std::size_t at = 0;
        for (int rank = 0; rank < p; ++rank) {
          for (const Action& a : r.order.of(rank)) {
            const Interval x = r.timeline[at++];
            const auto i = static_cast<std::size_t>(a.micro_batch);
            if (rank == p - 1 && a.kind == Kind::forward) forward[i] = x;
            if (rank == p - 1 && a.kind == Kind::backward) backward[i] = x;
            if (a.kind == Kind::output) {
              first_s[i] = std::min(first_s[i], x.start);
              last_s[i] = std::max(last_s[i], x.end);
            }
            if (a.kind == Kind::output_gradient) {
              first_t[i] = std::min(first_t[i], x.start);
              last_t[i] = std::max(last_t[i], x.end);
            }
          }
        }
        for (std::size_t i = 0; i < n; ++i) {
          EXPECT_GE(first_s[i], forward[i].end);
          EXPECT_GE(first_t[i], last_s[i] + c.output_links.barrier);
          EXPECT_GE(backward[i].start, output == OutputLayer::one_barrier
                                           ? last_s[i] + c.output_links.barrier
                                           : last_t[i] + c.output_links.second_barrier);
        }
      }
    }
  }
}

TEST(CutOutput, ClosedFormsAndBoundsHoldForAnyTimes) {
  Rng rng(32);
  Order scratch;
  Peaks fewer;
  for (const OutputLayer output : kCut) {
    for (int p = 1; p <= 9; ++p) {
      for (int m = 1; m <= 3 * p + 1; ++m) {
        const Shape s = cut(p, m, output);
        for (const Sends sends : {Sends::overlapped, Sends::blocking}) {
          const OwnedCosts c = testing::random_costs(s, rng, sends);
          const Ran r = run(s, c);
          const Bounds b = bounds(flat(), s, c);
          EXPECT_LE(b.lower, r.timing.makespan);
          EXPECT_GE(b.upper, r.timing.makespan);
          ASSERT_TRUE(find_peaks(flat(), s, c, scratch, fewer).has_value());
          for (int rank = 0; rank < p; ++rank) {
            const auto at = static_cast<std::size_t>(rank);
            EXPECT_EQ(fewer.ranks[at].held, r.timing.peaks.ranks[at].held)
                << testing::text(s) << " rank " << rank;
          }
          OwnedCosts ones = c;
          for (ChunkCost& chunk : ones.chunks) chunk.held = 1;
          for (OutputCost& o : ones.outputs) o.held = 0;
          Peaks peaks;
          find_peaks(r.order, ones.chunks, ones.outputs, peaks);
          for (int rank = 0; rank < p; ++rank) {
            EXPECT_EQ(in_flight(flat(), s, rank), peaks.ranks[static_cast<std::size_t>(rank)].held)
                << testing::text(s) << " rank " << rank;
          }
        }
      }
    }
  }
}

// Equal stages and small shares: within a tenth of the makespan, where all work added up is p times
// it.
TEST(CutOutput, UpperBoundIsTightForEqualStages) {
  for (const OutputLayer output : kCut) {
    for (const int p : {4, 8, 16}) {
      const Shape s = cut(p, 16 * p, output);
      OwnedCosts c = with_output(s, 1000, 2000, 40, 60);
      const Picoseconds makespan = run(s, c).timing.makespan;
      const Picoseconds upper = bounds(flat(), s, c).upper;
      EXPECT_GE(upper, makespan);
      EXPECT_LE(static_cast<double>(upper), 1.1 * static_cast<double>(makespan))
          << testing::text(s);
    }
  }
}

// Schedule::period: the order of m + 1 is that of m with one turn more, which is whatever follows
// micro-batch i's forward up to the next one's, numbers counted on.
TEST(CutOutput, OneMoreMicroBatchIsOneMoreTurn) {
  ASSERT_EQ(flat().period(cut(4, 30, OutputLayer::two_barriers)), 1);
  for (const OutputLayer output : kCut) {
    for (const int p : {2, 5, 8}) {
      const Order small = drawn_for_twice(cut(p, 4 * p, output));
      const Order large = drawn_for_twice(cut(p, 4 * p + 1, output));
      for (int rank = 0; rank < p; ++rank) {
        const auto a = small.of(rank);
        const auto b = large.of(rank);
        // A turn of the steady part: as far from either end as the longest life of a micro-batch.
        const auto steady = std::find(a.begin(), a.end(), Action{2 * p, 0, Kind::forward});
        const auto from = steady - a.begin();
        ASSERT_TRUE(std::equal(a.begin(), steady, b.begin()));
        const std::size_t turn = b.size() - a.size();
        EXPECT_EQ(turn, 4u);
        for (std::size_t i = static_cast<std::size_t>(from); i < a.size(); ++i) {
          Action later = a[i];
          ++later.micro_batch;
          EXPECT_EQ(b[i + turn], later);
        }
      }
    }
  }
}

// cut_output() on schedules that know nothing of it: backwards two turns or one later, so as many
// micro-batches more; a turn as long as before, and S and T.
TEST(CutOutput, AnyScheduleOfOneMicroBatchATurn) {
  for (const Schedule* schedule : {&schedules::one_f_one_b, &schedules::zb_h1}) {
    for (const OutputLayer output : {OutputLayer::two_barriers, OutputLayer::one_barrier}) {
      for (const int p : {2, 3, 8, 16}) {
        Picoseconds makespan[2];
        for (int i = 0; i < 2; ++i) {
          Shape s = cut(p, 6 * p + i, output);
          OwnedCosts c = with_output(s, 100, 200, 9, 11);
          Order order;
          cut_output(schedule->generate, s, c, order);
          ASSERT_TRUE(is_complete(order));
          Workspace w;
          Timing timing;
          ASSERT_TRUE(simulate(order, c, w, timing).has_value());
          makespan[i] = timing.makespan;
          s.output = OutputLayer::last_stage;
          for (int r = 0; r < p; ++r) {
            EXPECT_EQ(timing.peaks.ranks[static_cast<std::size_t>(r)].held,
                      *in_flight(*schedule, s, r) + turns_added(output))
                << schedule->name << " " << testing::text(s) << " rank " << r;
          }
        }
        EXPECT_EQ(makespan[1] - makespan[0], 320) << schedule->name << " " << p;
      }
    }
  }
}

// Whatever the times, zero included, the order completes.
TEST(CutOutput, AnyScheduleAnyTimes) {
  Rng rng(33);
  Workspace w;
  Timing timing;
  Order order;
  for (const Schedule* schedule :
       {&schedules::one_f_one_b, &schedules::zb_h1, &schedules::zb_h2, &schedules::v_half}) {
    for (const OutputLayer output : {OutputLayer::two_barriers, OutputLayer::one_barrier}) {
      for (int p = 1; p <= 6; ++p) {
        for (int m = 1; m <= 3 * p + 1; ++m) {
          Shape s = cut(p, m, OutputLayer::last_stage);
          s.chunks = schedule->chunks;
          if (refusal(*schedule, s)) continue;
          s.output = output;
          for (int seed = 0; seed < 4; ++seed) {
            OwnedCosts c =
                testing::random_costs(s, rng, seed % 2 == 0 ? Sends::overlapped : Sends::blocking);
            if (seed == 3) c.chunks.assign(c.chunks.size(), ChunkCost{});
            cut_output(schedule->generate, s, c, order);
            ASSERT_TRUE(is_complete(order)) << schedule->name << " " << testing::text(s);
            ASSERT_TRUE(simulate(order, c, w, timing).has_value())
                << schedule->name << " " << testing::text(s);
          }
        }
      }
    }
  }
}

// V-Half holds p/2 + 1 micro-batches of a rank's two chunks, (p + 1)/2 for p odd; two barriers add
// two and one barrier one, on every rank alike ("activation memory overhead" of section 5.2 applied
// to the V of appendix D). A turn is 6 passes, S and T; the ends do not grow with m.
TEST(CutOutput, VHalfStaysBalanced) {
  const Schedule& vee = schedules::v_half;
  for (const OutputLayer output : {OutputLayer::two_barriers, OutputLayer::one_barrier}) {
    for (const int p : {2, 4, 8, 16, 24}) {
      Picoseconds makespan[2];
      for (int i = 0; i < 2; ++i) {
        const Shape s{.pp = p, .chunks = 2, .micro_batches = 4 * p + i, .output = output};
        OwnedCosts c = testing::split_costs(s, 100, 100, 100);
        for (ChunkCost& chunk : c.chunks) chunk.kept = chunk.held;  // counted from F to W
        c.outputs.assign(static_cast<std::size_t>(p), {9, 11, 0});
        c.output_links = {4, 5, 6};
        Order order;
        Workspace w;
        Timing timing;
        ASSERT_TRUE(make_order(vee, s, c, order).has_value());
        ASSERT_TRUE(is_complete(order));
        ASSERT_TRUE(simulate(order, c, w, timing).has_value());
        makespan[i] = timing.makespan;
        for (const RankPeak& peak : timing.peaks.ranks) {
          EXPECT_LE(peak.held, 2 * (p / 2 + 1 + turns_added(output))) << testing::text(s);
          EXPECT_GE(peak.held, 2 * (p / 2 + turns_added(output))) << testing::text(s);
        }
      }
      EXPECT_EQ(makespan[1] - makespan[0], 620) << p;
      // The fill and drain of V-Half alone, 3 p - 7 passes at least 0, and less than a turn more.
      EXPECT_LE(makespan[0], 4 * p * 620 + std::max(1, 3 * p - 7) * 100 + 620) << p;
    }
  }
  EXPECT_EQ(
      to_text(*refusal(
          vee, {.pp = 4, .chunks = 2, .micro_batches = 8, .output = OutputLayer::interlaced})),
      "error: v-half has no interlaced order of a cut output layer; choose two-barriers or "
      "one-barrier, or the schedule 1f1b");
}

}  // namespace
}  // namespace eratos::schedule
