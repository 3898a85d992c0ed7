// What a measurement tells of others, by hand.
#include "eratos/search/refine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/search/knobs.h"
#include "jobs.h"

namespace eratos::search {
namespace {

constexpr std::size_t kAttention = 3;

Prospect prospect(double seconds, double attention, double gib, double place = 0) {
  Prospect p;
  p.projected = seconds;
  p.elasticity[kAttention] = attention;
  p.place = {place};
  p.peak = Bytes{gib * kGiB};
  return p;
}

RefineOptions options() {
  RefineOptions out;
  out.capacity = Bytes{80 * kGiB};
  out.common_sd = 0.05;
  return out;
}

// The header's example, with nothing left over: r far apart and small against what is shared.
TEST(Refine, OneMeasurementMovesItsSibling) {
  Refine refine(options());
  refine.add(prospect(10.0, 0.4, 40, 0));
  refine.add(prospect(10.2, 0.1, 40, 50));
  const Belief before = refine.belief(1);
  EXPECT_NEAR(before.mean, std::log(10.2), 1e-12);
  // sqrt(0.05^2 + (0.15 * 0.1)^2 + 2 * 0.02^2)
  EXPECT_NEAR(before.sd, std::sqrt(0.0025 + 0.000225 + 0.0008), 1e-9);
  refine.tell(0, {false, 10.8, {}});
  // K = 0.0025 + 0.0036 + 0.0008 + 0.004^2, y = log 1.08.
  const double k = 0.0025 + 0.0036 + 0.0008 + 0.000016;
  const double y = std::log(1.08);
  EXPECT_NEAR(refine.knobs()[kAttention], 0.15 * 0.15 * 0.4 * y / k, 1e-9);
  const double shared = 0.0025 + 0.15 * 0.15 * 0.4 * 0.1;
  EXPECT_NEAR(refine.belief(1).mean, std::log(10.2) + shared * y / k, 1e-9);
  EXPECT_LT(refine.belief(1).sd, before.sd);
  EXPECT_NEAR(refine.belief(0).mean, std::log(10.8), 1e-12);
  EXPECT_EQ(refine.belief(0).sd, 0);
  // The second is foreseen at 10.56 s, ahead of 10.8 s: it is asked next.
  ASSERT_TRUE(refine.ask());
  EXPECT_EQ(refine.ask()->prospect, 1U);
  EXPECT_GT(refine.ask()->gain, 0.015);
}

TEST(Refine, DifferencesAloneDecideBetweenTwo) {
  const Prospect a = prospect(10, 0.4, 40);
  const Prospect b = prospect(10, 0.1, 40);
  // 0.15 * 0.3, and each one's own 2 %.
  EXPECT_NEAR(deviation_between(a, b), std::sqrt(0.045 * 0.045 + 2 * 0.02 * 0.02), 1e-9);
}

TEST(Refine, WhatRanOutIsNeverChosenAndTeachesWhatElseWould) {
  Refine refine(options());
  refine.add(prospect(9.0, 0, 78));
  refine.add(prospect(9.5, 0, 77.5));
  refine.add(prospect(10.0, 0, 60));
  refine.tell(0, {true, 0, {}});
  EXPECT_EQ(refine.belief(0).out_of_memory, 1);
  EXPECT_GT(refine.belief(1).out_of_memory, 0.5);
  EXPECT_FALSE(refine.pick());  // nothing bounds what is held
  refine.tell(2, {false, 10.1, Bytes{64 * kGiB}});
  // 4 GiB more than projected: 77.5 + 4 is beyond 80.
  EXPECT_NEAR(refine.buffer().value / kGiB, 4, 0.8);
  EXPECT_GT(refine.belief(1).out_of_memory, 0.8);
  ASSERT_TRUE(refine.pick());
  EXPECT_EQ(*refine.pick(), 2U);
}

TEST(Refine, UnmeasuredIsChosenOnlyWhereItIsSafeAndAhead) {
  Refine refine(options());
  refine.add(prospect(10.0, 0.3, 50, 0));
  refine.add(prospect(5.0, 0.3, 50, 1));
  refine.add(prospect(4.0, 0.3, 79, 1));
  refine.tell(0, {false, 10.0, Bytes{50 * kGiB}});
  // Half the time with the same error: ahead by far more than its deviation; the third is faster
  // and may run out.
  ASSERT_TRUE(refine.pick());
  EXPECT_EQ(*refine.pick(), 1U);
}

TEST(Refine, EndsWhereNothingIsExpectedToGain) {
  Refine refine(options());
  for (int i = 0; i < 4; ++i) refine.add(prospect(10 + i, 0.2, 40, i));
  refine.add(prospect(30, 0.2, 40, 1));
  for (int i = 0; i < 4; ++i) {
    const std::optional<Refine::Choice> next = refine.ask();
    if (!next) break;
    refine.tell(next->prospect, {false, refine.prospect(next->prospect).projected, {}});
  }
  EXPECT_FALSE(refine.ask());
  EXPECT_FALSE(refine.why().empty());
  EXPECT_FALSE(refine.measured(4));  // three times as slow: never worth it
  EXPECT_EQ(*refine.pick(), 0U);
}

// With the knobs where the posterior is, the model itself says what a candidate takes.
TEST(Refine, ALinearModelSaysTheSameAfterItWasMadeAgainElsewhere) {
  Refine one(options());
  Refine two(options());
  const std::vector<Prospect> all{prospect(10.0, 0.4, 40), prospect(10.2, 0.1, 40, 9)};
  for (const Prospect& p : all) {
    one.add(p);
    two.add(p);
  }
  one.tell(0, {false, 11, {}});
  two.tell(0, {false, 11, {}});
  Knobs at{};
  at[kAttention] = 0.1;
  std::vector<Prospect> turned = all;
  for (Prospect& p : turned) p.projected *= std::exp(0.1 * p.elasticity[kAttention]);
  two.linearise(at, turned);
  EXPECT_NEAR(one.belief(1).mean, two.belief(1).mean, 1e-12);
  EXPECT_NEAR(one.knobs()[kAttention], two.knobs()[kAttention], 1e-12);
}

// Every knob moves what it is of: a job with experts on several nodes feels all but what it has
// not.
TEST(Knobs, EachMovesAJobThatUsesIt) {
  job::JobSpec job = job_of("mixtral-8x7b", "h100-sxm-2x8", 64);
  job.parallel.tp = 2;
  job.parallel.etp = 1;
  job.parallel.ep = 2;
  job.parallel.sequence_parallel = true;
  job::CheckedJob checked;
  ASSERT_TRUE(job::check(job, checked).empty());
  const calibration::Calibration c = *reader::load_calibration(job.cluster.accelerator);
  const projection::WorkspacePtr w = projection::make_workspace();
  const projection::Projection p = projection::project(checked, c, {0.0}, *w);
  const Knobs e = elasticities_of(job, c, {0.0}, p.time.step, *w);
  double kernels = 0;
  for (std::size_t k = 0; k < kKnobCount; ++k) {
    if (kKnobs[k].name != "small tiles") {
      EXPECT_GT(e[k], 0) << kKnobs[k].name;
    }
    EXPECT_LT(e[k], 1) << kKnobs[k].name;
    if (k < 5) kernels += e[k];
  }
  // What is no kernel is no part of them.
  EXPECT_GT(kernels, 0.3);
  EXPECT_LT(kernels, 1.35);  // grouped products are matrix products as well
}

TEST(Knobs, NothingTurnedChangesNothing) {
  const job::JobSpec job = job_of("llama3.1-8b", "h100-sxm-2x8", 64);
  calibration::Calibration c = *reader::load_calibration(job.cluster.accelerator);
  framework::FrameworkProfile f = job.framework;
  turn(Knobs{}, c, f);
  EXPECT_EQ(f.kernel, job.framework.kernel);
  EXPECT_EQ(f.overlap, job.framework.overlap);
}

}  // namespace
}  // namespace eratos::search
