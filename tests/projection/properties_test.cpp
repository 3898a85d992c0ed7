// What must hold for every legal job, tried on jobs drawn over the whole catalogue.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/layer/context.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/workspace.h"
#include "eratos/reader/catalogue.h"
#include "eratos/schedule/simulate.h"
#include "spread.h"

namespace eratos::projection {
namespace {

constexpr int kJobs = 1500;

std::string describe(const job::JobSpec& s) {
  const auto& p = s.parallel;
  const auto n = [](const char* name, long long v) {
    return std::string(" ") + name + std::to_string(v);
  };
  return s.model.name + " " + s.framework.name + " " + s.cluster.name + n("tp", p.tp) +
         n("cp", p.cp) + n("pp", p.pp) + n("vpp", p.vpp) + n("ep", p.ep) + n("etp", p.etp) +
         " sharding " + std::string(job::name_of(p.sharding)) + n("mbs", s.batch.micro) +
         n("gbs", s.batch.global) + n("seq", s.batch.sequence) + " " +
         std::string(job::name_of(s.precision)) + " recompute " +
         std::string(job::name_of(s.recompute.granularity)) + n("layers", s.recompute.layers) +
         " " + s.schedule.algorithm + (s.overlap.tp ? " tp-overlap" : "") +
         (s.overlap.moe_a2a ? " a2a-overlap" : "");
}

class Properties : public testing::Test {
 protected:
  Projection project_of(const DrawnJob& j) {
    EXPECT_TRUE(job::check(j.spec, *checked).empty()) << describe(j.spec);
    return project(*checked, spread.calibrations[j.part], {}, *workspace);
  }
  Screen screen_of(const DrawnJob& j) {
    EXPECT_TRUE(job::check(j.spec, *checked).empty()) << describe(j.spec);
    return screen(*checked, spread.calibrations[j.part], {}, *workspace);
  }

