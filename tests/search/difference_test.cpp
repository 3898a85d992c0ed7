// What each change contributes multiplies to the whole; what is legal only together stays together.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/search/around.h"
#include "eratos/search/difference.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/space.h"
#include "search/jobs.h"

namespace eratos::search {
namespace {

using Words = std::vector<std::string>;

struct Difference : testing::Test {
  calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  projection::WorkspacePtr workspace = projection::make_workspace();

  std::vector<Contribution> of(const Space& space, const Candidate& from, const Candidate& to) {
    return contributions(space, settings_of(space, from), settings_of(space, to), calibration, {},
                         *workspace);
  }
  double figure(const Space& space, const Candidate& at) {
    Evaluator evaluator(space, calibration, {});
    return evaluator.project(at).time.step.value / (64.0 * 4096);
  }
};

Candidate at(const Space& space, std::vector<std::pair<AxisId, std::string>> words) {
  Candidate out;
  for (const auto& [axis, word] : words) {
    const std::vector<Value>& values = space.values(axis);
    std::size_t i = 0;
    while (values[i].word != word) ++i;
    out.at[static_cast<std::size_t>(axis)] = static_cast<std::uint8_t>(i);
  }
  return out;
}

TEST_F(Difference, FactorsMultiplyToTheWhole) {
  const Space space =
      *space_of(job_of("llama3.1-8b", "h100-sxm-2x8", 64),
                Words{"tp=1,2", "pp=1,2", "micro=1,2", "recompute=none,full", "rest=job"});
  const Candidate slow = at(space, {{AxisId::tp, "2"}, {AxisId::pp, "2"}, {AxisId::recompute, "full"}});
  const Candidate fast = at(space, {{AxisId::micro, "2"}});
  const std::vector<Contribution> all = of(space, slow, fast);
  ASSERT_EQ(all.size(), 4U);
  double whole = 1;
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].changes.size(), 1U);
    EXPECT_EQ(all[i].before, i > 0 ? all[i - 1].after : figure(space, slow));
    whole *= 1 + all[i].gain();
  }
  EXPECT_NEAR(whole, figure(space, slow) / figure(space, fast), 1e-12);
  EXPECT_EQ(all.back().after, figure(space, fast));
  EXPECT_TRUE(of(space, fast, fast).empty());
}

// 20 layers a stage: chunks of 10 recompute in units of 5 and not of 4, chunks of 4 the other way.
TEST_F(Difference, ChangesThatAreLegalOnlyTogetherAreOne) {
  job::JobSpec job = job_of("llama3.1-70b", "h100-sxm-1x8", 64);
  job.parallel.pp = 4;
  const Space space =
      *space_of(job, Words{"vpp=2,5", "recompute=uniform:5,uniform:4", "micro=1,2", "rest=job"});
  const Candidate to = at(space, {{AxisId::vpp, "5"},
                                  {AxisId::recompute, "uniform:4"},
                                  {AxisId::micro, "2"}});
  const std::vector<Contribution> all = of(space, Candidate{}, to);
  ASSERT_EQ(all.size(), 2U);
  const Contribution& both = all[all[0].changes.size() == 2 ? 0 : 1];
  ASSERT_EQ(both.changes.size(), 2U);
  EXPECT_EQ(both.changes[0].axis, AxisId::recompute);
  EXPECT_EQ(both.changes[1].axis, AxisId::vpp);
}

TEST_F(Difference, TheJobsOwnSettingsAreWhatItSays) {
  job::JobSpec job = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
  job.parallel.tp = 2;
  const Space space = *space_of(job, Words{"tp=1,4", "rest=job"});
  const Settings own = settings_of_job(space);
  EXPECT_EQ(own[static_cast<std::size_t>(AxisId::tp)].word, "2");
  const std::vector<Contribution> all =
      contributions(space, own, settings_of(space, Candidate{}), calibration, {}, *workspace);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].changes[0].from, "2");
  EXPECT_EQ(all[0].changes[0].to, "1");
}

// The header's example of a rival, and what counts around a best.
TEST(Around, RivalsAndBasins) {
  projection::Projection best;
  best.time.step = Seconds{10};
  best.confidence.step = {Seconds{9.5}, Seconds{10.5}};
  EXPECT_TRUE(is_rival(best, 1.0, 1.04));
  EXPECT_FALSE(is_rival(best, 1.0, 1.06));
  std::vector<StepAway> steps(4);
  const Rule rule{};
  steps[0] = {.fits = true, .figure = 1.04};
  steps[1] = {.fits = true, .figure = 1.5};
  steps[2] = {.fits = false, .figure = 0.9};
  steps[3] = {.refused_by = &rule, .fits = true, .figure = 1.0};
  const Basin b = basin_of(steps, best, 1.0);
  EXPECT_EQ(b.steps, 2);
  EXPECT_EQ(b.within, 1);
}

// 70 GiB with a band up to 84 of 80: a step of 66 GiB keeps 79.2 inside, one of 67 does not.
TEST(Around, TheSaferStepIsTheCheapestWhoseBandIsInside) {
  projection::Projection best;
  best.memory.fits = true;
  best.memory.capacity = gib(80);
  best.memory.device_peak = gib(70);
  best.confidence.peak = {gib(60), gib(84)};
  ASSERT_TRUE(may_run_out(best));
  std::vector<StepAway> steps(3);
  steps[0] = {.fits = true, .device_peak = gib(67), .figure = 1.0};
  steps[1] = {.fits = true, .device_peak = gib(50), .figure = 1.3};
  steps[2] = {.fits = true, .device_peak = gib(66), .figure = 1.1};
  EXPECT_EQ(safer_step(steps, best), &steps[2]);
  steps.resize(1);
  EXPECT_EQ(safer_step(steps, best), nullptr);
  best.confidence.peak.second = gib(79);
  EXPECT_FALSE(may_run_out(best));
}

}  // namespace
}  // namespace eratos::search
