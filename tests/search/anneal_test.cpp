// Annealing: near the optimum, legal at every step, and the same walk for the same seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/reader/catalogue.h"
#include "eratos/search/anneal.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"
#include "search/jobs.h"
#include "search/run.h"

namespace eratos::search {
namespace {

// Every candidate that is asked.
Look keep(std::vector<Candidate>& asked) {
  return [&](std::span<const Ask> asks, std::span<Tell>) {
    for (const Ask& ask : asks) asked.push_back(ask.at);
  };
}

const std::vector<std::string> kAxesUsed{"tp=1..8",
                                         "sp=true,false",
                                         "pp=1..8",
                                         "vpp=1,2,4",
                                         "cp=1,2",
                                         "ep=1..8",
                                         "mbs=1,2,4",
                                         "recompute=none,selective,full,full:1,full:2,full:4",
                                         "sharding=zero1,zero3",
                                         "overlap.tp=true,false",
                                         "rest=job"};

TEST(Anneal, ComesNearTheOptimumOfTheSpace) {
  for (const char* model : {"llama3.1-8b", "llama3.1-70b", "mixtral-8x7b"}) {
    job::JobSpec base = job_of(model, "h100-sxm-8x8", 128);
    std::vector<std::string> axes = kAxesUsed;
    if (!model::is_moe(base.model)) std::erase(axes, "ep=1..8");
    const auto space = space_of(base, axes);
    ASSERT_TRUE(space) << to_text(space.error()[0]);
    const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
    Evaluator evaluator(*space, calibration, {});
    Exhaustive whole(*space, {1});
    const Outcome best = run(whole, evaluator);
    ASSERT_FALSE(best.top.empty());
    for (const std::uint64_t seed : {1U, 2U, 3U}) {
      Anneal anneal(*space, 3, seed, 6400);
      const Outcome found = run(anneal, evaluator);
      ASSERT_FALSE(found.top.empty()) << model;
      EXPECT_GE(found.top[0].figure, best.top[0].figure) << model;
      EXPECT_LE(found.top[0].figure, best.top[0].figure * 1.03) << model << " seed " << seed;
      EXPECT_LT(found.proof.simulated + found.proof.too_big, std::min<std::uint64_t>(6400, space->raw() / 2));
      EXPECT_FALSE(found.proof.proven);
      EXPECT_EQ(anneal.progress(), 1);
      EXPECT_EQ(evaluator.answer({Ask::What::project, found.top[0].at}).figure, found.top[0].figure);
    }
  }
}

TEST(Anneal, TheSameSeedWalksTheSameWayWhoeverAnswers) {
  const auto space = space_of(job_of("mixtral-8x7b", "h100-sxm-2x8", 128), kAxesUsed);
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator a(*space, calibration, {});
  Evaluator b(*space, calibration, {});
  Evaluator c(*space, calibration, {});
  Evaluator* all[] = {&a, &b, &c};
  std::vector<Candidate> walks[3];
  for (std::size_t i = 0; i < 3; ++i) {
    Anneal anneal(*space, 3, i < 2 ? 7 : 8, 480);
    run(anneal, {all, i == 1 ? 3U : 1U}, keep(walks[i]));
  }
  EXPECT_EQ(walks[0], walks[1]);
  EXPECT_NE(walks[0], walks[2]);
}

// What a rule refuses is never asked.
TEST(Anneal, EveryStepIsLegal) {
  const auto space = space_of(job_of("deepseek-v3", "h100-sxm-16x8", 512), std::vector<std::string>{});
  ASSERT_TRUE(space);
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator evaluator(*space, calibration, {});
  std::vector<Candidate> walk;
  Anneal anneal(*space, 1, 5, 320);
  run(anneal, evaluator, keep(walk));
  EXPECT_GT(walk.size(), 150U);
  const auto scratch = std::make_unique<job::CheckedJob>();
  for (const Candidate& at : walk) {
    job::JobSpec job = space->base;
    apply(*space, at, job);
    for (const Rule* rule : rules_of(*space)) {
      ASSERT_FALSE(rule->refuses({*space, at, job, *scratch})) << rule->name;
    }
  }
}

TEST(Anneal, NothingLegalEnds) {
  const auto space = space_of(job_of("llama3.1-8b", "h100-sxm-1x8", 64),
                              std::vector<std::string>{"tp=3", "rest=job"});
  ASSERT_TRUE(space);
  Anneal anneal(*space, 1, 1, 160);
  EXPECT_TRUE(anneal.ask().empty());
  EXPECT_TRUE(anneal.outcome().top.empty());
  EXPECT_FALSE(anneal.outcome().any_too_big);
  EXPECT_TRUE(anneal.outcome().proof.proven);
  EXPECT_EQ(anneal.outcome().proof.illegal, space->raw());
}

}  // namespace
}  // namespace eratos::search
