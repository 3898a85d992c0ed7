// A job taken apart into ranks and put together again is the job.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/ranks.h"
#include "eratos/reader/catalogue.h"
#include "spread.h"

namespace eratos::projection {
namespace {

// Layers of the job's own rank that it recomputes.
std::vector<std::uint8_t> recomputed(const job::CheckedJob& job, int rank) {
  const job::VirtualStage& stage = job.stages[static_cast<std::size_t>(rank)];
  std::vector<std::uint8_t> out;
  for (int n = 0; n < stage.layers; ++n) {
    out.push_back(
        lower::recomputed_in_full(job.spec->recompute, stage.first_layer + n, n) ? 1 : 0);
  }
  return out;
}

TEST(Ranks, PutTogetherTheySayWhatTheJobSaysBitForBit) {
  Spread spread(401);
  const auto checked = std::make_unique<job::CheckedJob>();
  const WorkspacePtr workspace = make_workspace();
  int tried = 0;
  int refused = 0;
  while (tried < 400) {
    DrawnJob drawn = spread.next();
    if (spread.rng().below(4) == 0) drawn.spec.offload.layers = 2;
    ASSERT_TRUE(job::check(drawn.spec, *checked).empty());
    if (Ranks::refusal(*checked)) {
      ++refused;
      continue;
    }
    const calibration::Calibration& calibration = spread.calibrations[drawn.part];
    const Projection whole = project(*checked, calibration, {}, *workspace);
    if (whole.time.step.value <= 0) continue;
    Ranks ranks(*checked, calibration);
    std::vector<RankCost> costs;
    // From the last to the first: the order of the questions changes no answer.
    for (int rank = drawn.spec.parallel.pp - 1; rank >= 0; --rank) {
      const job::VirtualStage& stage = checked->stages[static_cast<std::size_t>(rank)];
      ranks.put(rank, stage.first_layer, recomputed(*checked, rank));
      const memory::StageMemory& m = ranks.memory();
      ASSERT_EQ(m.least.value, whole.memory.stages[static_cast<std::size_t>(rank)].least.value)
          << drawn.spec.model.name << " " << drawn.spec.framework.name << " rank " << rank;
      ASSERT_EQ(m.device.value, whole.memory.stages[static_cast<std::size_t>(rank)].device.value);
      costs.insert(costs.begin(), ranks.cost());
    }
    std::vector<const RankCost*> all;
    for (const RankCost& c : costs) all.push_back(&c);
    ASSERT_EQ(ranks.step(all), whole.time.step.value)
        << drawn.spec.model.name << " " << drawn.spec.framework.name;
    ++tried;
  }
  EXPECT_GT(refused, 50);
}

TEST(Ranks, WhatDoesNotComeApartSaysWhy) {
  Spread spread(402);
  const auto checked = std::make_unique<job::CheckedJob>();
  job::JobSpec s;
  s.model = *reader::load_model("mixtral-8x7b");
  s.framework = *reader::load_framework("megatron");
  s.cluster = *reader::load_cluster("h100-sxm-8x8");
  s.parallel.pp = 4;
  s.batch = {1, 256, 4096};
  const auto why = [&](const job::JobSpec& spec) {
    EXPECT_TRUE(job::check(spec, *checked).empty());
    const auto refusal = Ranks::refusal(*checked);
    return refusal ? refusal->field : std::string("none");
  };
  EXPECT_EQ(why(s), "none");
  job::JobSpec other = s;
  other.parallel.vpp = 2;
  EXPECT_EQ(why(other), "parallel.vpp");
  other = s;
  other.schedule.algorithm = "zb-h1";
  EXPECT_EQ(why(other), "schedule.algorithm");
  other = s;
  other.parallel.ep = 8;
  other.routing.balance = job::Balance::random;
  EXPECT_EQ(why(other), "moe.routing");
  other = s;
  other.schedule.algorithm = "1f1b";
  other.schedule.output_layer = parallel::OutputLayer::two_barriers;
  EXPECT_EQ(why(other), "schedule.output_layer");
}

}  // namespace
}  // namespace eratos::projection
