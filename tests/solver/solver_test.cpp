// CBC and the clock: the program it solves agrees with every order of tiny problems and with our
// own search on larger ones; the time limit holds.
#include "eratos/solver/solver.h"

#include <gtest/gtest.h>

#include <chrono>

#include "eratos/solver/cbc.h"
#include "eratos/solver/model.h"
#include "solver/brute_force.h"
#include "solver/problems.h"

namespace eratos::solver {
namespace {

using schedule::Effort;
using schedule::Placement;
using schedule::Sends;
using schedule::Solution;
using schedule::testing::Draw;
using schedule::testing::OwnedProblem;
using schedule::testing::random_problem;

// CBC with nothing before it but the warm start.
Result<Solution> by_cbc(const OwnedProblem& p, double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  const auto cbc = make_cbc([=] {
    return seconds -
           std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  return schedule::find_optimal(p.problem(), cbc.get(), Effort{.moves = 0, .branch_nodes = 0});
}

class WithCbc : public ::testing::Test {
 protected:
  void SetUp() override {
    if (solver_name().empty()) GTEST_SKIP() << solver_note();
  }
};

TEST_F(WithCbc, AgreesWithEveryOrder) {
  Rng rng(2);
  int open = 0;
  for (int seed = 0; seed < 4; ++seed) {
    for (int kind = 0; kind < 12; ++kind) {
      const bool limited = kind % 2 != 0;
      const Sends sends = kind % 4 < 2 ? Sends::overlapped : Sends::blocking;
      const bool split = kind >= 8;
      const schedule::Shape shape{.pp = kind < 4 ? 2 : 3, .micro_batches = kind < 4 ? 3 : 2};
      const OwnedProblem p = random_problem(
          shape, {.splits_backward = split, .sends = sends, .limited = limited}, rng);
      const auto s = by_cbc(p, 30);
      ASSERT_TRUE(s);
      EXPECT_TRUE(s->proven) << seed << " " << kind << " " << s->lower;
      EXPECT_EQ(s->makespan, schedule::testing::brute_force(p.problem()));
      open += s->solver == "bounds" ? 0 : 1;
    }
  }
  EXPECT_GT(open, 10) << "bounds alone prove these";
}

TEST_F(WithCbc, AgreesWithOurOwnSearch) {
  Rng rng(8);
  int improved = 0;
  for (int kind = 0; kind < 12; ++kind) {
    const int v = kind % 3 == 0 ? 2 : 1;
    const Draw draw{.placement = kind % 6 == 0 ? Placement::vee : Placement::looped,
                    .splits_backward = kind % 2 != 0,
                    .sends = kind % 4 == 0 ? Sends::blocking : Sends::overlapped,
                    .limited = kind % 5 != 0};
    const OwnedProblem p =
        random_problem({.pp = 3, .chunks = v, .micro_batches = v == 2 ? 3 : 4}, draw, rng);
    const auto own = schedule::find_optimal(p.problem(), nullptr, {});
    const auto s = by_cbc(p, 20);
    ASSERT_TRUE(own && s);
    ASSERT_TRUE(own->proven);
    EXPECT_LE(s->lower, own->makespan) << kind;
    EXPECT_GE(s->makespan, own->makespan) << kind;
    if (s->proven) {
      EXPECT_EQ(s->makespan, own->makespan) << kind;
    }
    improved += s->makespan < s->start_makespan ? 1 : 0;
  }
  EXPECT_GT(improved, 4);
}

// Times of a real job are not small whole numbers; then a proof is true to kOptimalTolerance.
TEST_F(WithCbc, TimesInPicoseconds) {
  Rng rng(4);
  for (int seed = 0; seed < 6; ++seed) {
    OwnedProblem p = random_problem({.pp = 3, .micro_batches = 4}, {.limited = true}, rng);
    for (schedule::ChunkCost& c : p.chunks) {
      c.forward = c.forward * 1'234'567'891 + 17;
      c.backward = c.backward * 1'234'567'891 + 5;
    }
    const auto own = schedule::find_optimal(p.problem(), nullptr, {});
    const auto s = by_cbc(p, 20);
    ASSERT_TRUE(own && s);
    ASSERT_TRUE(own->proven);
    EXPECT_TRUE(s->proven);
    EXPECT_LE(s->lower, own->makespan);
    EXPECT_LE(static_cast<double>(s->makespan - own->makespan),
              schedule::kOptimalTolerance * static_cast<double>(own->makespan));
  }
}

// Eight stages, sixteen micro-batches, a rank may hold four: proven by CBC alone.
TEST_F(WithCbc, EightStagesSixteenMicroBatches) {
  OwnedProblem p = schedule::testing::equal_problem({.pp = 8, .micro_batches = 16}, false);
  p.limits.assign(8, 4 * 4);
  const auto s = by_cbc(p, 60);
  ASSERT_TRUE(s);
  EXPECT_TRUE(s->proven);
  EXPECT_EQ(s->makespan, schedule::find_optimal(p.problem(), nullptr, {})->makespan);
}

// The warm start is a feasible point of the program.
TEST(Model, WarmStartIsFeasible) {
  Rng rng(6);
  for (int kind = 0; kind < 24; ++kind) {
    const int v = kind % 3 == 0 ? 2 : 1;
    const Draw draw{.placement = kind % 6 == 0 ? Placement::vee : Placement::looped,
                    .splits_backward = kind % 2 != 0,
                    .sends = kind % 4 < 2 ? Sends::blocking : Sends::overlapped,
                    .limited = kind % 5 != 0};
    const OwnedProblem p = random_problem({.pp = 3, .chunks = v, .micro_batches = 5}, draw, rng);
    const auto best =
        schedule::find_optimal(p.problem(), nullptr, {.moves = 50, .branch_nodes = 0});
    ASSERT_TRUE(best);
    const Model model = build_model(p.problem(), *best);
    EXPECT_LE(model.binaries(), schedule::order_choices(p.problem()));
    constexpr double kEps = 1e-6;
    for (std::size_t c = 0; c < model.start.size(); ++c) {
      EXPECT_GE(model.start[c], model.lower[c] - kEps) << kind << " column " << c;
      EXPECT_LE(model.start[c], model.upper[c] + kEps) << kind << " column " << c;
    }
    for (const Row& row : model.rows) {
      double sum = 0;
      for (const Entry& e : row.entries) {
        sum += e.value * model.start[static_cast<std::size_t>(e.column)];
      }
      EXPECT_GE(sum, row.low - kEps) << kind;
    }
  }
}

// Nearly equal stages and memory for four micro-batches: good orders are many, proofs are long.
OwnedProblem hard_problem() {
  Rng rng(7);
  OwnedProblem p = schedule::testing::equal_problem({.pp = 8, .micro_batches = 24}, true);
  for (schedule::ChunkCost& c : p.chunks) {
    c.forward = 10'000'003 + static_cast<Picoseconds>(rng.below(5'000'000));
    c.input_gradient = 10'000'003 + static_cast<Picoseconds>(rng.below(5'000'000));
    c.weight_gradient = 10'000'003 + static_cast<Picoseconds>(rng.below(5'000'000));
  }
  p.limits.assign(8, 4 * 4);
  return p;
}

TEST(OptimalOrder, TimeLimitHoldsAndTheGapIsReported) {
  const OwnedProblem p = hard_problem();
  const auto begin = std::chrono::steady_clock::now();
  const auto s = optimal_order(p.problem(), {.time_limit = Seconds{2}});
  const double wall =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  ASSERT_TRUE(s);
  EXPECT_FALSE(s->proven) << "too easy to show anything";
  EXPECT_GT(s->gap, 0);
  EXPECT_LT(s->gap, 1);
  EXPECT_LE(s->seconds.value, wall);
  EXPECT_LT(wall, 2 + 3);  // the machine may be busy
}

TEST(OptimalOrder, EndsWhenToldToWithTheBestSoFar) {
  const OwnedProblem p = hard_problem();
  for (const bool at_once : {true, false}) {
    Found last;
    const auto s =
        optimal_order(p.problem(), {.time_limit = Seconds{300}, .go_on = [&](const Found& f) {
                                      last = f;
                                      return !at_once && f.seconds.value < 0.5;
                                    }});
    ASSERT_TRUE(s.has_value());
    EXPECT_LT(s->seconds.value, 60);
    EXPECT_FALSE(s->proven);
    EXPECT_GT(s->gap, 0);
    EXPECT_GT(last.makespan, 0);
    EXPECT_GE(last.makespan, s->makespan);
    EXPECT_LE(last.lower, s->lower);
    EXPECT_EQ(s->solver.find("cbc"), std::string::npos) << s->solver;
  }
}

TEST(OptimalOrder, RefusesATimeLimitOfNothing) {
  const OwnedProblem p = schedule::testing::equal_problem({.pp = 2, .micro_batches = 2}, false);
  const auto s = optimal_order(p.problem(), {.time_limit = Seconds{0}});
  ASSERT_FALSE(s);
  EXPECT_EQ(s.error().front().field, "schedule.time_limit");
}

TEST(OptimalOrder, SaysWhoSearched) {
  Rng rng(12);
  const OwnedProblem p = random_problem({.pp = 4, .micro_batches = 6}, {.limited = true}, rng);
  const auto s = optimal_order(p.problem(), {.time_limit = Seconds{20}});
  ASSERT_TRUE(s);
  EXPECT_TRUE(s->proven);
  EXPECT_EQ(s->solver.rfind("moves", 0), 0U) << s->solver;
  EXPECT_NE(solver_name().empty(), solver_note().empty());
}

}  // namespace
}  // namespace eratos::solver
