// Sweeps find legal configurations that fit, mostly the best ones, with few evaluations.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/reader/catalogue.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"
#include "eratos/search/sweep.h"
#include "search/jobs.h"
#include "search/run.h"

namespace eratos::search {
namespace {

const std::vector<std::string> kAxesUsed{"tp=1..8",
                                         "sp=true,false",
                                         "pp=1..8",
                                         "vpp=1,2,4",
                                         "cp=1,2",
                                         "ep=1..8",
                                         "mbs=1,2,4",
                                         "recompute=none,selective,full",
                                         "sharding=zero1,zero3",
                                         "rest=job"};

// Against the proven optimum of the same space, from a job that mostly does not fit.
TEST(Sweep, ComesWithinAFewPercentOfTheOptimum) {
  for (const char* model : {"llama3.1-8b", "llama3.1-70b", "mixtral-8x7b", "mixtral-8x22b"}) {
    for (const char* cluster : {"h100-sxm-2x8", "h100-sxm-8x8"}) {
      job::JobSpec base = job_of(model, cluster, 128);
      std::vector<std::string> axes = kAxesUsed;
      if (!model::is_moe(base.model)) std::erase(axes, "ep=1..8");
      const auto space = space_of(base, axes);
      ASSERT_TRUE(space) << to_text(space.error()[0]);
      const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
      Evaluator evaluator(*space, calibration, {});
      Exhaustive whole(*space, {1});
      const Outcome best = run(whole, evaluator);
      Sweep sweep(*space, 3);
      const Outcome found = run(sweep, evaluator);
      ASSERT_EQ(found.top.empty(), best.top.empty()) << model << " on " << cluster;
      if (best.top.empty()) continue;
      EXPECT_GE(found.top[0].figure, best.top[0].figure) << model << " on " << cluster;
      EXPECT_LE(found.top[0].figure, best.top[0].figure * 1.05) << model << " on " << cluster;
      EXPECT_LT(found.proof.simulated + found.proof.too_big, space->raw() / 2);
      EXPECT_FALSE(found.proof.proven);
      EXPECT_TRUE(evaluator.answer({Ask::What::project, found.top[0].at}).fits);
    }
  }
}

TEST(Sweep, TheSameAnswerEveryTime) {
  const auto space = space_of(job_of("mixtral-8x7b", "h100-sxm-2x8", 128), kAxesUsed);
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator a(*space, calibration, {});
  Evaluator b(*space, calibration, {});
  Sweep first(*space, 3);
  Sweep second(*space, 3);
  const Outcome one = run(first, a);
  const Outcome two = run(second, b);
  ASSERT_EQ(one.top.size(), two.top.size());
  for (std::size_t i = 0; i < one.top.size(); ++i) EXPECT_EQ(one.top[i].at, two.top[i].at);
  EXPECT_EQ(one.proof.simulated, two.proof.simulated);
}

TEST(Sweep, NothingLegalIsSaidWithItsRules) {
  const auto space = space_of(job_of("llama3.1-8b", "h100-sxm-1x8", 128),
                              std::vector<std::string>{"tp=3,5", "rest=job"});
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  Evaluator evaluator(*space, calibration, {});
  Sweep sweep(*space, 1);
  const Outcome found = run(sweep, evaluator);
  EXPECT_TRUE(found.top.empty());
  EXPECT_TRUE(found.proof.proven);
  EXPECT_EQ(found.proof.illegal, 2U);
}

}  // namespace
}  // namespace eratos::search
