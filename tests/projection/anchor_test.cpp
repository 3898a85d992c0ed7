// One measured run moves what it reads and nothing else.
#include "eratos/projection/anchor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "eratos/projection/likeness.h"
#include "eratos/reader/catalogue.h"

namespace eratos::projection {
namespace {

using calibration::Attributed;

job::JobSpec llama(const std::string& cluster, int global) {
  job::JobSpec s;
  s.model = *reader::load_model("llama3.1-8b");
  s.framework = *reader::load_framework("megatron");
  s.cluster = *reader::load_cluster(cluster);
  s.parallel.sharding = parallel::Sharding::zero1;
  s.batch = {.micro = 1, .global = global, .sequence = 4096};
  return s;
}

struct Case {
  job::JobSpec run = llama("h100-sxm-1x8", 64);
  job::JobSpec job = llama("h100-sxm-8x8", 512);
  calibration::Calibration calibration = *reader::load_calibration(run.cluster.accelerator);
  WorkspacePtr w = make_workspace();

  Projection projected(const job::JobSpec& spec, const calibration::Calibration& c) {
    job::CheckedJob checked;
    EXPECT_TRUE(job::check(spec, checked).empty());
    return project(checked, c, {}, *w);
  }
  Seconds step() { return projected(run, calibration).time.step; }
};

const Attributed* find(const Explained& e, std::string_view path) {
  for (const Attributed& c : e.constants) {
    if (c.parameter->path == path) return &c;
  }
  return nullptr;
}

TEST(Anchor, AnExactProjectionMovesNothing) {
  Case c;
  const Anchor a = anchor_on(c.run, {.step = c.step()}, c.calibration, *c.w);
  ASSERT_TRUE(a.step);
  EXPECT_NEAR(a.step->residual(), 0, 1e-12);
  for (const Attributed& each : a.step->constants) {
    EXPECT_NEAR(each.after, each.before, 1e-9 * each.before) << each.parameter->path;
  }
}

// Shares add up to the residual, and the anchored step lies between the projected and the measured.
TEST(Anchor, TellsWhereTheResidualWent) {
  Case c;
  const Anchor a = anchor_on(c.run, {.step = c.step() * 1.1}, c.calibration, *c.w);
  const Explained& e = *a.step;
  EXPECT_NEAR(e.residual(), std::log(1.1), 1e-9);
  const double told = e.explained(CarriedPart::kernels) + e.explained(CarriedPart::launch) +
                      e.explained(CarriedPart::communication);
  EXPECT_NEAR(told + e.unexplained(), e.residual(), 1e-9);
  double variance = 0.04 * 0.04;
  for (const Attributed& each : e.constants) {
    variance += std::pow(each.parameter->spread * each.slope, 2);
  }
  EXPECT_NEAR(e.expected, std::sqrt(variance), 0.01) << "slopes hardly move within 10%";
  EXPECT_GT(e.anchored, e.projected);
  EXPECT_LT(e.anchored, e.measured);
  EXPECT_GT(e.explained(CarriedPart::kernels), 0.8 * told) << "compute is nearly all of this step";
}

// A node knows nothing of networks: their rates, and how they fall with nodes, stay.
TEST(Anchor, WhatTheRunDoesNotExerciseStays) {
  Case c;
  const Anchor a = anchor_on(c.run, {.step = c.step() * 1.1}, c.calibration, *c.w);
  EXPECT_EQ(find(*a.step, "network.share"), nullptr);
  EXPECT_EQ(find(*a.step, "kernel.network_decay"), nullptr);
  EXPECT_EQ(find(*a.step, "kernel.narrow_matrix"), nullptr) << "no product runs in 8 bits";
  ASSERT_NE(find(*a.step, "gemm.bf16.in_training"), nullptr);
  EXPECT_LT(find(*a.step, "gemm.bf16.in_training")->after,
            find(*a.step, "gemm.bf16.in_training")->before);

  job::JobSpec job = c.job;
  calibration::Calibration calibration = c.calibration;
  carry_all(a, job, calibration);
  EXPECT_EQ(calibration.part.network.share, c.calibration.part.network.share);
  EXPECT_EQ(job.framework.kernel.network_decay, c.job.framework.kernel.network_decay);
  EXPECT_DOUBLE_EQ(calibration.part.gemm_of(DType::bf16).in_training,
                   find(*a.step, "gemm.bf16.in_training")->after);
}

// A machine whose constants differ by what their spreads allow: anchored on one node, eight are
// foreseen far better than without.
TEST(Anchor, ForeseesAMachineWhoseKernelsDiffer) {
  Case c;
  const auto slower = [](job::JobSpec& spec, calibration::Calibration& calibration) {
    spec.framework.kernel.attention *= 0.9;
    spec.framework.kernel.memory_bound *= 0.9;
    calibration.part.gemm[static_cast<std::size_t>(DType::bf16)].in_training *= 0.92;
  };
  job::JobSpec true_run = c.run;
  job::JobSpec true_job = c.job;
  calibration::Calibration truth = c.calibration;
  calibration::Calibration again = c.calibration;
  slower(true_run, truth);
  slower(true_job, again);
  const Seconds measured = c.projected(true_run, truth).time.step;
  const Seconds wanted = c.projected(true_job, truth).time.step;
  const Seconds alone = c.projected(c.job, c.calibration).time.step;

  const Anchor a = anchor_on(c.run, {.step = measured}, c.calibration, *c.w);
  calibration::Calibration anchored = c.calibration;
  carry_all(a, c.job, anchored);
  const Seconds foreseen = c.projected(c.job, anchored).time.step;
  EXPECT_LT(alone / wanted, 0.94);
  EXPECT_NEAR(foreseen / wanted, 1, 0.02) << "the run keeps a share for its own";
}

TEST(Anchor, SoftwareAndPartAreWhatConstantsHoldFor) {
  Case c;
  const Anchor a = anchor_on(c.run, {.step = c.step() * 1.1}, c.calibration, *c.w);
  const Attributed& kernel = *find(*a.step, "kernel.attention");
  const Attributed& part = *find(*a.step, "gemm.bf16.in_training");
  EXPECT_TRUE(carries(a, kernel, c.job));
  EXPECT_TRUE(carries(a, part, c.job));
  job::JobSpec other = c.job;
  other.framework = *reader::load_framework("torchtitan");
  EXPECT_FALSE(carries(a, kernel, other));
  EXPECT_TRUE(carries(a, part, other));
  other = llama("a100-80g-8x8", 512);
  EXPECT_TRUE(carries(a, kernel, other));
  EXPECT_FALSE(carries(a, part, other));
}

// A device's peak holds context, communicators and reserve; one that is stated as allocated does
// not.
TEST(Anchor, APeakMovesWhatIsHeldOutsideLiveTensors) {
  Case c;
  const MemoryAnswer before = c.projected(c.run, c.calibration).memory;
  const Anchor a = anchor_on(c.run, {.peak = before.device_peak * 1.05}, c.calibration, *c.w);
  ASSERT_TRUE(a.peak);
  EXPECT_FALSE(a.step);
  ASSERT_NE(find(*a.peak, "memory.context_bytes"), nullptr);
  EXPECT_GT(find(*a.peak, "memory.reserve_fraction")->after,
            c.run.framework.memory.reserve_fraction);
  const MemoryAnswer alone = c.projected(c.job, c.calibration).memory;
  calibration::Calibration calibration = c.calibration;
  carry_all(a, c.job, calibration);
  const MemoryAnswer after = c.projected(c.job, calibration).memory;
  EXPECT_EQ(after.allocated_peak.value, alone.allocated_peak.value);
  EXPECT_GT(after.device_peak, alone.device_peak * 1.005);

  const Anchor live =
      anchor_on(c.run, {.peak = before.allocated_peak * 1.05, .kind = PeakKind::allocated},
                c.calibration, *c.w);
  EXPECT_TRUE(live.peak->constants.empty());
  EXPECT_NEAR(live.peak->unexplained(), std::log(1.05), 1e-9);
}

TEST(Anchor, BandsAreThoseOfAnchoredRuns) {
  Case c;
  job::CheckedJob checked;
  ASSERT_TRUE(job::check(c.job, checked).empty());
  const Projection p = project(checked, c.calibration, {}, *c.w);
  const Anchor a = anchor_on(c.run, {.step = c.step()}, c.calibration, *c.w);
  const calibration::ErrorClass any{.gpus = {0, 1e9},
                                    .parameters = {0, 1e15},
                                    .rows = 20,
                                    .sources = 2,
                                    .low = -0.02,
                                    .high = 0.04};
  const Confidence found = anchored_confidence(checked, a, {any}, p);
  EXPECT_DOUBLE_EQ(found.step.first / p.time.step, 1 / 1.04);
  EXPECT_DOUBLE_EQ(found.step.second / p.time.step, 1 / 0.98);
  EXPECT_EQ(found.peak, p.confidence.peak);
  EXPECT_EQ(found.basis,
            "step: anchored, 20 runs, 2 sources; the peak's band is that without an anchor");
  EXPECT_EQ(anchored_confidence(checked, a, {}, p).basis, p.confidence.basis);
}

}  // namespace
}  // namespace eratos::projection
