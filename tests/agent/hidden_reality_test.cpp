// The machine is not what the model thinks: some kernels are slower, one level of links has half
// its rate, the framework holds a buffer that nobody knows. Eight measurements.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "../search/jobs.h"
#include "bench_workshop.h"
#include "eratos/agent/refinement.h"
#include "eratos/agent/session.h"
#include "eratos/base/rng.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/knobs.h"

namespace eratos::agent {
namespace {

constexpr int kBudget = 8;

// One or two families of kernels 20 % slower, one level of links at half its rate, and up to a
// tenth of the memory held by a buffer. Through the numbers of the calibration and the profile
// alone.
Truth distorted(Truth out, const job::JobSpec& base, std::uint64_t seed) {
  Rng rng(seed);
  calibration::PartCalibration& part = out.calibration.part;
  framework::FrameworkProfile& profile = out.framework;
  const double slower = 1 / 1.2;
  const std::size_t families = 1 + rng.below(2);
  for (std::size_t i = 0; i < families; ++i) {
    switch (rng.below(4)) {
      case 0:
        for (calibration::GemmCurve& c : part.gemm) c.in_training *= slower;
        break;
      case 1:
        for (calibration::GemmCurve& c : part.gemm) c.grouped *= slower;
        for (calibration::GemmCurve& c : part.gemm) c.tile[2] *= slower;
        break;
      case 2:
        for (calibration::AttentionCurve& c : part.attention.curves) {
          c.rate = FlopsPerSecond{c.rate.value * slower};
        }
        break;
      default:
        for (double& share : part.elementwise.share) share *= slower;
    }
  }
  if (rng.below(2) == 0) {
    part.network.share *= 0.5;
  } else {
    for (calibration::CollectiveCurve& c : part.collectives) {
      c.busbw = BytesPerSecond{c.busbw.value * 0.5};
    }
  }
  const Bytes capacity = base.cluster.accelerator.memory_visible;
  profile.memory.context = profile.memory.context + capacity * (0.1 * rng.uniform());
  return out;
}

struct Case {
  job::JobSpec job;
  std::vector<std::string> axes;
};

// Both hold nearly all the memory there is, and have much traffic between nodes.
Case dense() {
  return {search::job_of("llama3.1-70b", "h100-sxm-4x8", 128),
          {"rest=job", "tp=2,4,8", "pp=1,2,4,8", "vpp=1,2,5", "mbs=1,2", "cp=1,2",
           "recompute=none,selective,full,full:2", "sharding=zero1,zero3", "sp=true"}};
}
Case moe() {
  return {search::job_of("mixtral-8x22b", "h100-sxm-8x8", 128),
          {"rest=job", "tp=1,2,4,8", "pp=2,4,8", "vpp=1,2,7", "ep=2,4,8", "mbs=1,2",
           "recompute=none,selective,full,full:2", "sp=true"}};
}

search::Outcome best_of(BenchWorkshop& w, const search::Space& space,
                        const calibration::Calibration& calibration, std::size_t top) {
  search::Exhaustive all(space, {top, false});
  return w.search(space, calibration, all);
}

struct Judged {
  bool picked = false;
  bool ran_out = false;  // the pick, in the truth
  double regret = 0;     // of the pick, against the truth's optimum
  // Of the best of the model's top 8, were they measured; infinite where all ran out.
  double of_top = std::numeric_limits<double>::infinity();
  int measurements = 0;
};

double per_token(const job::JobSpec& s, const Measured& m) {
  return m.step_s / (static_cast<double>(s.batch.global) * s.batch.sequence);
}

std::vector<Judged> judge(const Case& each, std::uint64_t first, std::uint64_t last) {
  std::vector<Judged> out;
  BenchWorkshop workshop(each.job);
  const search::Space space = *workshop.space_of(each.axes);
  const Truth undistorted = workshop.truth();
  std::vector<search::Candidate> top;
  for (const search::Found& f : best_of(workshop, space, workshop.calibration(), kBudget).top) {
    top.push_back(f.at);
  }
  std::vector<search::Candidate> pool = top;
  for (std::uint64_t seed = first; seed < last; ++seed) {
    const Truth truth = distorted(undistorted, each.job, seed);
    workshop.set_truth(truth);
    search::Space real = space;
    real.base.framework = truth.framework;
    const search::Outcome best = best_of(workshop, real, truth.calibration, 1);
    if (best.top.empty()) return {};
    const double optimum = best.top[0].per_token;

    Records records;
    std::array<Budget, kFidelities> budgets;
    budgets[static_cast<std::size_t>(Fidelity::measure)].most = kBudget;
    Session session(workshop, space, budgets, records);
    Refinement refinement(session, pool);
    if (seed == first) {  // the same for all: it knows nothing of the truth
      refinement.make_pool();
      pool = refinement.pool();
    }
    workshop.measurements = 0;
    const Refined refined = refinement.run();
    Judged run;
    run.measurements = workshop.measurements;
    run.picked = refined.pick != nullptr;
    if (run.picked) {
      const TunedJobPtr job = session.job_of(*refined.pick);
      const Measured m = workshop.true_of(job->spec);
      run.ran_out = m.out_of_memory;
      run.regret = per_token(job->spec, m) / optimum - 1;
    }
    for (const search::Candidate& at : top) {
      job::JobSpec spec = space.base;
      search::apply(space, at, spec);
      const Measured m = workshop.true_of(spec);
      if (m.out_of_memory) continue;
      run.of_top = std::min(run.of_top, per_token(spec, m) / optimum - 1);
    }
    out.push_back(run);
  }
  return out;
}

template <typename Value>
double median(const std::vector<Judged>& runs, Value value) {
  std::vector<double> all;
  for (const Judged& r : runs) all.push_back(value(r));
  std::sort(all.begin(), all.end());
  return (all[all.size() / 2] + all[(all.size() - 1) / 2]) / 2;
}

double mean(const std::vector<Judged>& runs, double Judged::*value) {
  double sum = 0;
  for (const Judged& r : runs) sum += r.*value;
  return sum / static_cast<double>(runs.size());
}

void expect_safe(const std::vector<Judged>& runs) {
  for (std::size_t seed = 0; seed < runs.size(); ++seed) {
    EXPECT_TRUE(runs[seed].picked) << seed;
    EXPECT_FALSE(runs[seed].ran_out) << seed;
    EXPECT_LE(runs[seed].measurements, kBudget) << seed;
  }
}

TEST(HiddenReality, EightMeasurementsFindWhatTheDistortedTruthWouldRun) {
  const std::vector<Judged> runs = judge(dense(), 0, 50);
  ASSERT_EQ(runs.size(), 50U);
  expect_safe(runs);
  const double ours = median(runs, [](const Judged& r) { return r.regret; });
  const double tops = median(runs, [](const Judged& r) { return r.of_top; });
  std::printf(
      "median regret %.4f of %.1f measurements, of measuring the top 8 %.4f; mean %.4f, %.4f\n",
      ours, median(runs, [](const Judged& r) { return r.measurements; }), tops,
      mean(runs, &Judged::regret), mean(runs, &Judged::of_top));
  EXPECT_LE(ours, 0.02);
  EXPECT_LT(ours, tops);
}

TEST(HiddenReality, ExpertsAndATightMemoryAsWell) {
  const std::vector<Judged> runs = judge(moe(), 12, 20);
  ASSERT_EQ(runs.size(), 8U);
  expect_safe(runs);
  std::printf("mean regret %.4f of %.1f measurements, of measuring the top 8 %.4f\n",
              mean(runs, &Judged::regret),
              median(runs, [](const Judged& r) { return r.measurements; }),
              mean(runs, &Judged::of_top));
  EXPECT_LE(median(runs, [](const Judged& r) { return r.regret; }), 0.02);
  EXPECT_LT(mean(runs, &Judged::regret), mean(runs, &Judged::of_top));
}

}  // namespace
}  // namespace eratos::agent
