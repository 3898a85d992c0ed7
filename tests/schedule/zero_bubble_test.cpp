// zb-h1, zb-h2 and zb-auto: the facts of "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, in
// stage-micro-batches (one rank's layers, one micro-batch), and what each schedule promises of
// itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "eratos/schedule/bounds.h"
#include "eratos/schedule/peak.h"
#include "eratos/schedule/registry.h"
#include "schedule/cases.h"

namespace eratos::schedule {
namespace {

using testing::OwnedCosts;

std::string order_text(const Order& order, int rank) {
  std::string out;
  for (const Action& a : order.of(rank)) {
    const char letter = a.kind == Kind::forward ? 'F' : a.kind == Kind::input_gradient ? 'B' : 'W';
    out += (out.empty() ? "" : " ") + (letter + std::to_string(a.micro_batch));
  }
  return out;
}

// A stage-micro-batch is one byte, from F to W.
OwnedCosts stage_costs(const Shape& s, Picoseconds f, Picoseconds b, Picoseconds w) {
  OwnedCosts c = testing::split_costs(s, f, b, w);
  for (ChunkCost& chunk : c.chunks) chunk.kept = chunk.held;
  return c;
}

struct Outcome {
  Order order;
  Timing timing;
  std::int64_t most_held = 0;
};

Outcome outcome(std::string_view name, const Shape& s, const Costs& costs) {
  Outcome r;
  Workspace w;
  EXPECT_TRUE(make_order(*find(name), s, costs, r.order).has_value());
  EXPECT_TRUE(is_complete(r.order));
  EXPECT_TRUE(simulate(r.order, costs, w, r.timing).has_value());
  for (const RankPeak& peak : r.timing.peaks.ranks) r.most_held = std::max(r.most_held, peak.held);
  return r;
}

TEST(ZeroBubble, H1ByHand) {
  const Outcome r = outcome("zb-h1", {2, 1, 3}, stage_costs({2, 1, 3}, 1, 1, 1));
  EXPECT_EQ(order_text(r.order, 0), "F0 F1 B0 W0 F2 B1 W1 B2 W2");
  EXPECT_EQ(order_text(r.order, 1), "F0 B0 F1 B1 W0 F2 B2 W1 W2");
}

TEST(ZeroBubble, H2ByHand) {
  const Outcome r = outcome("zb-h2", {2, 1, 5}, stage_costs({2, 1, 5}, 1, 1, 1));
  EXPECT_EQ(order_text(r.order, 0), "F0 F1 F2 B0 W0 F3 B1 W1 F4 B2 W2 B3 W3 B4 W4");
  EXPECT_EQ(order_text(r.order, 1), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 F4 B4 W2 W3 W4");
}

TEST(ZeroBubble, OneMicroBatchIsNoPipeline) {
  for (const char* name : {"zb-h1", "zb-h2", "zb-auto"}) {
    const Outcome r = outcome(name, {3, 1, 1}, stage_costs({3, 1, 1}, 1, 1, 1));
    for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(order_text(r.order, rank), "F0 B0 W0") << name;
  }
}

// Sections 2.1 and 2.2: ZB-H1 holds what 1F1B's first stage does, p; ZB-H2 2 p - 1. Every rank
// does.
TEST(ZeroBubble, PublishedPeaks) {
  for (int p = 1; p <= 16; ++p) {
    for (const int m : {1, p, 2 * p - 1, 4 * p}) {
      const Shape s{p, 1, m};
      const OwnedCosts c = stage_costs(s, 1, 1, 1);
      for (const RankPeak& peak : outcome("zb-h1", s, c).timing.peaks.ranks) {
        EXPECT_EQ(peak.held, std::min(m, p));
      }
      for (const RankPeak& peak : outcome("zb-h2", s, c).timing.peaks.ranks) {
        EXPECT_EQ(peak.held, std::min(m, 2 * p - 1));
      }
    }
  }
}

Picoseconds work(const Shape& s, Picoseconds f, Picoseconds b, Picoseconds w) {
  return s.micro_batches * (f + b + w);
}

// Section 2.3, table 1: (p - 1)(F + B - W) and (p - 1)(F + B - 2 W). Both are bubbles of the rank
// that is busy longest, and hold while W <= F and W <= B, as the paper's own measured times do.
// Exactly:
//   ZB-H1, makespan - work: (p - 1) max(F + B - W, F, B). With W > F no W can shorten rank 0's wait
//   of
//     (p - 1) B for its first gradient; with W > B the last rank, which waits (p - 1) F for its
//     first forward, ends last.
//   ZB-H2, pitch - work: (p - 1) max(F + B - 2 W, B - F, 0), the paper's for W <= F and 2 W <= F +
//   B.
//     With W > F rank 0 still waits (p - 1)(B - F) behind its 2 p - 1 forwards.
//     Its makespan has rank p - 1's wait for its first forward, (p - 1) F, which only the next step
//     can use; hence the pitch.
TEST(ZeroBubble, PublishedBubbles) {
  Rng rng(21);
  const auto draw = [&] { return 1 + static_cast<Picoseconds>(rng.below(50)); };
  int as_published = 0;
  for (int i = 0; i < 400; ++i) {
    const int p = 1 + static_cast<int>(rng.below(10));
    const Shape s{p, 1, 3 * p + static_cast<int>(rng.below(20))};
    const Picoseconds f = draw();
    const Picoseconds b = draw();
    const Picoseconds w = draw();
    const OwnedCosts c = stage_costs(s, f, b, w);
    const Picoseconds h1 = outcome("zb-h1", s, c).timing.makespan - work(s, f, b, w);
    const Outcome second = outcome("zb-h2", s, c);
    const Picoseconds h2 = second.timing.pitch - work(s, f, b, w);
    ASSERT_EQ(h1, (p - 1) * std::max({f + b - w, f, b})) << p << ' ' << f << ' ' << b << ' ' << w;
    ASSERT_EQ(h2, (p - 1) * std::max<Picoseconds>({f + b - 2 * w, b - f, 0}));
    ASSERT_EQ(second.timing.makespan - work(s, f, b, w),
              (p - 1) * std::max({f + b - 2 * w, b - f, f}));
    if (w <= f && w <= b) {
      ++as_published;
      ASSERT_EQ(h1, (p - 1) * (f + b - w));
      ASSERT_EQ(h2, (p - 1) * (f + b - 2 * w));
    }
  }
  EXPECT_GT(as_published, 50);
}

TEST(ZeroBubble, H2HasNoBubbleWithEqualPasses) {
  const Shape s{8, 1, 24};
  const Outcome r = outcome("zb-h2", s, stage_costs(s, 10, 10, 10));
  EXPECT_EQ(r.timing.pitch, 24 * 30);
  EXPECT_EQ(r.timing.makespan, 24 * 30 + 7 * 10);
}

// The promise of Schedule::period: somewhere in each rank's order a turn is put in, and what
// follows it counts on from there.
bool is_one_turn_more(const Order& longer, const Order& shorter, int rank, int period) {
  const auto a = longer.of(rank);
  const auto b = shorter.of(rank);
  std::size_t same = 0;
  while (same < b.size() && a[same] == b[same]) ++same;
  std::size_t tail = 0;
  while (tail < b.size()) {
    Action moved = b[b.size() - 1 - tail];
    moved.micro_batch += period;
    if (moved != a[a.size() - 1 - tail]) break;
    ++tail;
  }
  return a.size() == b.size() + 3 * static_cast<std::size_t>(period) && same + tail >= b.size();
}

TEST(ZeroBubble, OneMoreMicroBatchIsOneMoreTurn) {
  Order shorter;
  Order longer;
  for (const char* name : {"zb-h1", "zb-h2"}) {
    const Schedule& schedule = *find(name);
    for (int p = 1; p <= 9; ++p) {
      for (int m = 2 * p; m < 2 * p + 12; ++m) {
        const int period = schedule.period({p, 1, m});
        schedule.generate({p, 1, m}, shorter);
        schedule.generate({p, 1, m + period}, longer);
        for (int rank = 0; rank < p; ++rank) {
          ASSERT_TRUE(is_one_turn_more(longer, shorter, rank, period))
              << name << ' ' << p << ' ' << m << ' ' << rank;
        }
      }
    }
  }
}

TEST(ZeroBubble, FewMicroBatchesShowThePeak) {
  Rng rng(22);
  Order scratch;
  Peaks few;
  for (const char* name : {"zb-h1", "zb-h2"}) {
    const Schedule& schedule = *find(name);
    for (int i = 0; i < 300; ++i) {
      const Shape s{1 + static_cast<int>(rng.below(9)), 1, 1 + static_cast<int>(rng.below(30))};
      const OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
      ASSERT_LE(schedule.micro_batches_for_peak(s), 2 * s.pp - 1);
      ASSERT_TRUE(find_peaks(schedule, s, c, scratch, few).has_value());
      const Outcome whole = outcome(name, s, c);
      for (int rank = 0; rank < s.pp; ++rank) {
        const auto r = static_cast<std::size_t>(rank);
        ASSERT_EQ(few.ranks[r].held, whole.timing.peaks.ranks[r].held)
            << testing::text(schedule, s);
        ASSERT_EQ(few.in_flight[r], whole.timing.peaks.in_flight[r]);
        ASSERT_EQ(few.waiting[r], whole.timing.peaks.waiting[r]);
      }
    }
  }
}

// lower is the makespan itself with equal passes and free sends where the paper's formulas hold.
TEST(ZeroBubble, LowerBoundIsReached) {
  Rng rng(23);
  for (const char* name : {"zb-h1", "zb-h2"}) {
    for (int i = 0; i < 200; ++i) {
      const Shape s{1 + static_cast<int>(rng.below(9)), 1, 1 + static_cast<int>(rng.below(40))};
      const Picoseconds w = 1 + static_cast<Picoseconds>(rng.below(30));
      const Picoseconds f = w + static_cast<Picoseconds>(rng.below(30));
      const Picoseconds b = f + static_cast<Picoseconds>(rng.below(10));
      const OwnedCosts c = stage_costs(s, f, b, w);
      ASSERT_EQ(bounds(*find(name), s, c).lower, outcome(name, s, c).timing.makespan)
          << testing::text(*find(name), s) << ' ' << f << ' ' << b << ' ' << w;
    }
  }
}

// zb-auto
// ------------------------------------------------------------------------------------------

Costs limited(const OwnedCosts& c, const std::vector<std::int64_t>& limits) {
  Costs costs = c;
  costs.limits = limits;
  return costs;
}

// The example of zb_greedy.h.
TEST(ZeroBubbleAuto, ByHand) {
  const Shape s{2, 1, 3};
  const Outcome r = outcome("zb-auto", s, limited(stage_costs(s, 1, 1, 1), {3, 3}));
  EXPECT_EQ(order_text(r.order, 0), "F0 F1 F2 B0 W0 B1 W1 B2 W2");
  EXPECT_EQ(order_text(r.order, 1), "F0 B0 F1 B1 F2 B2 W0 W1 W2");
}

// Room for one micro-batch: it has to be done with before the next one starts.
TEST(ZeroBubbleAuto, RoomForOneMicroBatch) {
  const Shape s{3, 1, 4};
  const OwnedCosts c = stage_costs(s, 2, 3, 1);
  const std::vector<std::int64_t> limits(3, 1);
  const Outcome r = outcome("zb-auto", s, limited(c, limits));
  EXPECT_EQ(order_text(r.order, 2), "F0 B0 W0 F1 B1 W1 F2 B2 W2 F3 B3 W3");
  EXPECT_EQ(r.most_held, 1);
}

// Section 3: with equal passes the limit of ZB-2p leaves no bubble.
TEST(ZeroBubbleAuto, NoBubbleWithTwiceTheMemory) {
  for (int p = 1; p <= 12; ++p) {
    const Shape s{p, 1, 3 * p};
    const OwnedCosts c = stage_costs(s, 10, 10, 10);
    const Outcome r = outcome("zb-auto", s, c);
    EXPECT_EQ(r.timing.pitch, work(s, 10, 10, 10)) << p;
    EXPECT_LE(r.most_held, 2 * p);
  }
}

// With ZB-1p's limit, p, it is ZB-H1 or better.
TEST(ZeroBubbleAuto, OneTimesTheMemoryIsAtLeastH1) {
  Rng rng(24);
  for (int i = 0; i < 200; ++i) {
    const int p = 1 + static_cast<int>(rng.below(8));
    const Shape s{p, 1, 1 + static_cast<int>(rng.below(30))};
    const OwnedCosts c = stage_costs(s, 1 + static_cast<Picoseconds>(rng.below(40)),
                                     1 + static_cast<Picoseconds>(rng.below(40)),
                                     1 + static_cast<Picoseconds>(rng.below(40)));
    const std::vector<std::int64_t> limits(static_cast<std::size_t>(p), p);
    const Outcome found = outcome("zb-auto", s, limited(c, limits));
    const Outcome h1 = outcome("zb-h1", s, c);
    ASSERT_LE(found.timing.pitch, h1.timing.pitch) << testing::text(s);
    ASSERT_LE(found.timing.makespan, h1.timing.makespan) << testing::text(s);
    ASSERT_LE(found.most_held, p);
  }
}

// Whatever the stages, limits and transfers: complete, within the limit, inside the bounds, the
// same twice, and never worse than zb-h1 where that fits.
TEST(ZeroBubbleAuto, RandomCostsAndLimits) {
  Rng rng(25);
  Workspace w;
  Timing timing;
  Order h1;
  int fitted = 0;
  int tighter = 0;
  for (int i = 0; i < 3000; ++i) {
    const bool wide = i % 10 == 0;
    const Shape s{1 + static_cast<int>(rng.below(wide ? 12 : 4)), 1,
                  1 + static_cast<int>(rng.below(wide ? 60 : 8))};
    const OwnedCosts c =
        testing::random_costs(s, rng, i % 2 == 0 ? Sends::overlapped : Sends::blocking);
    std::vector<std::int64_t> limits;
    if (i % 5 != 0) {
      for (const ChunkCost& chunk : c.chunks) {
        const auto more = static_cast<std::uint64_t>(1 + 2 * s.pp * chunk.held);
        limits.push_back(std::max(chunk.held, chunk.kept) +
                         static_cast<std::int64_t>(rng.below(more)));
      }
    }
    const Costs costs = limited(c, limits);
    const Outcome found = outcome("zb-auto", s, costs);
    for (std::size_t r = 0; r < limits.size(); ++r) {
      ASSERT_LE(found.timing.peaks.ranks[r].held, limits[r]) << testing::text(s);
    }
    const Bounds b = bounds(*find("zb-auto"), s, costs);
    ASSERT_LE(b.lower, found.timing.makespan) << testing::text(s);
    ASSERT_GE(b.upper, found.timing.makespan) << testing::text(s);
    ASSERT_EQ(found.order.actions, outcome("zb-auto", s, costs).order.actions);

    ASSERT_TRUE(make_order("zb-h1", s, h1).has_value());
    ASSERT_TRUE(simulate(h1, costs, w, timing).has_value());
    bool fits = true;
    for (std::size_t r = 0; r < limits.size(); ++r) {
      fits = fits && timing.peaks.ranks[r].held <= limits[r];
    }
    if (!fits) {
      ++tighter;
      continue;
    }
    ++fitted;
    ASSERT_LE(found.timing.pitch, timing.pitch) << testing::text(s);
    ASSERT_LE(found.timing.makespan, timing.makespan) << testing::text(s);
  }
  EXPECT_GT(fitted, 500);
  EXPECT_GT(tighter, 500);
}

// Without limits: 2 p of the largest micro-batch.
TEST(ZeroBubbleAuto, LimitWithoutOne) {
  const Shape s{4, 1, 20};
  OwnedCosts c = stage_costs(s, 10, 20, 3);
  c.chunks[2].kept = 3;
  const auto with = [&](std::int64_t limit) {
    const std::vector<std::int64_t> limits(4, limit);
    return outcome("zb-auto", s, limited(c, limits)).order.actions;
  };
  EXPECT_EQ(outcome("zb-auto", s, c).order.actions, with(2 * 4 * 3));
  EXPECT_NE(outcome("zb-auto", s, c).order.actions, with(2 * 4 * 1));
}

// With room for k < p micro-batches k of them can go round the pipeline together. By the paper's
// rule alone one at a time does (3.4 times the work for k = 4 here, where no order takes less
// than 1.34).
TEST(ZeroBubbleAuto, LittleRoomIsUsed) {
  const Shape s{8, 1, 64};
  const OwnedCosts c = stage_costs(s, 20, 20, 20);
  for (std::int64_t k = 1; k <= 8; ++k) {
    const std::vector<std::int64_t> limits(8, k);
    const Costs costs = limited(c, limits);
    const Picoseconds least = bounds(*find("zb-auto"), s, costs).lower;
    EXPECT_LE(outcome("zb-auto", s, costs).timing.makespan, least + least / 5) << k;
  }
}

// A ratchet: the pitches of seeded jobs together, as multiples of the busiest rank's work. It grows
// when a switch, or the rule that a rank stays one forward ahead of the next, is taken out. May
// only get lower.
TEST(ZeroBubbleAuto, GetsNoWorse) {
  Rng rng(27);
  const auto draw = [&](int least, int most) {
    return least + static_cast<int>(rng.below(static_cast<std::uint64_t>(most - least + 1)));
  };
  double all = 0.0;
  for (int i = 0; i < 300; ++i) {
    const Shape s{draw(2, 11), 1, draw(4, 60)};
    OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
    std::vector<std::int64_t> limits;
    for (ChunkCost& chunk : c.chunks) {
      chunk.held += 100;
      limits.push_back(std::max(chunk.held, chunk.kept) * draw(s.pp / 2 + 1, 2 * s.pp));
    }
    const Outcome r = outcome("zb-auto", s, limited(c, limits));
    Picoseconds busiest = 0;
    for (const RankTime& rank : r.timing.ranks) busiest = std::max(busiest, rank.busy);
    all += static_cast<double>(r.timing.pitch) / static_cast<double>(busiest);
  }
  std::printf("zb-auto: pitch / work of the busiest rank %.5f\n", all / 300);
  EXPECT_LE(all / 300, 1.15082);
}

// More memory makes room for zb-h2 as well.
TEST(ZeroBubbleAuto, AsGoodAsH2) {
  Rng rng(26);
  for (int i = 0; i < 200; ++i) {
    const Shape s{1 + static_cast<int>(rng.below(8)), 1, 1 + static_cast<int>(rng.below(30))};
    OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
    for (ChunkCost& chunk : c.chunks) chunk.held = chunk.kept = 1;
    const Outcome h1 = outcome("zb-h1", s, c);
    const Outcome h2 = outcome("zb-h2", s, c);
    if (h2.timing.makespan > h1.timing.makespan) continue;
    ASSERT_LE(outcome("zb-auto", s, c).timing.pitch, h2.timing.pitch) << testing::text(s);
  }
}

TEST(ZeroBubbleAuto, Refusals) {
  const Shape s{2, 1, 4};
  OwnedCosts c = stage_costs(s, 1, 1, 1);
  c.chunks[1].held = 5;
  c.chunks[1].kept = 7;
  Order order;
  const auto refused = make_order(*find("zb-auto"), s, limited(c, {6, 6}), order);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(to_text(refused.error()[0]),
            "error: rank 1 may hold 6 bytes of activations, but one micro-batch takes 7; raise the "
            "limit, or lower what a micro-batch holds: batch.micro, or recompute with 1f1b");
  EXPECT_EQ(refused.error()[0].field, "schedule.activation_limit");
  EXPECT_TRUE(make_order(*find("zb-auto"), s, limited(c, {1, 7}), order).has_value());
  Peaks peaks;
  EXPECT_FALSE(find_peaks(*find("zb-auto"), s, limited(c, {6, 6}), order, peaks).has_value());
  for (const char* name : {"zb-h1", "zb-h2", "zb-auto"}) {
    const auto why = refusal(*find(name), {2, 2, 4});
    ASSERT_TRUE(why.has_value());
    EXPECT_EQ(why->field, "parallel.vpp");
    EXPECT_EQ(to_text(*why),
              "error: " + std::string(name) +
                  " keeps one chunk a rank, but vpp is 2; set vpp to 1, or choose zbv "
                  "with vpp 2");
  }
}

}  // namespace
}  // namespace eratos::schedule