  Spread spread{7};
  Spread every{8, true};  // the same parts, so spread's calibrations
  std::unique_ptr<job::CheckedJob> checked = std::make_unique<job::CheckedJob>();
  WorkspacePtr workspace = make_workspace();
};

TEST_F(Properties, TheScreenNeverPromisesMoreTimeThanTheProjectionTakes) {
  double tightest = 0;
  for (int i = 0; i < kJobs; ++i) {
    const DrawnJob j = every.next();
    const Screen s = screen_of(j);
    const Projection p = project_of(j);
    ASSERT_GT(p.time.step.value, 0) << describe(j.spec);
    ASSERT_GT(s.step_lower_bound.value, 0) << describe(j.spec);
    ASSERT_LE(s.step_lower_bound.value, p.time.step.value) << describe(j.spec);
    tightest = std::max(tightest, s.step_lower_bound / p.time.step);
  }
  // Without communication, launches or contention the bound is nearly the answer.
  EXPECT_GT(tightest, 0.9);
}

TEST_F(Properties, TheScreensMemoryIsTheProjections) {
  for (int i = 0; i < kJobs; ++i) {
    const DrawnJob j = every.next();
    const Screen s = screen_of(j);
    const Projection p = project_of(j);
    ASSERT_EQ(s.device_peak.value, p.memory.device_peak.value) << describe(j.spec);
    ASSERT_EQ(s.peak_stage, p.memory.peak_stage) << describe(j.spec);
    ASSERT_EQ(s.fits, p.memory.fits) << describe(j.spec);
  }
}

TEST_F(Properties, PartsOfTimeAndMemoryAddUp) {
  for (int i = 0; i < kJobs; ++i) {
    const DrawnJob j = every.next();
    const Projection p = project_of(j);
    const TimeAnswer& t = p.time;
    const double parts = t.compute.value + t.bubble.value + t.optimizer.value + t.launch.value +
                         t.exposed.total().value;
    ASSERT_NEAR(parts / t.step.value, 1.0, 1e-9) << describe(j.spec);
    // Modules are charged what is not hidden; contention, transfers, launches and waiting are nobody's.
    double modules = 0;
    for (const Seconds s : t.by_module) modules += s.value;
    const double work = t.step.value - t.bubble.value - t.launch.value - t.exposed.pp.value;
    ASSERT_LE(modules, work + 1e-9 * t.step.value) << describe(j.spec);
    for (const double part :
         {t.compute.value, t.bubble.value, t.optimizer.value, t.launch.value, t.exposed.tp.value,
          t.exposed.cp.value, t.exposed.ep.value, t.exposed.pp.value, t.exposed.dp.value}) {
      ASSERT_GE(part, 0) << describe(j.spec);
      ASSERT_TRUE(std::isfinite(part)) << describe(j.spec);
    }
    for (const memory::StageMemory& m : p.memory.stages) {
      const double sum = m.parameters.value + m.gradients.value + m.optimizer.value +
                         m.activations.value + m.transient.value +
                         j.spec.framework.memory.workspace.value;
      ASSERT_NEAR(sum / m.allocated.value, 1.0, 1e-12) << describe(j.spec);
      for (const double part : {m.parameters.value, m.gradients.value, m.optimizer.value,
                                m.activations.value, m.transient.value}) {
        ASSERT_GE(part, 0) << describe(j.spec);
      }
      ASSERT_LE(m.allocated, m.reserved);
      ASSERT_LE(m.reserved, m.device);
      ASSERT_LE(m.device, p.memory.device_peak);
    }
  }
}

TEST_F(Properties, ThroughputIsArithmeticOnTheStep) {
  for (int i = 0; i < 200; ++i) {
    const DrawnJob j = spread.next();
    const Projection p = project_of(j);
    const double step = p.time.step.value;
    const double gpus = j.spec.cluster.gpus();
    const double tokens = static_cast<double>(j.spec.batch.global) * j.spec.batch.sequence;
    ASSERT_DOUBLE_EQ(p.throughput.tokens_per_s, tokens / step);
    ASSERT_DOUBLE_EQ(p.throughput.tokens_per_s_per_gpu, tokens / step / gpus);
    ASSERT_DOUBLE_EQ(p.throughput.samples_per_s, j.spec.batch.global / step);
    // Recomputation is work of the hardware and not of the model; so is the half of the scores that
    // unfused attention computes and masks.
    if (j.spec.attention == layer::AttentionKernel::unfused) continue;
    if (j.spec.recompute.granularity == job::Granularity::none) {
      ASSERT_NEAR(p.throughput.hfu / p.throughput.mfu, 1.0, 0.2) << describe(j.spec);
    } else if (j.spec.recompute.granularity == job::Granularity::full) {
      ASSERT_GT(p.throughput.hfu, p.throughput.mfu * 0.99) << describe(j.spec);
    }
  }
}

// Fills every number of the answer into one string, so that equal means equal to the last bit.
std::string bits_of(const Projection& p) {
  std::string out;
  const auto put = [&out](double v) {
    char raw[sizeof v];
    std::memcpy(raw, &v, sizeof v);
    out.append(raw, sizeof v);
  };
  put(p.parameters.total);
  put(p.parameters.active);
  for (const double v : p.parameters.per_stage) put(v);
  put(p.memory.allocated_peak.value);
  put(p.memory.device_peak.value);
  for (const memory::StageMemory& m : p.memory.stages) {
    for (const Bytes b : {m.parameters, m.gradients, m.optimizer, m.activations, m.transient,
                          m.communication, m.framework, m.allocated, m.reserved, m.device}) {
      put(b.value);
    }
    put(static_cast<double>(m.moment));
    put(m.in_flight);
  }
  for (const Bytes b : p.memory.saved_by_module) put(b.value);
  const TimeAnswer& t = p.time;
  for (const Seconds s : {t.step, t.compute, t.bubble, t.optimizer, t.launch, t.exposed.tp,
                          t.exposed.cp, t.exposed.ep, t.exposed.pp, t.exposed.dp}) {
    put(s.value);
  }
  for (const Seconds s : t.by_module) put(s.value);
  for (const Seconds s : t.stage_forward) put(s.value);
  for (const Seconds s : t.stage_backward) put(s.value);
  put(p.throughput.mfu);
  put(p.throughput.hfu);
  for (const Warning& w : p.warnings) out += w.code + w.message;
  return out;
}

// A warm workspace, a cold one and one of another thread give the same bits: nothing of the job
// before is left in the buffers.
TEST_F(Properties, WarmColdAndThreadedAnswersAreTheSameBits) {
  std::vector<DrawnJob> jobs;
  std::vector<std::string> warm;
  std::vector<Screen> screens;
  for (int i = 0; i < 400; ++i) {
    jobs.push_back(every.next());
    screens.push_back(screen_of(jobs.back()));
    warm.push_back(bits_of(project_of(jobs.back())));
  }
  std::vector<std::string> threaded(jobs.size());
  std::thread other([&] {
    const auto mine = std::make_unique<job::CheckedJob>();
    const WorkspacePtr w = make_workspace();
    for (std::size_t i = jobs.size(); i-- > 0;) {
      if (!job::check(jobs[i].spec, *mine).empty()) continue;
      threaded[i] = bits_of(project(*mine, spread.calibrations[jobs[i].part], {}, *w));
    }
  });
  other.join();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    ASSERT_EQ(threaded[i], warm[i]) << describe(jobs[i].spec);
    const WorkspacePtr cold = make_workspace();
    ASSERT_TRUE(job::check(jobs[i].spec, *checked).empty());
    const calibration::Calibration& c = spread.calibrations[jobs[i].part];
    ASSERT_EQ(bits_of(project(*checked, c, {}, *cold)), warm[i]) << describe(jobs[i].spec);
    const Screen again = screen(*checked, c, {}, *make_workspace());
    ASSERT_EQ(again.device_peak.value, screens[i].device_peak.value);
    ASSERT_EQ(again.step_lower_bound.value, screens[i].step_lower_bound.value);
  }
}

// ---- More of a machine is never slower ----

template <class Change>
void expect_not_slower(Spread& spread, job::CheckedJob& checked, Workspace& w, Change change,
                       int jobs) {
  int faster = 0;
  for (int i = 0; i < jobs; ++i) {
    DrawnJob j = spread.next();
    calibration::Calibration c = spread.calibrations[j.part];
    ASSERT_TRUE(job::check(j.spec, checked).empty());
    const double before = project(checked, c, {}, w).time.step.value;
    change(j.spec, c);
    ASSERT_TRUE(job::check(j.spec, checked).empty());
    const double after = project(checked, c, {}, w).time.step.value;
    ASSERT_LE(after, before * (1 + 1e-9)) << describe(j.spec);
    faster += after < before * (1 - 1e-6) ? 1 : 0;
  }
  EXPECT_GT(faster, jobs / 10);
}

TEST_F(Properties, MoreMemoryBandwidthIsNeverSlower) {
  expect_not_slower(
      spread, *checked, *workspace,
      [](job::JobSpec& s, calibration::Calibration&) {
        s.cluster.accelerator.memory_bandwidth *= 1.5;
      },
      400);
}

TEST_F(Properties, ARaisedMatrixRateIsNeverSlower) {
  expect_not_slower(
      spread, *checked, *workspace,
      [](job::JobSpec&, calibration::Calibration& c) {
        for (calibration::GemmCurve& g : c.part.gemm) g.peak_fraction *= 1.2;
      },
      400);
}

TEST_F(Properties, FasterLinksAreNeverSlower) {
  expect_not_slower(
      spread, *checked, *workspace,
      [](job::JobSpec& s, calibration::Calibration&) {
        for (hardware::NetworkLevel& l : s.cluster.levels) l.bandwidth *= 2.0;
      },
      400);
}

TEST_F(Properties, CapacityChangesNothingButWhetherItFits) {
  int turned = 0;
  for (int i = 0; i < 400; ++i) {
    DrawnJob j = spread.next();
    const calibration::Calibration& c = spread.calibrations[j.part];
    const Projection before = project_of(j);
    // Exactly full at the margin of 5 %, then one byte less; with uneven routing what 99 runs of 100 need,
    // which is known to a part in a million.
    const bool even = before.memory.routing.even;
    const Bytes need = even ? before.memory.least_peak : before.memory.routing.run_p99;
    j.spec.cluster.accelerator.memory_visible = need / 0.95 * (1 + (even ? 1e-12 : 1e-6));
    ASSERT_TRUE(job::check(j.spec, *checked).empty());
    const Projection full = project(*checked, c, {}, *workspace);
    EXPECT_TRUE(full.memory.fits) << describe(j.spec);
    j.spec.cluster.accelerator.memory_visible =
        need / 0.95 * (even ? 1.0 : 1 - 1e-6) - Bytes{2};
    ASSERT_TRUE(job::check(j.spec, *checked).empty());
    const Projection over = project(*checked, c, {}, *workspace);
    EXPECT_FALSE(over.memory.fits) << describe(j.spec);
    EXPECT_EQ(full.time.step.value, before.time.step.value);
    EXPECT_EQ(full.memory.device_peak.value, before.memory.device_peak.value);
    turned += before.memory.fits ? 0 : 1;
  }
  EXPECT_GT(turned, 10);
}

// ---- More sharding never holds more ----

TEST_F(Properties, MoreShardedStatesNeverHoldMore) {
  using parallel::Sharding;
  for (int i = 0; i < 400; ++i) {
    DrawnJob j = spread.next();
    // FSDP2 under a pipeline does hold more: a whole copy beside the shards.
    if (j.spec.framework.state.gathered_in_pipeline && j.spec.parallel.pp > 1) continue;
    // So does a reduction that waits for the last micro-batch.
    if (j.spec.framework.state.deferred_gradient_bytes > 0) continue;
    double before[3] = {1e300, 1e300, 1e300};
    for (const Sharding sharding :
         {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
      j.spec.parallel.sharding = sharding;
      const Projection p = project_of(j);
      for (const memory::StageMemory& m : p.memory.stages) {
        // What is held all the step; a gathered unit of ZeRO-3 is a transient.
        const double now[3] = {m.parameters.value, m.parameters.value + m.gradients.value,
                               m.parameters.value + m.optimizer.value};
        if (&m != &p.memory.stages.front()) continue;
        for (int k = 0; k < 3; ++k) {
          ASSERT_LE(now[k], before[k] * (1 + 1e-12)) << describe(j.spec);
          before[k] = now[k];
        }
      }
    }
  }
}

TEST_F(Properties, TensorParallelismWithSequenceParallelismNeverHoldsMoreOfALayer) {
  int compared = 0;
  for (int i = 0; i < 600; ++i) {
    DrawnJob j = spread.next();
    if (j.spec.parallel.tp > 4 || j.spec.framework.saved.gathered_input ||
        model::is_moe(j.spec.model)) {
      continue;
    }
    // The same data-parallel ranks on twice the machine, so that only tp differs.
    j.spec.parallel.sequence_parallel = j.spec.parallel.tp > 1;
    const Projection whole = project_of(j);
    DrawnJob halved = j;
    halved.spec.parallel.tp *= 2;
    halved.spec.parallel.sequence_parallel = true;
    halved.spec.cluster = *reader::with_nodes(j.spec.cluster, j.spec.cluster.nodes * 2);
    if (!job::check(halved.spec, *checked).empty()) continue;
    const Projection half = project_of(j);
    for (std::size_t stage = 0; stage < whole.memory.stages.size(); ++stage) {
      const memory::StageMemory& a = whole.memory.stages[stage];
      const memory::StageMemory& b = half.memory.stages[stage];
      ASSERT_LE(b.parameters.value, a.parameters.value * (1 + 1e-9)) << describe(j.spec);
      ASSERT_LE(b.activations.value, a.activations.value * (1 + 1e-9)) << describe(j.spec);
    }
    ++compared;
  }
  EXPECT_GT(compared, 50);
}

TEST_F(Properties, LargerMicroBatchesAndLongerSequencesNeverHoldLess) {
  for (int i = 0; i < 300; ++i) {
    DrawnJob j = spread.next();
    if (j.spec.model.position == layer::Position::learned) continue;
    const double before = project_of(j).memory.allocated_peak.value;
    DrawnJob longer = j;
    longer.spec.batch.sequence *= 2;
    ASSERT_GE(project_of(longer).memory.allocated_peak.value, before) << describe(j.spec);
    DrawnJob larger = j;
    larger.spec.batch.micro *= 2;
    larger.spec.batch.global *= 2;  // as many micro-batches
    ASSERT_GE(project_of(larger).memory.allocated_peak.value, before) << describe(j.spec);
  }
}

// Fill, drain and the optimizer are shared by more micro-batches.
TEST_F(Properties, MoreMicroBatchesNeverLowerTheThroughput) {
  int compared = 0;
  for (int i = 0; i < 600; ++i) {
    DrawnJob j = spread.next();
    if (j.spec.parallel.vpp > 1) continue;
    const double before = project_of(j).throughput.tokens_per_s;
    j.spec.batch.global *= 2;
    ASSERT_GE(project_of(j).throughput.tokens_per_s, before * (1 - 1e-9)) << describe(j.spec);
    ++compared;
  }
  EXPECT_GT(compared, 300);
}

TEST_F(Properties, MoreRecomputationNeverKeepsMore) {
  for (int i = 0; i < 400; ++i) {
    DrawnJob j = spread.next();
    const auto kept = [this] {
      std::vector<std::int64_t> held;
      for (const schedule::ChunkCost& c : workspace->chunks) held.push_back(c.held);
      return held;
    };
    j.spec.recompute = {};
    const Projection none = project_of(j);
    const std::vector<std::int64_t> all = kept();
    j.spec.recompute.granularity = job::Granularity::selective;
    const Projection selective = project_of(j);
    const std::vector<std::int64_t> some = kept();
    j.spec.recompute.granularity = job::Granularity::full;
    const Projection full = project_of(j);
    const std::vector<std::int64_t> few = kept();
    for (std::size_t slot = 0; slot < all.size(); ++slot) {
      ASSERT_LE(some[slot], all[slot]) << describe(j.spec);
      ASSERT_LE(few[slot], some[slot]) << describe(j.spec);
    }
    ASSERT_GE(selective.time.step.value, none.time.step.value * (1 - 1e-9)) << describe(j.spec);
    ASSERT_GE(full.time.step.value, none.time.step.value * (1 - 1e-9)) << describe(j.spec);
  }
}

}  // namespace
}  // namespace eratos::projection
