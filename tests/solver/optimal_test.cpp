// The core's own search: it agrees with every order of tiny problems, no registered schedule beats
// it, and what it calls proven is.
#include "eratos/schedule/optimal.h"

#include <gtest/gtest.h>

#include <string>

#include "eratos/schedule/peak.h"
#include "eratos/schedule/registry.h"
#include "solver/brute_force.h"
#include "solver/problems.h"

namespace eratos::schedule {
namespace {

using testing::Draw;
using testing::OwnedProblem;
using testing::random_problem;

std::string say(const OwnedProblem& p) {
  std::string text = "p " + std::to_string(p.shape.pp) + " v " + std::to_string(p.shape.chunks) +
                     " m " + std::to_string(p.shape.micro_batches) +
                     (p.splits_backward ? " split" : "") +
                     (p.sends == Sends::blocking ? " blocking" : "") +
                     (p.placement == Placement::vee ? " vee" : "");
  for (const std::int64_t limit : p.limits) text += " " + std::to_string(limit);
  return text;
}

// An answer holds what it says: complete, within the limits, simulated, bound below.
void expect_sound(const OwnedProblem& p, const Solution& s) {
  ASSERT_TRUE(is_complete(s.order)) << say(p);
  Workspace workspace;
  Timing timing;
  ASSERT_TRUE(simulate(s.order, p.problem().costs, workspace, timing)) << say(p);
  EXPECT_EQ(timing.makespan, s.makespan) << say(p);
  for (std::size_t r = 0; r < p.limits.size(); ++r) {
    EXPECT_LE(timing.peaks.ranks[r].held, p.limits[r]) << say(p) << " rank " << r;
  }
  EXPECT_LE(s.lower, s.makespan) << say(p);
  EXPECT_LE(s.makespan, s.start_makespan) << say(p);
  EXPECT_DOUBLE_EQ(s.gap,
                   static_cast<double>(s.makespan - s.lower) / static_cast<double>(s.makespan));
}

// Shapes whose orders are few enough to try all.
struct Tiny {
  int pp;
  int chunks;
  int micro_batches;
  Draw draw;
};

class BruteForce : public ::testing::TestWithParam<Tiny> {};

TEST_P(BruteForce, AgreesWithEveryOrder) {
  const Tiny t = GetParam();
  Rng rng(11);
  for (int seed = 0; seed < 12; ++seed) {
    for (const bool limited : {false, true}) {
      for (const Sends sends : {Sends::overlapped, Sends::blocking}) {
        Draw draw = t.draw;
        draw.limited = limited;
        draw.sends = sends;
        const OwnedProblem p = random_problem(
            {.pp = t.pp, .chunks = t.chunks, .micro_batches = t.micro_batches}, draw, rng);
        const auto s = find_optimal(p.problem(), nullptr, {});
        ASSERT_TRUE(s) << say(p) << to_text(s.error().front());
        expect_sound(p, *s);
        const Picoseconds best = testing::brute_force(p.problem());
        EXPECT_EQ(s->makespan, best) << say(p);
        EXPECT_TRUE(s->proven) << say(p);
        EXPECT_LE(optimal_lower(p.problem()), best) << say(p);
        // Branching alone, without the moves that may hide what it misses.
        const auto branched = find_optimal(p.problem(), nullptr, {.moves = 0});
        ASSERT_TRUE(branched);
        EXPECT_EQ(branched->makespan, best) << say(p);
        EXPECT_TRUE(branched->proven) << say(p);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, BruteForce,
                         ::testing::Values(Tiny{1, 1, 3, {}}, Tiny{2, 1, 2, {}}, Tiny{2, 1, 3, {}},
                                           Tiny{3, 1, 2, {}},
                                           Tiny{2, 1, 2, {.splits_backward = true}},
                                           Tiny{3, 1, 2, {.splits_backward = true}},
                                           Tiny{2, 2, 2, {}},
                                           Tiny{2, 2, 2, {.placement = Placement::vee}}));

// Cut short, the bound is still below the optimum and the order still fits.
TEST(Optimal, ShortEffortsStaySound) {
  Rng rng(5);
  int open = 0;
  for (int seed = 0; seed < 60; ++seed) {
    const Draw draw{.splits_backward = seed % 2 == 0, .limited = true};
    const OwnedProblem p = random_problem({.pp = 3, .micro_batches = 6}, draw, rng);
    const auto whole = find_optimal(p.problem(), nullptr, {});
    ASSERT_TRUE(whole);
    ASSERT_TRUE(whole->proven) << say(p);
    for (const std::int64_t nodes : {1, 50, 200, 400}) {
      const auto cut = find_optimal(p.problem(), nullptr, {.moves = 20, .branch_nodes = nodes});
      ASSERT_TRUE(cut);
      expect_sound(p, *cut);
      EXPECT_LE(cut->lower, whole->makespan) << say(p);
      EXPECT_GE(cut->makespan, whole->makespan) << say(p);
      open += cut->proven ? 0 : 1;
    }
  }
  EXPECT_GT(open, 10) << "the efforts are not short enough to show anything";
}

// p to 4, m to 6, with and without limits, v to 2 and both placements.
TEST(Optimal, NoRegisteredScheduleBeatsIt) {
  Rng rng(3);
  int proven = 0;
  int compared = 0;
  int improved = 0;
  for (int p = 1; p <= 4; ++p) {
    for (int v = 1; v <= 2; ++v) {
      for (int m = 1; m <= (v == 1 ? 6 : 4); ++m) {
        for (int kind = 0; kind < 16; ++kind) {
          const Draw draw{.placement = (kind & 1) != 0 ? Placement::vee : Placement::looped,
                          .splits_backward = (kind & 2) != 0,
                          .sends = (kind & 4) != 0 ? Sends::blocking : Sends::overlapped,
                          .limited = (kind & 8) != 0};
          if (draw.placement == Placement::vee && v != 2) continue;
          // Minutes each: blocking sends leave branch and bound little to drop.
          if (draw.sends == Sends::blocking && draw.splits_backward && v == 2 && m > 2) continue;
          const OwnedProblem owned =
              random_problem({.pp = p, .chunks = v, .micro_batches = m}, draw, rng);
          const OptimalProblem problem = owned.problem();
          const auto s = find_optimal(problem, nullptr, {});
          ASSERT_TRUE(s) << say(owned);
          expect_sound(owned, *s);
          proven += s->proven ? 1 : 0;
          EXPECT_TRUE(s->proven) << say(owned) << " gap " << s->gap;
          for (const Schedule* schedule : kSchedules) {
            if (schedule->placement != problem.placement || schedule->side_by_side) continue;
            if (schedule->splits_backward != problem.splits_backward) continue;
            Order order;
            if (!make_order(*schedule, problem.shape, problem.costs, order)) continue;
            Workspace workspace;
            Timing timing;
            ASSERT_TRUE(simulate(order, problem.costs, workspace, timing));
            bool fits = true;
            for (std::size_t r = 0; r < owned.limits.size(); ++r) {
              fits = fits && timing.peaks.ranks[r].held <= owned.limits[r];
            }
            if (!fits) continue;
            ++compared;
            improved += s->makespan < timing.makespan ? 1 : 0;
            EXPECT_LE(s->makespan, timing.makespan) << say(owned) << " " << schedule->name;
            EXPECT_LE(s->lower, timing.makespan) << say(owned) << " " << schedule->name;
          }
        }
      }
    }
  }
  EXPECT_GT(proven, 300);
  EXPECT_GT(compared, 300);
  EXPECT_GT(improved, 100);
}

// Equal stages, F = B = W, no limit: every rank's work and the way down to the last one are all
// there is. BW whole: (m + p - 1)(F + BW), as GPipe and 1F1B.
TEST(Optimal, LooseLimitsMeetTheKnownBounds) {
  for (const int p : {2, 4}) {
    for (const int m : {8, 12}) {
      const auto split = find_optimal(
          testing::equal_problem({.pp = p, .micro_batches = m}, true).problem(), nullptr, {});
      ASSERT_TRUE(split);
      EXPECT_EQ(split->makespan, (3 * m + p - 1) * 10);
      EXPECT_TRUE(split->proven);
      const auto whole = find_optimal(
          testing::equal_problem({.pp = p, .micro_batches = m}, false).problem(), nullptr, {});
      ASSERT_TRUE(whole);
      EXPECT_EQ(whole->makespan, (m + p - 1) * 30);
      EXPECT_TRUE(whole->proven);
    }
  }
}

// The worked example of the header.
TEST(Optimal, WorkedExample) {
  OwnedProblem p = testing::equal_problem({.pp = 2, .micro_batches = 2}, false);
  p.limits = {4, 4};
  const auto one = find_optimal(p.problem(), nullptr, {});
  ASSERT_TRUE(one);
  EXPECT_EQ(one->makespan, 120);
  EXPECT_TRUE(one->proven);
  p.limits = {8, 4};
  const auto two = find_optimal(p.problem(), nullptr, {});
  ASSERT_TRUE(two);
  EXPECT_EQ(two->makespan, 90);
  EXPECT_EQ(two->lower, 90);
}

// With more bytes nothing gets slower.
TEST(Optimal, MoreMemoryIsNeverSlower) {
  Rng rng(17);
  for (int seed = 0; seed < 10; ++seed) {
    OwnedProblem p = random_problem({.pp = 3, .micro_batches = 5},
                                    {.splits_backward = seed % 2 == 0, .limited = true}, rng);
    const auto less = find_optimal(p.problem(), nullptr, {});
    for (std::int64_t& limit : p.limits) limit += 3;
    const auto more = find_optimal(p.problem(), nullptr, {});
    ASSERT_TRUE(less && more);
    ASSERT_TRUE(less->proven && more->proven);
    EXPECT_LE(more->makespan, less->makespan) << say(p);
  }
}

TEST(Optimal, Refusals) {
  OwnedProblem p = testing::equal_problem({.pp = 2, .micro_batches = 3}, false);
  p.limits = {8, 3};
  const auto small = find_optimal(p.problem(), nullptr, {});
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().front().message,
            "rank 1 may hold 3 bytes, but one micro-batch alone holds 4 there");
  EXPECT_EQ(small.error().front().field, "schedule.memory_limit");
  EXPECT_FALSE(small.error().front().cure.empty());

  const OwnedProblem large = testing::equal_problem({.pp = 16, .micro_batches = 256}, false);
  EXPECT_EQ(order_choices(large.problem()), 16 * 256 * 255 / 2);
  const auto many = find_optimal(large.problem(), nullptr, {});
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().front().message.find("522240 binaries"), std::string::npos)
      << many.error().front().message;

  const OwnedProblem wide = testing::equal_problem({.pp = 2000, .micro_batches = 2}, false);
  const auto actions = find_optimal(wide.problem(), nullptr, {});
  ASSERT_FALSE(actions);
  EXPECT_NE(actions.error().front().message.find("has 8000"), std::string::npos);

  OptimalProblem both = p.problem();
  both.placement = Placement::bidirectional;
  EXPECT_FALSE(find_optimal(both, nullptr, {}));
  OptimalProblem cut = p.problem();
  cut.shape.output = OutputLayer::two_barriers;
  EXPECT_FALSE(find_optimal(cut, nullptr, {}));
  OptimalProblem vee = p.problem();
  vee.placement = Placement::vee;
  EXPECT_FALSE(find_optimal(vee, nullptr, {}));
}

// Counted by trying every pair of actions of a rank, which no data put in order.
TEST(Optimal, OrderChoices) {
  EXPECT_EQ(order_choices(testing::equal_problem({.pp = 8, .micro_batches = 16}, false).problem()),
            960);
  EXPECT_EQ(order_choices(testing::equal_problem({.pp = 1, .micro_batches = 3}, true).problem()),
            9);
  // F F B B of two chunks: six pairs of sequences, one pair of micro-batches each.
  EXPECT_EQ(
      order_choices(
          testing::equal_problem({.pp = 3, .chunks = 2, .micro_batches = 2}, false).problem()),
      3 * 6);
  // And with W: W of both chunks after both F (4), after B of its own and the deeper chunk (3);
  // W 1 and B 0, and W 0 and W 1, are open in all 4 pairs of micro-batches.
  EXPECT_EQ(order_choices(
                testing::equal_problem({.pp = 1, .chunks = 2, .micro_batches = 2}, true).problem()),
            6 + 4 + 3 + 4 + 4);
}

// A solver that hands in rubbish.
class Liar : public Solver {
 public:
  explicit Liar(Proposal proposal) : proposal_(std::move(proposal)) {}
  std::string_view name() const override { return "liar"; }
  Result<Proposal> solve(const OptimalProblem&, const Solution&) override { return proposal_; }

 private:
  Proposal proposal_;
};

TEST(Optimal, ProposalsAreChecked) {
  OwnedProblem p = testing::equal_problem({.pp = 2, .micro_batches = 4}, false);
  p.limits = {8, 4};
  const Effort none{.moves = 0, .branch_nodes = 0};
  const auto alone = find_optimal(p.problem(), nullptr, none);
  ASSERT_TRUE(alone);

  Proposal above_limit;  // GPipe holds 4 micro-batches
  ASSERT_TRUE(make_order("gpipe", p.shape, above_limit.order));
  Proposal incomplete = above_limit;
  incomplete.order.actions[0].micro_batch = 1;
  Proposal other_shape;
  ASSERT_TRUE(make_order("1f1b", {.pp = 2, .micro_batches = 3}, other_shape.order));
  Proposal split = above_limit;  // actions that the problem does not have
  for (Action& a : split.order.actions) {
    if (a.kind == Kind::backward) a.kind = Kind::input_gradient;
  }
  for (const Proposal& bad : {above_limit, incomplete, other_shape, split}) {
    Liar liar(bad);
    const auto s = find_optimal(p.problem(), &liar, none);
    ASSERT_TRUE(s);
    expect_sound(p, *s);
    EXPECT_EQ(s->makespan, alone->makespan);
  }

  // A bound is taken as told, and an order that is better is.
  p.limits = {};
  p.chunks[0].forward = 25;
  const auto open = find_optimal(p.problem(), nullptr, none);
  ASSERT_TRUE(open);
  Liar bound(Proposal{.lower = open->makespan});
  const auto closed = find_optimal(p.problem(), &bound, none);
  ASSERT_TRUE(closed);
  EXPECT_TRUE(closed->proven);
}

TEST(Optimal, SameAnswerEveryTime) {
  Rng rng(23);
  const OwnedProblem p = random_problem({.pp = 4, .micro_batches = 8},
                                        {.splits_backward = true, .limited = true}, rng);
  const Effort effort{.moves = 500, .branch_nodes = 3000};
  const auto a = find_optimal(p.problem(), nullptr, effort);
  const auto b = find_optimal(p.problem(), nullptr, effort);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->order.actions, b->order.actions);
  EXPECT_EQ(a->lower, b->lower);
}

TEST(Optimal, StopsWhenTold) {
  const Rng seed(1);
  Rng rng = seed;
  const OwnedProblem p = random_problem({.pp = 8, .micro_batches = 16},
                                        {.splits_backward = true, .limited = true}, rng);
  int asked = 0;
  const auto s = find_optimal(p.problem(), nullptr, {.stop = [&] { return ++asked > 10; }});
  ASSERT_TRUE(s);
  expect_sound(p, *s);
  EXPECT_LT(s->nodes, 5000);
}

}  // namespace
}  // namespace eratos::schedule
