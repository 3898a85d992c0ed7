// Every objective, limits and fronts find what brute force finds; figures by hand; words and
// faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
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
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/legality.h"
#include "eratos/search/method.h"
#include "eratos/search/objective.h"
#include "eratos/search/space.h"
#include "eratos/search/sweep.h"
#include "search/jobs.h"
#include "search/run.h"

namespace eratos::search {
namespace {

// The header's example.
TEST(Objective, FiguresByHand) {
  Terms t;
  t.gpus = 64;
  t.capacity = gib(76);
  t.tokens = 1e12;
  t.price_per_gpu_hour = 2;
  t.power = {700, 140};
  Measures m{12e-6, 9e-6, 1'048'576, gib(70)};
  EXPECT_NEAR(value_of(Objective::throughput, t, m), 1302.08, 0.01);
  EXPECT_NEAR(value_of(Objective::step_time, t, m), 12.582912, 1e-9);
  EXPECT_NEAR(value_of(Objective::train_time, t, m) / 86400, 138.89, 0.01);
  EXPECT_NEAR(value_of(Objective::cost, t, m), 4.2667e-7, 1e-11);
  // 64 * (140 * 12 us + 560 * 9 us)
  EXPECT_NEAR(value_of(Objective::energy, t, m), 0.43008, 1e-9);
  EXPECT_EQ(value_of(Objective::headroom, t, m), gib(6).value);
  // A tenth writes checkpoints, a tenth is done twice, a fifth restarts.
  t.goodput.useful = 0.6;
  t.goodput.writing = 0.1;
  t.goodput.redone = 0.1;
  t.goodput.restarting = 0.2;
  EXPECT_NEAR(value_of(Objective::train_time, t, m) / 86400, 138.89 / 0.6, 0.02);
  EXPECT_NEAR(value_of(Objective::cost, t, m), 4.2667e-7 / 0.6, 1e-11);
  EXPECT_NEAR(value_of(Objective::energy, t, m), 0.43008 * 0.7 / 0.6 + 64 * 140 * 12e-6 * 0.3 / 0.6,
              1e-9);
  EXPECT_NEAR(value_of(Objective::throughput, t, m), 1302.08, 0.01);
}

TEST(Objective, PowerComesFromTheOwnerOrTheBoard) {
  hardware::ClusterSpec c = *reader::load_cluster("h100-sxm-1x8");
  EXPECT_EQ(power_of(c).load_w, 700);
  EXPECT_EQ(power_of(c).idle_w, 140);
  c.running = {0, 600, 100, 300, 1.1};
  EXPECT_NEAR(power_of(c).load_w, 990, 1e-9);
  EXPECT_NEAR(power_of(c).idle_w, 440, 1e-9);
  c.running = {};
  c.accelerator.board_power_w = 0;
  EXPECT_EQ(power_of(c).load_w, 0);
  Terms t;
  EXPECT_NE(missing_for(Objective::energy, t, "h100-sxm").find("load_w"), std::string::npos);
  EXPECT_NE(missing_for(Objective::cost, t, "h100-sxm").find("--price"), std::string::npos);
  EXPECT_NE(missing_for(Objective::train_time, t, "h100-sxm").find("--tokens"), std::string::npos);
  EXPECT_EQ(missing_for(Objective::headroom, t, "h100-sxm"), "");
}

// Energy cuts by the least time of work: never more than is projected.
TEST(Objective, BusyBoundsAreNeverAboveTheProjection) {
  projection::Spread spread(161, true);
  Rng rng(162);
  int tried = 0;
  double closest = 0;
  for (int i = 0; i < 300; ++i) {
    projection::DrawnJob drawn = spread.next();
    drawn.spec.batch.global = std::min(drawn.spec.batch.global, 2048);
    const auto space = space_of(drawn.spec, {});
    ASSERT_TRUE(space);
    Evaluator evaluator(*space, spread.calibrations[drawn.part], {});
    const auto checked = std::make_unique<job::CheckedJob>();
    for (int k = 0; k < 40; ++k) {
      const Candidate at = candidate_at(*space, rng.next() % space->raw());
      job::JobSpec job = space->base;
      apply(*space, at, job);
      if (!job::check(job, *checked).empty() || !projection::schedule_faults(*checked).empty())
        continue;
      const Tell screened = evaluator.answer({Ask::What::screen, at});
      const Tell projected = evaluator.answer({Ask::What::project, at});
      if (!projected.fits) continue;  // it has no times
      ASSERT_LE(screened.busy, projected.busy) << job.model.name << " " << job.schedule.algorithm;
      ASSERT_GT(screened.busy, 0);
      ASSERT_EQ(projected.busy, evaluator.told(evaluator.project(at)).busy);
      // Work fits into the step; where passes run side by side it is counted one after the other.
      closest = std::max(closest, screened.busy / projected.busy);
      ++tried;
    }
  }
  EXPECT_GT(tried, 1000);
  EXPECT_GT(closest, 0.9);
}

// Every candidate that is legal and fits; counts those that do not.
std::vector<std::pair<Candidate, Tell>> everything(const Space& space, Evaluator& evaluator,
                                                   std::uint64_t& too_big) {
  std::vector<std::pair<Candidate, Tell>> out;
  too_big = 0;
  for_each_legal(space, [&](const Candidate& at) {
    const Tell told = evaluator.answer({Ask::What::project, at});
    if (told.fits) {
      out.emplace_back(at, told);
    } else {
      ++too_big;
    }
  });
  return out;
}

// A limit on `objective` that about `share` of the candidates hold.
Limit limit_at(Objective objective, const Aim& aim, const Space& space,
               const std::vector<std::pair<Candidate, Tell>>& all, double share) {
  std::vector<double> values;
  for (const auto& [at, tell] : all) {
    values.push_back(value_of(objective, aim.terms, measures_of(space, at, tell)));
  }
  std::sort(values.begin(), values.end());
  if (facts_of(objective).more_is_better) std::reverse(values.begin(), values.end());
  const auto place = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
  return {objective, values[place], std::string(facts_of(objective).key)};
}

bool beats(const Along& a, const Along& b) {
  bool better = false;
  for (std::size_t i = 0; i < kMostAlong; ++i) {
    if (a[i] > b[i]) return false;
    better = better || a[i] < b[i];
  }
  return better;
}

struct Expected {
  std::vector<std::pair<double, double>> top;  // figure, seconds a token; one a family
  std::vector<Along> front;
  std::uint64_t refused = 0;
};

Expected expected_of(const Space& space, const Aim& aim, std::size_t top,
                     std::vector<std::pair<Candidate, Tell>> all) {
  Expected out;
  std::map<std::uint64_t, std::pair<double, double>> best;
  std::vector<Along> places;
  for (auto& [at, tell] : all) {
    judge(aim, space, {Ask::What::project, at}, tell);
    if (tell.refused_by >= 0) {
      ++out.refused;
      continue;
    }
    const std::pair<double, double> figure{tell.figure, tell.per_token};
    const auto [family, fresh] = best.try_emplace(family_of(space, at), figure);
    if (!fresh) family->second = std::min(family->second, figure);
    places.push_back(tell.along);
  }
  for (const auto& [family, figure] : best) out.top.push_back(figure);
  std::sort(out.top.begin(), out.top.end());
  out.top.resize(std::min(out.top.size(), top));
  std::sort(places.begin(), places.end());
  places.erase(std::unique(places.begin(), places.end()), places.end());
  for (const Along& one : places) {
    const bool beaten = std::any_of(places.begin(), places.end(),
                                    [&](const Along& other) { return beats(other, one); });
    if (!beaten) out.front.push_back(one);
  }
  return out;
}

// All objectives, with and without limits, with fronts of none, two and three figures.
TEST(Objective, EqualsBruteForceOverRandomSmallSpaces) {
  projection::Spread spread(171);
  Rng rng(172);
  int answered = 0;
  int limited_away = 0;
  int cut = 0;
  int threes = 0;
  std::array<int, kObjectives> cut_for{};
  for (int i = 0; i < 240; ++i) {
    projection::DrawnJob drawn = spread.next();
    drawn.spec.batch.global = std::min(drawn.spec.batch.global, 1024);
    const auto space = space_of(drawn.spec, few_axes(drawn.spec, rng, 90));
    ASSERT_TRUE(space) << to_text(space.error()[0]);
    Evaluator evaluator(*space, spread.calibrations[drawn.part], {});
    std::uint64_t too_big = 0;
    const auto all = everything(*space, evaluator, too_big);

    Aim aim;
    aim.terms.gpus = drawn.spec.cluster.gpus();
    aim.terms.capacity = drawn.spec.cluster.accelerator.memory_visible * 0.95;
    aim.terms.tokens = 1e12;
    aim.terms.price_per_gpu_hour = 2;
    aim.terms.power = {700, 140};
    if (rng.below(2) == 0) {
      aim.terms.goodput =
          goodput_of({5000, true, Seconds{60}, Seconds{600}, Seconds{0}}, 1, aim.terms.gpus);
    }
    aim.objective = static_cast<Objective>(i % static_cast<int>(kObjectives));
    const std::size_t limits = all.empty() ? 0 : rng.below(3);
    for (std::size_t k = 0; k < limits; ++k) {
      const auto on = static_cast<Objective>(rng.below(kObjectives));
      aim.limits.push_back(
          limit_at(on, aim, *space, all, 0.05 + 0.15 * static_cast<double>(rng.below(6))));
    }
    const std::size_t figures = rng.below(3);  // none, two, three
    for (std::size_t k = 0; figures > 0 && k < figures + 1;) {
      const auto on = static_cast<Objective>(rng.below(kObjectives));
      if (std::find(aim.front.begin(), aim.front.end(), on) != aim.front.end()) continue;
      aim.front.push_back(on);
      ++k;
    }
    const std::size_t top = 1 + rng.below(3);
    const Expected expected = expected_of(*space, aim, top, all);

    const bool front = !aim.front.empty();
    Exhaustive method(*space, {top, front},
                      {1 + rng.below(32), 1 + rng.below(8), 1 + rng.below(8)});
    const Outcome found = run(method, *space, aim, evaluator);
    ASSERT_TRUE(found.proof.proven);
    // Of a stem that is cut nobody asks what fits.
    ASSERT_EQ(found.proof.cut_by_bound + found.proof.simulated + found.proof.too_big,
              all.size() + too_big);
    ASSERT_LE(found.proof.too_big, too_big);
    ASSERT_EQ(found.top.size(), expected.top.size());
    for (std::size_t k = 0; k < found.top.size(); ++k) {
      ASSERT_EQ(found.top[k].figure, expected.top[k].first) << facts_of(aim.objective).key;
      ASSERT_EQ(found.top[k].per_token, expected.top[k].second);
    }
    ASSERT_EQ(found.front.size(), front ? expected.front.size() : 0);
    for (std::size_t k = 0; k < found.front.size(); ++k) {
      ASSERT_EQ(found.front[k].along, expected.front[k]);
    }
    std::uint64_t refused = 0;
    for (const std::uint64_t n : found.refused) refused += n;
    // Some are cut for another reason first; with no answer there is none.
    if (expected.top.empty()) {
      ASSERT_GE(refused, expected.refused);
    }
    ASSERT_LE(refused, expected.refused + too_big - found.proof.too_big);
    (found.top.empty() ? limited_away : answered) += 1;
    if (found.proof.cut_by_bound > 0) {
      ++cut;
      ++cut_for[static_cast<std::size_t>(aim.objective)];
    }
    threes += aim.front.size() == 3 && found.front.size() > 2 ? 1 : 0;
  }
  EXPECT_GT(answered, 120);
  EXPECT_GT(limited_away, 2);
  EXPECT_GT(cut, 40);
  EXPECT_GT(threes, 10);
  for (std::size_t k = 0; k < kObjectives; ++k) EXPECT_GT(cut_for[k], 2) << kObjectiveFacts[k].key;
}

// A sweep keeps the limits, and goes towards them from outside.
TEST(Objective, SweepsKeepLimits) {
  const job::JobSpec base = job_of("llama3.1-8b", "h100-sxm-2x8", 128);
  const auto space =
      space_of(base, std::vector<std::string>{"tp=1..8", "sp=true,false", "pp=1..8", "vpp=1,2,4",
                                              "mbs=1,2,4", "recompute=none,selective,full",
                                              "sharding=zero1,zero3", "rest=job"});
  ASSERT_TRUE(space);
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator evaluator(*space, calibration, {});
  Aim aim;
  aim.terms.gpus = 16;
  aim.terms.capacity = base.cluster.accelerator.memory_visible * 0.95;
  aim.limits.push_back({Objective::headroom, gib(50).value, "headroom>=50GiB"});
  Sweep sweep(*space, 3);
  const Outcome swept = run(sweep, *space, aim, evaluator);
  Exhaustive all(*space, {3, false});
  const Outcome proven = run(all, *space, aim, evaluator);
  ASSERT_FALSE(swept.top.empty());
  ASSERT_FALSE(proven.top.empty());
  for (const Found& f : swept.top) {
    EXPECT_GE(aim.terms.capacity - f.device_peak, gib(50));
  }
  EXPECT_LE(swept.top[0].figure, proven.top[0].figure * 1.05);
}

}  // namespace
}  // namespace eratos::search
