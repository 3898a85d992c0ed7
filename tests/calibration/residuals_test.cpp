#include "eratos/calibration/residuals.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace eratos::calibration {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

// From the most to the least specific, as data/residuals.csv has them.
std::vector<ErrorClass> classes() {
  ErrorClass all;
  all.gpus = all.parameters = {0, kNone};
  all.rows = 3000;
  all.sources = 90;
  all.low = -0.4;
  all.high = 0.6;

  ErrorClass hopper = all;
  hopper.framework = "megatron";
  hopper.architecture = "sm90";
  hopper.mixture = Mixture::dense;
  hopper.gpus = {4, 4096};
  hopper.parameters = {1e9, 800e9};
  hopper.rows = 207;
  hopper.sources = 19;
  hopper.low = -0.1;
  hopper.high = 0.05;

  ErrorClass idle = hopper;
  idle.busy = {0, 0.35};
  idle.rows = 31;
  idle.sources = 1;
  idle.low = -0.2;
  idle.high = 0.3;
  return {idle, hopper, all};
}

Likeness dense_hopper() { return {"megatron", "sm90", false, 0.8, 64, 70e9}; }

TEST(ErrorClasses, TheFirstThatHoldsTheJobIsTaken) {
  const auto all = classes();
  EXPECT_EQ(most_alike(all, Quantity::step, dense_hopper()), &all[1]);
  Likeness idle = dense_hopper();
  idle.busy = 0.2;
  EXPECT_EQ(most_alike(all, Quantity::step, idle), &all[0]);
}

TEST(ErrorClasses, WhatIsUnlikeAnythingMeasuredTakesTheErrorsOfAll) {
  const auto all = classes();
  Likeness job = dense_hopper();
  job.framework = "new";
  EXPECT_EQ(most_alike(all, Quantity::step, job), &all[2]);
  job = dense_hopper();
  job.architecture = "sm200";
  EXPECT_EQ(most_alike(all, Quantity::step, job), &all[2]);
  job = dense_hopper();
  job.experts = true;
  EXPECT_EQ(most_alike(all, Quantity::step, job), &all[2]);
  job = dense_hopper();
  job.gpus = 100000;  // beyond what was measured
  EXPECT_EQ(most_alike(all, Quantity::step, job), &all[2]);
  job = dense_hopper();
  job.parameters = 2e12;
  EXPECT_EQ(most_alike(all, Quantity::step, job), &all[2]);
}

TEST(ErrorClasses, StepsAndPeaksHaveTheirOwn) {
  auto all = classes();
  EXPECT_EQ(most_alike(all, Quantity::peak, dense_hopper()), nullptr);
  all[1].quantity = Quantity::peak;
  EXPECT_EQ(most_alike(all, Quantity::peak, dense_hopper()), &all[1]);
  EXPECT_EQ(most_alike(all, Quantity::step, dense_hopper()), &all[2]);
}

TEST(ErrorClasses, ATimeBeyondTheStepStillHasAClass) {
  const auto all = classes();
  Likeness job = dense_hopper();
  job.busy = 1.0000001;  // rounding
  EXPECT_EQ(most_alike(all, Quantity::step, job), &all[1]);
}

TEST(ErrorClasses, TheBasisSaysWhoseErrorsTheyAre) {
  const auto all = classes();
  EXPECT_EQ(basis_of(all[0]),
            "31 runs of megatron on sm90, dense, computing 0 to 35% of the step, 1 source");
  EXPECT_EQ(basis_of(all[1]), "207 runs of megatron on sm90, dense, 19 sources");
  EXPECT_EQ(basis_of(all[2]), "3000 runs, 90 sources");
}

}  // namespace
}  // namespace eratos::calibration
