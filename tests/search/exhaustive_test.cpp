// The exhaustive search finds what brute force finds, and its proof adds up.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../projection/spread.h"
#include "eratos/base/rng.h"
#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/search/around.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/front.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"
#include "eratos/search/walk.h"
#include "search/jobs.h"
#include "search/run.h"

namespace eratos::search {
namespace {

struct Brute {
  std::uint64_t illegal = 0;
  std::uint64_t too_big = 0;
  std::uint64_t fitting = 0;
  std::map<std::uint64_t, double> best;      // by family
  std::map<std::int64_t, double> by_memory;  // by whole GiB
};

// Every candidate by itself: its rules, its screen, its projection.
Brute brute_force(const Space& space, Evaluator& evaluator) {
  Brute out;
  out.illegal = space.raw();
  for_each_legal(space, [&](const Candidate& at) {
    --out.illegal;
    const Tell told = evaluator.answer({Ask::What::project, at});
    if (!told.fits) {
      ++out.too_big;
      return;
    }
    ++out.fitting;
    const auto [family, fresh] = out.best.try_emplace(family_of(space, at), told.figure);
    if (!fresh) family->second = std::min(family->second, told.figure);
    const auto [peak, first] = out.by_memory.try_emplace(whole_gib(told.device_peak), told.figure);
    if (!first) peak->second = std::min(peak->second, told.figure);
  });
  return out;
}

// Less memory first, and each faster than all that hold no more.
void check_front(const std::vector<Found>& front, const std::map<std::int64_t, double>& by_memory) {
  std::vector<std::pair<std::int64_t, double>> expected;
  for (const auto& [peak, figure] : by_memory) {
    if (expected.empty() || figure < expected.back().second) expected.emplace_back(peak, figure);
  }
  ASSERT_EQ(front.size(), expected.size());
  for (std::size_t i = 0; i < front.size(); ++i) {
    EXPECT_EQ(whole_gib(front[i].device_peak), expected[i].first);
    EXPECT_EQ(front[i].figure, expected[i].second);
  }
}

// The header's example.
TEST(Front, TakesWhatNothingBeats) {
  const auto point = [](double memory, double time, double third = 0) {
    Found f;
    f.along = {memory, time, third};
    return f;
  };
  Front front;
  front.take(point(60, 5e-6));
  front.take(point(70, 4e-6));
  EXPECT_FALSE(front.open_to({65, 5e-6, 0}));
  EXPECT_TRUE(front.open_to({65, 4.5e-6, 0}));
  EXPECT_TRUE(front.open_to({59, 9e-6, 0}));
  EXPECT_FALSE(front.open_to({70, 4e-6, 0}));
  front.take(point(65, 4.5e-6));
  ASSERT_EQ(front.points().size(), 3U);
  EXPECT_EQ(front.points()[1].along[1], 4.5e-6);
  front.take(point(65, 6e-6, -1));  // better in the third alone
  ASSERT_EQ(front.points().size(), 4U);
  front.take(point(50, 3e-6, -1));
  ASSERT_EQ(front.points().size(), 1U);
}

TEST(Exhaustive, EqualsBruteForceOverRandomSmallSpaces) {
  projection::Spread spread(51);
  Rng rng(52);
  int answered = 0;
  int empty = 0;
  int cut = 0;
  int cut_too_big = 0;
  for (int i = 0; i < 200; ++i) {
    projection::DrawnJob drawn = spread.next();
    drawn.spec.batch.global = std::min(drawn.spec.batch.global, 1024);
    // Small parts of memory, so that some of most spaces does not fit.
    if (rng.below(3) == 0) drawn.spec.cluster.accelerator.memory_visible = gib(24);
    const auto space = space_of(drawn.spec, few_axes(drawn.spec, rng, 150));
    ASSERT_TRUE(space) << to_text(space.error()[0]);
    const calibration::Calibration& calibration = spread.calibrations[drawn.part];
    Evaluator evaluator(*space, calibration, {});
    const Brute expected = brute_force(*space, evaluator);
    const std::size_t top = 1 + rng.below(4);
    const bool front = rng.below(2) == 0;
    Exhaustive method(*space, {top, front}, {1 + rng.below(32), 1 + rng.below(8), 1 + rng.below(8)});
    const Outcome found = run(method, evaluator);
    // The answer of another search cuts from the beginning and changes nothing.
    Exhaustive again(*space, {top, front}, {1 + rng.below(32), 1 + rng.below(8)}, found.top);
    const Outcome seeded = run(again, evaluator);
    ASSERT_TRUE(seeded.proof.proven);
    ASSERT_EQ(seeded.top.size(), found.top.size());
    for (std::size_t k = 0; k < found.top.size(); ++k) {
      ASSERT_EQ(seeded.top[k].figure, found.top[k].figure);
    }

    ASSERT_TRUE(found.proof.proven);
    ASSERT_EQ(found.proof.raw, found.proof.illegal + found.proof.too_big +
                                   found.proof.cut_by_bound + found.proof.simulated);
    ASSERT_EQ(found.proof.illegal, expected.illegal);
    // What a stem's bound cuts is not asked whether it fits.
    ASSERT_LE(found.proof.too_big, expected.too_big);
    ASSERT_LE(found.proof.simulated, expected.fitting);
    ASSERT_EQ(seeded.proof.illegal, expected.illegal);
    ASSERT_LE(seeded.proof.too_big, expected.too_big);
    cut_too_big += seeded.proof.too_big < expected.too_big ? 1 : 0;
    if (front) {
      ASSERT_EQ(found.proof.too_big, expected.too_big);
    }
    std::vector<double> figures;
    for (const auto& [family, figure] : expected.best) figures.push_back(figure);
    std::sort(figures.begin(), figures.end());
    figures.resize(std::min(figures.size(), top));
    ASSERT_EQ(found.top.size(), figures.size());
    for (std::size_t k = 0; k < figures.size(); ++k) ASSERT_EQ(found.top[k].figure, figures[k]);
    if (front) check_front(found.front, expected.by_memory);
    (figures.empty() ? empty : answered) += 1;
    cut += found.proof.cut_by_bound > 0 ? 1 : 0;
  }
  EXPECT_GT(answered, 100);
  EXPECT_GT(empty, 5);
  EXPECT_GT(cut, 20);
  EXPECT_GT(cut_too_big, 5);
}

// A bound that promised more than the simulation holds would lose the optimum. A screen stands for
// every setting of the overlap switches at once; a simulation is the projection itself.
TEST(Exhaustive, BoundsAreNeverAboveTheSimulation) {
  projection::Spread spread(61, true);
  Rng rng(62);
  int tried = 0;
  int close = 0;
  int bound = 0;
  for (int i = 0; i < 600; ++i) {
    projection::DrawnJob drawn = spread.next();
    drawn.spec.batch.global = std::min(drawn.spec.batch.global, 2048);
    drawn.spec.cluster.accelerator.memory_visible = gib(1e6);
    const auto space = space_of(drawn.spec, {});
    ASSERT_TRUE(space);
    Evaluator evaluator(*space, spread.calibrations[drawn.part], {});
    const auto checked = std::make_unique<job::CheckedJob>();
    for (int k = 0; k < 60; ++k) {
      const Candidate at = candidate_at(*space, rng.next() % space->raw());
      job::JobSpec job = space->base;
      apply(*space, at, job);
      if (!job::check(job, *checked).empty() || !projection::schedule_faults(*checked).empty())
        continue;
      Candidate open = at;
      for (std::size_t axis = kScreenedAxes; axis < kAxes; ++axis) {
        open.at[axis] = static_cast<std::uint8_t>(space->axes[axis].size() - 1);
      }
      const Tell screened = evaluator.answer({Ask::What::screen, open});
      const Tell projected = evaluator.answer({Ask::What::project, at});
      ASSERT_EQ(screened.fits, projected.fits);
      if (!screened.fits) continue;
      ASSERT_LE(screened.figure, projected.figure)
          << job.model.name << " " << job.schedule.algorithm;
      ASSERT_GT(screened.figure, 0);
      for (const AxisId from : {AxisId::recompute, AxisId::pp}) {
        const Tell bounded = evaluator.answer({Ask::What::bound, at, from});
        ASSERT_LE(bounded.figure, projected.figure)
            << job.model.name << " " << job.schedule.algorithm;
        bound += bounded.figure > 0 ? 1 : 0;
      }
      const projection::Projection whole = evaluator.project(at);
      const double tokens = static_cast<double>(job.batch.global) * job.batch.sequence;
      ASSERT_EQ(projected.figure, whole.time.step.value / tokens) << job.model.name;
      ASSERT_EQ(projected.device_peak.value, whole.memory.device_peak.value);
      ++tried;
      close += screened.figure > 0.9 * projected.figure ? 1 : 0;
    }
  }
  EXPECT_GT(tried, 2000);
  EXPECT_GT(close, tried / 2);
  EXPECT_GT(bound, tried);
}

// What lets a search skip the siblings of a prefix that does not fit.
TEST(Exhaustive, MoreOffloadNeverHoldsMore) {
  projection::Spread spread(71, true);
  const auto checked = std::make_unique<job::CheckedJob>();
  const projection::WorkspacePtr workspace = projection::make_workspace();
  for (int i = 0; i < 1000; ++i) {
    projection::DrawnJob drawn = spread.next();
    if (drawn.spec.cluster.accelerator.host_link.value <= 0) continue;
    Bytes before{1e18};
    bool fitted = false;
    for (const double share : {0.0, 0.1, 0.5, 0.9, 1.0}) {
      drawn.spec.offload.optimizer = share;
      ASSERT_TRUE(job::check(drawn.spec, *checked).empty());
      const projection::Screen s =
          projection::screen(*checked, spread.calibrations[drawn.part], {}, *workspace);
      ASSERT_LE(s.least_peak, before) << drawn.spec.model.name << " " << share;
      ASSERT_TRUE(s.fits || !fitted) << drawn.spec.model.name << " " << share;
      before = s.least_peak;
      fitted = s.fits;
    }
  }
}

job::JobSpec llama() {
  job::JobSpec s;
  s.model = *reader::load_model("llama3.1-8b");
  s.framework = *reader::load_framework("megatron");
  s.cluster = *reader::load_cluster("h100-sxm-1x8");
  s.parallel.sharding = parallel::Sharding::zero1;
  s.batch = {1, 64, 8192};
  return s;
}

const std::vector<std::string> kSomeAxes{"tp=1..8",
                                         "pp=1..4",
                                         "vpp=1,2,4",
                                         "cp=1,2",
                                         "mbs=1,2",
                                         "sp=true,false",
                                         "recompute=none,selective,full",
                                         "overlap.tp=true,false",
                                         "rest=job"};

// Working ahead, all the time or never, changes no ask.
TEST(Exhaustive, WorkingAheadChangesNothing) {
  const auto space = space_of(llama(), kSomeAxes);
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator evaluator(*space, calibration, {});
  std::vector<Candidate> walks[2];
  for (const bool ahead : {false, true}) {
    Exhaustive method(*space, {2}, {32, 8, 16});
    std::vector<Tell> tells;
    for (;;) {
      const std::span<const Ask> asks = method.ask();
      if (asks.empty()) break;
      if (ahead) method.prepare();
      tells.clear();
      for (const Ask& ask : asks) {
        walks[ahead].push_back(ask.at);
        tells.push_back(evaluator.answer(ask));
      }
      method.tell(tells);
    }
    EXPECT_TRUE(method.outcome().proof.proven);
    EXPECT_GT(method.outcome().proof.cut_by_bound, 0U);
  }
  EXPECT_GT(walks[0].size(), 150U);
  EXPECT_EQ(walks[0], walks[1]);
}

// How many values a search puts into a job of its own for each answer that others work out.
struct OwnWork {
  double for_a_bound = 0;
  double for_a_screen = 0;
};

// `tell` answers everything, whatever is asked.
OwnWork own_work(const char* model, const char* cluster, const Tell& tell) {
  const auto space = space_of(job_of(model, cluster, 512), std::vector<std::string>{});
  Exhaustive method(*space, {1});
  std::vector<Tell> tells;
  std::uint64_t bounds = 0;
  std::uint64_t screens = 0;
  for (;;) {
    const std::span<const Ask> asks = method.ask();
    if (asks.empty()) break;
    if (asks[0].what == Ask::What::bound) bounds += asks.size();
    if (asks[0].what == Ask::What::screen) screens += asks.size();
    tells.assign(asks.size(), tell);
    method.tell(tells);
  }
  EXPECT_TRUE(method.outcome().proof.proven);
  EXPECT_GT(bounds, 1000U) << model;
  const auto settings = static_cast<double>(method.settings());
  return {settings / static_cast<double>(bounds), settings / static_cast<double>(screens)};
}

// What one thread does alone is little beside what any number can share. A value takes some 12 ns,
// a bound 10 to 20 us: 110, 180 and 420 values a bound here. A walk behind each stem whose own
// values differ from all before it was 1,700, 3,000 and 1,900.
TEST(Exhaustive, CountingWhatIsCutIsLittleWorkBesideTheBounds) {
  Tell alike;  // the first answer cuts all that is not asked yet
  alike.fits = true;
  alike.figure = 1e-6;
  make_plain(alike);
  for (const char* model : {"deepseek-v3", "mixtral-8x22b", "llama3.1-70b"}) {
    EXPECT_LT(own_work(model, "h100-sxm-64x8", alike).for_a_bound, 600) << model;
  }
}

// A screen takes 4 us and more: 10 and 11 values a screen.
TEST(Exhaustive, WalkingIsLittleWorkBesideTheScreens) {
  Tell too_big;  // nothing is cut, and nothing simulated
  make_plain(too_big);
  for (const char* model : {"mixtral-8x7b", "llama3.1-70b"}) {
    EXPECT_LT(own_work(model, "h100-sxm-8x8", too_big).for_a_screen, 20) << model;
  }
}

// Who answers which ask, and in which order, changes nothing: not the counts, not the answer.
TEST(Exhaustive, TheSameAnswerForAnyNumberOfEvaluators) {
  const auto space = space_of(llama(), kSomeAxes);
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator a(*space, calibration, {});
  Evaluator b(*space, calibration, {});
  Evaluator c(*space, calibration, {});
  Evaluator* all[] = {&a, &b, &c};
  Exhaustive first(*space, {3});
  Exhaustive second(*space, {3});
  const Outcome one = run(first, a);
  const Outcome three = run(second, all);
  ASSERT_GT(one.top.size(), 2U);
  ASSERT_EQ(one.top.size(), three.top.size());
  for (std::size_t i = 0; i < one.top.size(); ++i) {
    EXPECT_EQ(one.top[i].at, three.top[i].at);
    EXPECT_EQ(one.top[i].figure, three.top[i].figure);
  }
  EXPECT_EQ(one.proof.cut_by_bound, three.proof.cut_by_bound);
  EXPECT_EQ(one.proof.simulated, three.proof.simulated);
}

TEST(Exhaustive, NoTwoOfTheTopCutTheModelAlike) {
  const auto space = space_of(llama(), kSomeAxes);
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator evaluator(*space, calibration, {});
  Exhaustive method(*space, {10});
  const Outcome found = run(method, evaluator);
  ASSERT_GT(found.top.size(), 4U);
  for (std::size_t i = 1; i < found.top.size(); ++i) {
    EXPECT_LE(found.top[i - 1].figure, found.top[i].figure);
    for (std::size_t k = 0; k < i; ++k) {
      EXPECT_NE(family_of(*space, found.top[i].at), family_of(*space, found.top[k].at));
    }
  }
}

TEST(Exhaustive, WhenNothingFitsItNamesWhatLacksLeast) {
  job::JobSpec s = llama();
  s.cluster.accelerator.memory_visible = gib(2);
  const auto space = space_of(s, kSomeAxes);
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator evaluator(*space, calibration, {});
  Exhaustive method(*space, {3});
  const Outcome found = run(method, evaluator);
  EXPECT_TRUE(found.proof.proven);
  EXPECT_TRUE(found.top.empty());
  ASSERT_TRUE(found.any_too_big);
  const Tell least = evaluator.answer({Ask::What::screen, found.least});
  EXPECT_EQ(least.least_peak.value, found.least_peak.value);
  EXPECT_GT(found.least_peak, gib(2));
}

// One step on every axis; the winner has no legal and fitting step that is faster.
TEST(Around, TheWinnersStepsAreSlowerOrTooBig) {
  const auto space = space_of(llama(), kSomeAxes);
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator evaluator(*space, calibration, {});
  Exhaustive method(*space, {1});
  const Outcome found = run(method, evaluator);
  ASSERT_EQ(found.top.size(), 1U);
  const std::vector<StepAway> steps = steps_around(*space, found.top[0].at, {}, {}, evaluator);
  std::size_t legal = 0;
  for (const StepAway& s : steps) {
    EXPECT_NE(s.from, s.to);
    if (s.refused_by != nullptr) continue;
    ++legal;
    if (s.fits) {
      EXPECT_GE(s.figure, found.top[0].figure);
      EXPECT_EQ(s.missing.value, 0);
    } else {
      EXPECT_GT(s.missing.value, 0);
    }
  }
  EXPECT_GT(legal, 4U);
  const StepAway* best = best_step(steps, found.top[0].figure);
  EXPECT_TRUE(best == nullptr || !best->fits);
}

// A bubble of half the step binds, whatever else is lost.
TEST(Around, TheLargestLossByHand) {
  projection::Projection p;
  p.time.step = Seconds{10};
  p.time.compute = Seconds{4};
  p.time.bubble = Seconds{5};
  p.time.exposed.tp = Seconds{1};
  p.throughput.hfu = 0.3;
  p.throughput.mfu = 0.3;
  EXPECT_EQ(largest_loss(p).what, "bubble");
  EXPECT_EQ(largest_loss(p).share, 0.5);
  p.time.bubble = Seconds{0};
  p.time.compute = Seconds{9};
  EXPECT_EQ(largest_loss(p).what, "kernel efficiency");
  EXPECT_NEAR(largest_loss(p).share, 0.6, 1e-12);
  p.throughput.hfu = 0.8;
  EXPECT_EQ(largest_loss(p).what, "recomputation");
}

}  // namespace
}  // namespace eratos::search
