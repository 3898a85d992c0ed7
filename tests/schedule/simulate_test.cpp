#include "eratos/schedule/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "eratos/schedule/registry.h"
#include "schedule/cases.h"
#include "schedule/slow_oracle.h"

namespace eratos::schedule {
namespace {

using testing::equal_costs;
using testing::OwnedCosts;

struct Ran {
  Order order;
  Timing timing;
  std::vector<Interval> timeline;
};

Ran run(std::string_view name, const Shape& shape, const OwnedCosts& costs) {
  Ran r;
  Workspace w;
  EXPECT_TRUE(make_order(name, shape, r.order).has_value());
  EXPECT_TRUE(simulate(r.order, costs, w, r.timing, &r.timeline).has_value());
  return r;
}

std::string intervals(const Ran& r, int rank) {
  std::string out;
  for (std::int64_t i = r.order.first[static_cast<std::size_t>(rank)];
       i < r.order.first[static_cast<std::size_t>(rank) + 1]; ++i) {
    const Interval t = r.timeline[static_cast<std::size_t>(i)];
    out += (out.empty() ? "" : " ") + std::to_string(t.start) + "-" + std::to_string(t.end);
  }
  return out;
}

// The example of simulate.h, worked by hand.
TEST(Simulate, OverlappedSendsByHand) {
  const Shape s{2, 1, 2};
  const Ran r = run("1f1b", s, equal_costs(s, 10, 20, 3));
  EXPECT_EQ(intervals(r, 0), "0-10 10-20 46-66 76-96");
  EXPECT_EQ(intervals(r, 1), "13-23 23-43 43-53 53-73");
  EXPECT_EQ(r.timing.makespan, 96);
  // Rank 0 waits 20-43 for compute and 43-46 for the link, then 66-73 and 73-76.
  EXPECT_EQ(r.timing.ranks[0].busy, 60);
  EXPECT_EQ(r.timing.ranks[0].transfer, 6);
  EXPECT_EQ(r.timing.ranks[0].idle, 30);
  // Rank 1 waits 0-10, then 10-13 for the link; 73-96 is drain.
  EXPECT_EQ(r.timing.ranks[1].transfer, 3);
  EXPECT_EQ(r.timing.ranks[1].idle, 33);
  EXPECT_EQ(r.timing.ranks[1].first_start, 13);
  EXPECT_EQ(r.timing.ranks[1].last_end, 73);
  EXPECT_EQ(r.timing.critical_rank, 0);
}

TEST(Simulate, BlockingSendsByHand) {
  const Shape s{2, 1, 2};
  const Ran r = run("1f1b", s, equal_costs(s, 10, 20, 3, Sends::blocking));
  EXPECT_EQ(intervals(r, 0), "0-10 13-23 46-66 79-99");
  EXPECT_EQ(intervals(r, 1), "13-23 23-43 46-56 56-76");
  EXPECT_EQ(r.timing.makespan, 99);
  // Rank 0: sends 10-13 and 23-26, receives 43-46 and 76-79.
  EXPECT_EQ(r.timing.ranks[0].transfer, 12);
  EXPECT_EQ(r.timing.ranks[0].idle, 27);
  // Rank 1: receives 10-13, sends and receives 43-46, sends 76-79 after its last action.
  EXPECT_EQ(r.timing.ranks[1].transfer, 9);
  EXPECT_EQ(r.timing.ranks[1].idle, 30);
}

// Stage 1 three times as slow: rank 1 is busy from 10 to 190, rank 0 ends with B of the last.
TEST(Simulate, UnequalStagesByHand) {
  const Shape s{2, 1, 2};
  OwnedCosts c = equal_costs(s, 10, 20);
  c.chunks[1] = {30, 60, 1};
  const Ran r = run("1f1b", s, c);
  EXPECT_EQ(intervals(r, 1), "10-40 40-100 100-130 130-190");
  EXPECT_EQ(intervals(r, 0), "0-10 10-20 100-120 190-210");
  EXPECT_EQ(r.timing.critical_rank, 1);
  EXPECT_EQ(r.timing.ranks[0].idle, 150);
  EXPECT_EQ(r.timing.ranks[1].idle, 30);
}

// Bubble (p - 1)(F + B) on every rank, for any number of micro-batches.
// Source: arXiv:2104.04473 section 2.1.
TEST(Simulate, BubbleOfOneForwardOneBackward) {
  for (int p = 1; p <= 16; ++p) {
    for (int m = 1; m <= 40; ++m) {
      const Shape s{p, 1, m};
      for (const char* name : {"1f1b", "gpipe"}) {
        const Ran r = run(name, s, equal_costs(s, 7, 13));
        for (const RankTime& t : r.timing.ranks) EXPECT_EQ(t.idle, (p - 1) * (7 + 13));
        EXPECT_EQ(r.timing.makespan, (m + p - 1) * (7 + 13)) << name << " " << p << " " << m;
      }
    }
  }
}

// Bubble over v: (p - 1)(F + B) / v, in chunk times (p - 1)(f + b).
// Source: arXiv:2104.04473 section 2.2, m a multiple of p.
TEST(Simulate, BubbleOfInterleaved) {
  for (int p = 2; p <= 8; ++p) {
    for (int v = 2; v <= 4; ++v) {
      for (int groups = 1; groups <= 4; ++groups) {
        const Shape s{p, v, groups * p};
        const Ran r = run("interleaved-1f1b", s, equal_costs(s, 7, 13));
        EXPECT_EQ(r.timing.makespan, (groups * p * v + p - 1) * (7 + 13))
            << p << " " << v << " " << groups;
      }
    }
  }
}

// In stage-micro-batches (one rank's layers, one micro-batch): GPipe m; 1F1B p on rank 0;
// interleaved p + (p - 1) / v on rank 0. Source: arXiv:2104.04473 section 2.2, arXiv:2205.05198
// section 4.2.3.
TEST(Simulate, PublishedPeaks) {
  for (int p = 2; p <= 16; p *= 2) {
    const int m = 4 * p;
    const Shape flat{p, 1, m};
    EXPECT_EQ(run("gpipe", flat, equal_costs(flat, 1, 2)).timing.peaks.ranks[0].held, m);
    EXPECT_EQ(run("1f1b", flat, equal_costs(flat, 1, 2)).timing.peaks.ranks[0].held, p);
    for (int v = 2; v <= 4; ++v) {
      const Shape s{p, v, m};
      const Ran r = run("interleaved-1f1b", s, equal_costs(s, 1, 2));
      EXPECT_EQ(r.timing.peaks.ranks[0].held, p * v + p - 1);
    }
  }
}

TEST(Simulate, PeakNamesItsMomentAndItsChunks) {
  const Shape s{2, 2, 4};
  OwnedCosts c = equal_costs(s, 1, 2);
  c.chunks[0].held = 10;   // rank 0, chunk 0
  c.chunks[1].held = 100;  // rank 0, chunk 1
  const Ran r = run("interleaved-1f1b", s, c);
  // F0.0 F1.0 F0.1 F1.1 F2.0 | B0.1 F3.0 B1.1 F2.1 ...: 2 of chunk 1 and 3 of chunk 0 at F2.0.
  EXPECT_EQ(r.timing.peaks.ranks[0].held, 230);
  EXPECT_EQ(r.timing.peaks.ranks[0].peak_at, 4);
  EXPECT_EQ(r.timing.peaks.in_flight[0], 3);
  EXPECT_EQ(r.timing.peaks.in_flight[1], 2);
  const Peaks& peaks = r.timing.peaks;
  EXPECT_EQ(peaks.ranks[1].held, peaks.in_flight[2] + peaks.in_flight[3]);
}

// Every field of the timing, and every start and end.
void expect_agreement(const Order& order, const Costs& costs, Workspace& w) {
  Timing timing;
  std::vector<Interval> timeline;
  ASSERT_TRUE(simulate(order, costs, w, timing, &timeline).has_value());
  const auto slow = testing::slow_simulate(order, costs);
  ASSERT_TRUE(slow.has_value());
  ASSERT_EQ(timing.makespan, slow->makespan);
  for (std::size_t i = 0; i < timeline.size(); ++i) {
    ASSERT_EQ(timeline[i].start, slow->start[i]) << i;
    ASSERT_EQ(timeline[i].end, slow->end[i]) << i;
  }
  Picoseconds pitch = 0;
  for (std::size_t rank = 0; rank < timing.ranks.size(); ++rank) {
    const RankTime& quick = timing.ranks[rank];
    const RankTime& t = slow->ranks[rank];
    ASSERT_EQ(quick.busy, t.busy) << rank;
    ASSERT_EQ(quick.transfer, t.transfer) << rank;
    ASSERT_EQ(quick.idle, t.idle) << rank;
    ASSERT_EQ(quick.first_start, t.first_start) << rank;
    ASSERT_EQ(quick.last_end, t.last_end) << rank;
    ASSERT_EQ(t.busy + t.transfer + t.idle, timing.makespan) << rank;
    ASSERT_GE(t.idle, 0) << rank;
    ASSERT_GE(t.transfer, 0) << rank;
    pitch = std::max(pitch, t.last_end - t.first_start);
  }
  ASSERT_EQ(timing.pitch, pitch);
  Timing untraced;
  ASSERT_TRUE(simulate(order, costs, w, untraced).has_value());
  ASSERT_EQ(untraced.makespan, timing.makespan);
}

TEST(Simulate, AgreesWithTheSlowOracleOnEverySmallCase) {
  Rng rng(20261129);
  Order order;
  Workspace w;
  testing::for_every_small_case([&](const Schedule& schedule, const Shape& s) {
    for (const Sends sends : {Sends::overlapped, Sends::blocking}) {
      for (int seed = 0; seed < 6; ++seed) {
        SCOPED_TRACE(testing::text(schedule, s));
        const OwnedCosts c = testing::random_costs(s, rng, sends);
        testing::order_of(schedule, s, c, order);
        ASSERT_NO_FATAL_FAILURE(expect_agreement(order, c, w));
      }
    }
  });
}

// Orders no schedule makes: every kind, placement, place of the output layer, and pairs.
TEST(Simulate, AgreesWithTheSlowOracleOnRandomOrders) {
  Rng rng(41);
  Workspace w;
  testing::for_random_orders(rng, 150, [&](const Order& order) {
    for (const Sends sends : {Sends::overlapped, Sends::blocking}) {
      SCOPED_TRACE(testing::text(order.shape));
      const OwnedCosts c = testing::random_costs(order.shape, rng, sends);
      ASSERT_NO_FATAL_FAILURE(expect_agreement(order, c, w));
    }
  });
}

Order by_hand(const Shape& s, Placement placement, const std::vector<std::vector<Action>>& ranks) {
  Order order;
  begin_order(s, placement, order);
  for (const auto& actions : ranks) {
    order.actions.insert(order.actions.end(), actions.begin(), actions.end());
    end_rank(order);
  }
  EXPECT_TRUE(is_complete(order));
  return order;
}

Ran run(const Order& order, const OwnedCosts& costs) {
  Ran r;
  Workspace w;
  r.order = order;
  EXPECT_TRUE(simulate(r.order, costs, w, r.timing, &r.timeline).has_value());
  return r;
}

constexpr Kind F = Kind::forward;
constexpr Kind B = Kind::input_gradient;
constexpr Kind W = Kind::weight_gradient;
constexpr Kind S = Kind::output;
constexpr Kind T = Kind::output_gradient;

// F = 10, B = 8, W = 5, sends 3: rank 0 waits for the gradient that rank 1 sends before its W.
TEST(Simulate, SplitBackwardByHand) {
  const Shape s{2, 1, 1};
  const Order o = by_hand(s, Placement::looped,
                          {{{0, 0, F}, {0, 0, B}, {0, 0, W}}, {{0, 0, F}, {0, 0, B}, {0, 0, W}}});
  const Ran r = run(o, testing::split_costs(s, 10, 8, 5, 3));
  EXPECT_EQ(intervals(r, 1), "13-23 23-31 31-36");
  EXPECT_EQ(intervals(r, 0), "0-10 34-42 42-47");
  EXPECT_EQ(r.timing.ranks[1].idle, 10 + 11);
  EXPECT_EQ(r.timing.pitch, 47);
  // Blocking: rank 1 stands for its send before W starts.
  const Ran blocking = run(o, testing::split_costs(s, 10, 8, 5, 3, Sends::blocking));
  EXPECT_EQ(intervals(blocking, 1), "13-23 23-31 34-39");
  EXPECT_EQ(intervals(blocking, 0), "0-10 34-42 42-47");
}

// Down through ranks 0 and 1, then up: the two chunks of rank 1 are neighbours and send nothing.
TEST(Simulate, VeeByHand) {
  const Shape s{2, 2, 1};
  const Action f0{0, 0, F};
  const Action f1{0, 1, F};
  const Action bw0{0, 0, Kind::backward};
  const Action bw1{0, 1, Kind::backward};
  const Order o = by_hand(s, Placement::vee, {{f0, f1, bw1, bw0}, {f0, f1, bw1, bw0}});
  const Ran r = run(o, equal_costs(s, 10, 20, 3));
  EXPECT_EQ(intervals(r, 0), "0-10 36-46 46-66 112-132");
  EXPECT_EQ(intervals(r, 1), "13-23 23-33 69-89 89-109");
}

// Two copies, one micro-batch each; rank 0 holds stage 0 of copy 0 and stage 1 of copy 1. Its F of
// copy 1 runs beside its BW of copy 0: 10 + 20 less the 4 + 6 that are communication is 20, and BW
// alone is no shorter.
TEST(Simulate, PairsRunSideBySide) {
  const Shape s{2, 2, 4};
  const auto f = [](int mb, std::int16_t chunk, bool pair = false) {
    return Action{mb, chunk, F, pair};
  };
  const auto bw = [](int mb, std::int16_t chunk) { return Action{mb, chunk, Kind::backward}; };
  const std::vector<Action> rank0{f(0, 0),  f(0, 1), bw(0, 1), f(1, 0, true),
                                  bw(0, 0), f(1, 1), bw(1, 1), bw(1, 0)};
  std::vector<Action> rank1 = rank0;
  for (Action& a : rank1) a.chunk = static_cast<std::int16_t>(1 - a.chunk);
  const Order o = by_hand(s, Placement::bidirectional, {rank0, rank1});
  OwnedCosts c = equal_costs(s, 10, 20, 3);
  for (ChunkCost& chunk : c.chunks) {
    chunk.forward_hideable = 4;
    chunk.backward_hideable = 6;
  }
  const Ran r = run(o, c);
  for (int rank = 0; rank < 2; ++rank) {
    // F 0-10, F of the other copy 13-23, BW 23-43; the pair waits for the gradient at 46.
    EXPECT_EQ(intervals(r, rank), "0-10 13-23 23-43 46-66 46-66 69-79 79-99 102-122");
    EXPECT_EQ(r.timing.ranks[static_cast<std::size_t>(rank)].busy,
              10 + 10 + 20 + 20 + 10 + 20 + 20);
  }
  EXPECT_EQ(together(10, 4, 20, 6), 20);
  EXPECT_EQ(together(10, 4, 20, 1), 25);
  EXPECT_EQ(together(10, 9, 20, 19), 28);  // all communication, one after the other
}

// p = 2, one micro-batch, F = 10, B = 8, W = 5, sends 3; S = 4, T = 6, broadcast 1, barriers 2
// and 7.
TEST(Simulate, CutOutputLayerByHand) {
  Shape s{2, 1, 1};
  OwnedCosts c = testing::split_costs(s, 10, 8, 5, 3);
  c.outputs.assign(2, {4, 6, 0});
  c.output_links = {1, 2, 7};
  const std::vector<Action> rank{{0, 0, F}, {0, 0, S}, {0, 0, T}, {0, 0, B}, {0, 0, W}};
  for (const OutputLayer output : {OutputLayer::two_barriers, OutputLayer::interlaced}) {
    s.output = output;
    const Ran r = run(by_hand(s, Placement::looped, {rank, rank}), c);
    // Rank 0's S waits for the broadcast 23-24, and the barrier for rank 0's S; T from 28 + 2.
    EXPECT_EQ(intervals(r, 1), "13-23 23-27 30-36 43-51 51-56");
    EXPECT_EQ(intervals(r, 0), "0-10 24-28 30-36 54-62 62-67");
  }
  s.output = OutputLayer::one_barrier;
  const std::vector<Action> late{{0, 0, F}, {0, 0, S}, {0, 0, B}, {0, 0, W}, {0, 0, T}};
  const Ran r = run(by_hand(s, Placement::looped, {late, late}), c);
  EXPECT_EQ(intervals(r, 1), "13-23 23-27 30-38 38-43 43-49");
  EXPECT_EQ(intervals(r, 0), "0-10 24-28 41-49 49-54 54-60");
}

// Interlaced, rank 0 stands after T until the second collective is over at 36 + 7, though its next
// forward could start at 36.
TEST(Simulate, InterlacedStandsUntilTheCollectiveIsOver) {
  Shape s{2, 1, 2, 0, OutputLayer::two_barriers};
  OwnedCosts c = testing::split_costs(s, 10, 8, 5, 3);
  c.outputs.assign(2, {4, 6, 0});
  c.output_links = {1, 2, 7};
  const auto output = [](int mb) { return std::vector<Action>{{mb, 0, S}, {mb, 0, T}}; };
  const auto join = [](std::initializer_list<std::vector<Action>> parts) {
    std::vector<Action> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  };
  const Action bw0{0, 0, Kind::backward};
  const Action bw1{1, 0, Kind::backward};
  const Action f0{0, 0, F};
  const Action f1{1, 0, F};
  const auto rank0 = join({{f0}, output(0), {f1, bw0}, output(1), {bw1}});
  const auto rank1 = join({{f0}, output(0), {bw0, f1}, output(1), {bw1}});
  const Ran free = run(by_hand(s, Placement::looped, {rank0, rank1}), c);
  EXPECT_EQ(free.timeline[3].start, 36);
  s.output = OutputLayer::interlaced;
  const Ran stands = run(by_hand(s, Placement::looped, {rank0, rank1}), c);
  EXPECT_EQ(stands.timeline[3].start, 43);
  EXPECT_EQ(stands.timeline[3].end, 53);
}

// No interval overlaps another of its rank, and no action starts before what it takes has come.
TEST(Simulate, NothingIsUsedBeforeItIsReceived) {
  Rng rng(7);
  for (const Shape s : {Shape{4, 1, 11}, Shape{4, 2, 11}, Shape{3, 3, 13, 5}, Shape{8, 2, 3}}) {
    const OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
    const Ran r = run(s.chunks > 1 ? "interleaved-1f1b" : "1f1b", s, c);
    const auto m = static_cast<std::size_t>(s.micro_batches);
    const auto slots = static_cast<std::size_t>(slot_count(s));
    std::vector<Interval> forward(slots * m);
    std::vector<Interval> backward(slots * m);
    std::size_t i = 0;
    for (int rank = 0; rank < s.pp; ++rank) {
      Picoseconds free_at = 0;
      for (const Action& a : r.order.of(rank)) {
        const auto slot = static_cast<std::size_t>(slot_of(s, rank, a.chunk));
        auto& table = a.kind == Kind::forward ? forward : backward;
        table[slot * m + static_cast<std::size_t>(a.micro_batch)] = r.timeline[i];
        EXPECT_GE(r.timeline[i].start, free_at);
        free_at = r.timeline[i++].end;
      }
    }
    for (int stage = 0; stage < slot_count(s); ++stage) {
      const auto here = static_cast<std::size_t>(slot_at(s, Placement::looped, stage));
      for (std::size_t mb = 0; mb < m; ++mb) {
        EXPECT_GE(backward[here * m + mb].start, forward[here * m + mb].end);
        if (stage == 0) continue;
        const auto above = static_cast<std::size_t>(slot_at(s, Placement::looped, stage - 1));
        EXPECT_GE(forward[here * m + mb].start,
                  forward[above * m + mb].end + c.links[above].forward);
        EXPECT_GE(backward[above * m + mb].start,
                  backward[here * m + mb].end + c.links[here].backward);
      }
    }
  }
}

TEST(Simulate, AnOrderThatWaitsForItselfIsADiagnostic) {
  Order order;
  ASSERT_TRUE(make_order("1f1b", {2, 1, 2}, order).has_value());
  std::swap(order.actions[1], order.actions[2]);  // rank 0: F0 B0 F1 B1; fine, only slower
  const OwnedCosts c = equal_costs(order.shape, 10, 20);
  Workspace w;
  Timing timing;
  ASSERT_TRUE(simulate(order, c, w, timing).has_value());
  EXPECT_GT(timing.makespan, 90);

  std::swap(order.actions[0], order.actions[1]);  // rank 0: B0 F0 F1 B1
  const auto r = simulate(order, c, w, timing);
  ASSERT_FALSE(r.has_value());
  ASSERT_EQ(r.error().size(), 2u);
  EXPECT_EQ(r.error()[0].message,
            "the order cannot complete: rank 0 waits for the input of backward of micro-batch 0 on "
            "chunk 0, which never comes");
  EXPECT_EQ(r.error()[1].message,
            "the order cannot complete: rank 1 waits for the input of forward of micro-batch 0 on "
            "chunk 0, which never comes");
}

// What is named is what the rank waits for: the input of the second of a pair, a collective.
TEST(Simulate, ADiagnosticNamesWhatTheRankWaitsFor) {
  Workspace w;
  Timing timing;
  const Shape s{2, 1, 2};
  const OwnedCosts c = testing::split_costs(s, 10, 8, 5, 3);
  Order order;
  ASSERT_TRUE(make_order("1f1b", s, order).has_value());
  // rank 0: F0, F1 beside BW0; rank 1: F1 first, which waits for rank 0.
  order.actions[1].with_next = true;
  std::swap(order.actions[4], order.actions[6]);
  auto r = simulate(order, c, w, timing);
  ASSERT_FALSE(r.has_value());
  ASSERT_EQ(r.error().size(), 2u);
  EXPECT_EQ(r.error()[0].message,
            "the order cannot complete: rank 0 waits for the input of backward of micro-batch 0 on "
            "chunk 0, which never comes");

  // Rank 1 has its first forward behind its first backward, so rank 0 never gets past its own T.
  const Shape cut{2, 1, 2, 0, OutputLayer::interlaced};
  begin_order(cut, Placement::looped, order);
  order.actions = {{0, 0, F}, {1, 0, F}, {0, 0, S}, {0, 0, T}, {0, 0, B}};
  end_rank(order);
  order.actions.insert(order.actions.end(), {{0, 0, F}, {0, 0, S}, {1, 0, B}, {0, 0, T}});
  end_rank(order);
  r = simulate(order, c, w, timing);
  ASSERT_FALSE(r.has_value());
  ASSERT_EQ(r.error().size(), 2u);
  EXPECT_EQ(
      r.error()[0].message,
      "the order cannot complete: rank 0 waits for the input of input gradient of micro-batch "
      "0 on chunk 0, which never comes");
  EXPECT_EQ(
      r.error()[1].message,
      "the order cannot complete: rank 1 waits for the input of input gradient of micro-batch "
      "1 on chunk 0, which never comes");
  order.actions[4] = {1, 0, S};
  r = simulate(order, c, w, timing);
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(
      r.error()[0].message,
      "the order cannot complete: rank 0 waits for the input of output share of micro-batch 1 "
      "on chunk 0, which never comes");
  order.actions[1] = {0, 0, S};
  order.actions[2] = {0, 0, T};
  order.actions[3] = {1, 0, F};
  r = simulate(order, c, w, timing);
  ASSERT_FALSE(r.has_value());
  EXPECT_EQ(
      r.error()[0].message,
      "the order cannot complete: rank 0 waits for all ranks to end output share's gradient of "
      "micro-batch 0 on chunk 0, which never comes");
}

TEST(Simulate, WarmWorkspaceKeepsItsMemory) {
  const Shape s{4, 2, 16};
  Order order;
  ASSERT_TRUE(make_order("interleaved-1f1b", s, order).has_value());
  const OwnedCosts c = equal_costs(s, 10, 20, 1);
  Workspace w;
  Timing timing;
  std::vector<Interval> timeline;
  ASSERT_TRUE(simulate(order, c, w, timing, &timeline).has_value());
  const void* const before[] = {w.ends.data(), w.ready.data(), timing.ranks.data(),
                                timing.peaks.in_flight.data(), timeline.data()};
  const Picoseconds makespan = timing.makespan;
  ASSERT_TRUE(simulate(order, c, w, timing, &timeline).has_value());
  const void* const after[] = {w.ends.data(), w.ready.data(), timing.ranks.data(),
                               timing.peaks.in_flight.data(), timeline.data()};
  EXPECT_TRUE(std::equal(std::begin(before), std::end(before), std::begin(after)));
  EXPECT_EQ(timing.makespan, makespan);
}

// Slower actions or links never make the step shorter; blocking sends never beat overlapped ones.
TEST(Simulate, MoreTimeIsNeverFaster) {
  Rng rng(3);
  Workspace w;
  Order order;
  Timing a;
  Timing b;
  for (int i = 0; i < 200; ++i) {
    const Shape s{4, 2, 1 + static_cast<int>(rng.below(20))};
    ASSERT_TRUE(make_order("interleaved-1f1b", s, order).has_value());
    OwnedCosts c = testing::random_costs(s, rng, Sends::overlapped);
    ASSERT_TRUE(simulate(order, c, w, a).has_value());
    OwnedCosts slower = c;
    slower.sends = Sends::blocking;
    ASSERT_TRUE(simulate(order, slower, w, b).has_value());
    EXPECT_LE(a.makespan, b.makespan);
    slower = c;
    slower.chunks[rng.below(8)].forward += 5;
    slower.links[rng.below(8)].backward += 5;
    ASSERT_TRUE(simulate(order, slower, w, b).has_value());
    EXPECT_LE(a.makespan, b.makespan);
  }
}

// Deeper pipelines and odd groups than the exhaustive cases reach: all complete.
TEST(Simulate, InterleavedCompletesForAnyNumberOfMicroBatches) {
  Workspace w;
  Order order;
  Timing timing;
  for (const int p : {2, 3, 5, 8, 16}) {
    for (const int v : {2, 3, 4}) {
      for (const int group : {0, p, p + 1, 2 * p - 1, 3 * p}) {
        for (int m = 1; m <= 3 * p + 2; ++m) {
          const Shape s{p, v, m, group};
          ASSERT_TRUE(make_order("interleaved-1f1b", s, order).has_value());
          const auto r = simulate(order, equal_costs(s, 1, 2), w, timing);
          ASSERT_TRUE(r.has_value()) << p << " " << v << " " << group << " " << m;
        }
      }
    }
  }
}

}  // namespace
}  // namespace eratos::schedule
