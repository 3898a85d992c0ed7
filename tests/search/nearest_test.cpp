// Neighbours of a job: legal, fitting, near, and the best first.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/sayable.h"
#include "eratos/search/nearest.h"

namespace eratos::search {
namespace {

job::JobSpec mixtral() {
  job::JobSpec s;
  s.model = *reader::load_model("mixtral-8x22b");
  s.framework = *reader::load_framework("primus-megatron");
  s.cluster = *reader::load_cluster("mi355x-8x8");
  s.parallel.pp = 4;
  s.parallel.ep = 8;
  s.parallel.sharding = parallel::Sharding::zero1;
  s.batch = {2, 128, 8192};
  return s;
}

struct Nearest : testing::Test {
  calibration::Calibration calibration = *reader::load_calibration("mi355x");
  projection::WorkspacePtr workspace = projection::make_workspace();
  std::unique_ptr<job::CheckedJob> checked = std::make_unique<job::CheckedJob>();

  std::vector<Neighbour> of(const job::JobSpec& s, std::size_t most = 100) {
    return nearest_that_fit(s, calibration, {}, most, *workspace);
  }
};

bool has(const std::vector<Neighbour>& all, const std::string& change) {
  return std::any_of(all.begin(), all.end(),
                     [&](const Neighbour& n) { return n.change == change; });
}

// The header's example.
TEST_F(Nearest, MixtralFitsWithHalfTheMicroBatchOrFullRecomputation) {
  const job::JobSpec s = mixtral();
  ASSERT_TRUE(job::check(s, *checked).empty());
  ASSERT_FALSE(projection::screen(*checked, calibration, {}, *workspace).fits);
  const std::vector<Neighbour> found = of(s);
  EXPECT_TRUE(has(found, "batch.micro=1"));
  EXPECT_TRUE(has(found, "recompute.granularity=full"));
  EXPECT_FALSE(has(found, "batch.micro=4"));
}

// A framework that runs V schedules is offered them, without the overlap that it does not run
// beside them, and none beside recomputation, which it refuses; one that has only 1F1B is not.
TEST_F(Nearest, SchedulesOfTheFrameworkAreOffered) {
  job::JobSpec s;
  s.model = *reader::load_model("llama3.1-70b");
  s.framework = *reader::load_framework("primus-megatron");
  s.cluster = *reader::load_cluster("mi355x-2x8");
  s.parallel.pp = 8;
  s.parallel.sharding = parallel::Sharding::zero1;
  s.batch = {2, 64, 4096};
  ASSERT_TRUE(job::check(s, *checked).empty());
  ASSERT_FALSE(projection::screen(*checked, calibration, {}, *workspace).fits);
  const std::vector<Neighbour> found = of(s);
  EXPECT_TRUE(has(found,
                  "schedule.algorithm=v-half, parallel.vpp=2, overlap.grad_reduce=false, "
                  "overlap.param_gather=false"));
  for (const Neighbour& n : found) {
    if (n.change.find("schedule.algorithm") == std::string::npos) continue;
    EXPECT_EQ(n.change.find("recompute"), std::string::npos) << n.change;
  }
  s.framework = *reader::load_framework("megatron");
  for (const Neighbour& n : of(s)) {
    EXPECT_EQ(n.change.find("schedule.algorithm"), std::string::npos) << n.change;
  }
}

TEST_F(Nearest, EveryNeighbourIsLegalFitsAndSaysWhatItScreened) {
  for (const Neighbour& n : of(mixtral())) {
    ASSERT_TRUE(job::check(n.spec, *checked).empty()) << n.change;
    const projection::Screen again = projection::screen(*checked, calibration, {}, *workspace);
    EXPECT_TRUE(again.fits) << n.change;
    EXPECT_EQ(again.device_peak.value, n.screen.device_peak.value) << n.change;
    EXPECT_EQ(again.step_lower_bound.value, n.screen.step_lower_bound.value) << n.change;
    const auto commas = std::count(n.change.begin(), n.change.end(), ',');
    // A change names every field it sets, so it may name more fields than it makes changes.
    EXPECT_GE(static_cast<int>(commas) + 1, n.changes) << n.change;
  }
}

TEST_F(Nearest, FewerChangesFirstThenTheLowerBound) {
  const std::vector<Neighbour> found = of(mixtral());
  ASSERT_GT(found.size(), 2U);
  for (std::size_t i = 1; i < found.size(); ++i) {
    ASSERT_LE(found[i - 1].changes, found[i].changes);
    if (found[i - 1].changes == found[i].changes) {
      ASSERT_LE(found[i - 1].screen.step_lower_bound, found[i].screen.step_lower_bound);
    }
  }
  const std::vector<Neighbour> three = of(mixtral(), 3);
  ASSERT_EQ(three.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(three[i].change, found[i].change);
}

// A micro-batch of 3 does not divide the batch over 16 ranks; half of it, rounded down, does.
TEST_F(Nearest, AnIllegalJobHasLegalNeighbours) {
  job::JobSpec s = mixtral();
  s.batch.micro = 3;  // 3 * dp 16 does not divide 128
  ASSERT_FALSE(job::check(s, *checked).empty());
  EXPECT_TRUE(has(of(s), "batch.micro=1"));
}

// deal_unevenly()'s example: 61 layers on 16 stages.
TEST_F(Nearest, LayersThatDoNotDivideAreDealtToTheEnds) {
  job::JobSpec s = mixtral();
  s.model = *reader::load_model("deepseek-v3");
  s.cluster = *reader::load_cluster("mi355x-16x8");
  s.parallel.pp = 16;
  ASSERT_FALSE(job::check(s, *checked).empty());
  const std::vector<Neighbour> found = of(s);
  ASSERT_FALSE(found.empty());
  bool dealt = false;
  for (const Neighbour& n : found) {
    if (n.spec.parallel.pp != 16) continue;
    dealt = true;
    EXPECT_EQ(n.spec.layout.first_stage_layers, 3) << n.change;
    EXPECT_EQ(n.spec.layout.last_stage_layers, 2) << n.change;
    EXPECT_NE(n.change.find("parallel.first_stage_layers=3, parallel.last_stage_layers=2"),
              std::string::npos)
        << n.change;
  }
  EXPECT_TRUE(dealt);
}

TEST_F(Nearest, ABatchThatDoesNotDivideIsRoundedBothWays) {
  job::JobSpec s = mixtral();
  s.batch = {1, 100, 8192};  // dp 16: 96 or 112
  ASSERT_FALSE(job::check(s, *checked).empty());
  const std::vector<Neighbour> found = of(s);
  EXPECT_TRUE(has(found, "batch.global=96") || has(found, "batch.global=112"));
  for (const Neighbour& n : found) EXPECT_EQ(n.change.find("batch.global=100"), std::string::npos);
}

// A change that contains one which suffices is left out.
TEST_F(Nearest, NoChangeContainsAnother) {
  const std::vector<Neighbour> found = of(mixtral());
  for (const Neighbour& n : found) {
    if (n.changes == 1) continue;
    EXPECT_EQ(n.change.find("batch.micro="), std::string::npos) << n.change;
    EXPECT_EQ(n.change.find("recompute.granularity=full"), std::string::npos) << n.change;
  }
}

// A pair of steps that sets what one step sets does not stand in its place: tp 4 alone divides the
// batch of 6 by dp 2, and so does etp first and then tp.
TEST_F(Nearest, OneStepIsNotReplacedByTwoOfTheSameSettings) {
  job::JobSpec s = mixtral();
  s.framework = *reader::load_framework("nanotron");
  s.cluster = *reader::load_cluster("mi355x-1x8");
  s.cluster.accelerator.memory_visible = gib(10'000);
  s.parallel = {};
  s.batch = {3, 6, 4096};
  ASSERT_FALSE(job::check(s, *checked).empty());
  const std::vector<Neighbour> found = of(s);
  EXPECT_TRUE(has(found, "parallel.tp=4, parallel.sequence_parallel=true, parallel.etp=1") ||
              has(found, "parallel.tp=8, parallel.sequence_parallel=true, parallel.etp=1"));
  for (const Neighbour& n : found) {
    EXPECT_TRUE(n.changes == 1 || n.change.find("parallel.tp=") == std::string::npos) << n.change;
  }
}

TEST_F(Nearest, EverySettingIsSaidOnce) {
  for (const Neighbour& n : of(mixtral())) {
    std::set<std::string> said;
    std::istringstream parts(n.change);
    for (std::string part; parts >> part;) {
      const std::string setting = part.substr(0, part.find('='));
      EXPECT_TRUE(said.insert(setting).second) << n.change;
    }
  }
}

// nanotron keeps its optimizer on the device.
TEST_F(Nearest, OffloadIsOfferedWhereTheFrameworkHasIt) {
  job::JobSpec s = mixtral();
  s.cluster.accelerator.memory_visible = gib(100);
  const auto offloads = [&](bool can) {
    const auto found = nearest_that_fit(s, calibration, {}, 100, *workspace, {}, can);
    return std::any_of(found.begin(), found.end(), [](const Neighbour& n) {
      return n.change.find("offload") != std::string::npos;
    });
  };
  EXPECT_TRUE(offloads(true));
  EXPECT_FALSE(offloads(false));
  EXPECT_TRUE(reader::says_offload(s));
  s.framework = *reader::load_framework("nanotron");
  EXPECT_FALSE(reader::says_offload(s));
}

// Where the cluster is too small for anything: the first larger one that is not.
TEST_F(Nearest, MoreNodesComeLast) {
  job::JobSpec s = mixtral();
  s.cluster = *reader::load_cluster("mi355x-1x8");
  s.parallel.pp = 1;
  s.batch.micro = 1;
  s.cluster.accelerator.memory_visible = gib(100);
  std::vector<hardware::ClusterSpec> larger;
  for (const int nodes : {2, 4, 8, 16}) {
    job::JobSpec there = s;
    there.cluster = *reader::load_cluster("mi355x-" + std::to_string(nodes) + "x8");
    there.cluster.accelerator.memory_visible = gib(100);
    larger.push_back(there.cluster);
  }
  EXPECT_TRUE(of(s).empty());
  const std::vector<Neighbour> found =
      nearest_that_fit(s, calibration, {}, 5, *workspace, larger);
  ASSERT_FALSE(found.empty());
  for (const Neighbour& n : found) {
    EXPECT_EQ(n.change.rfind("--nodes " + std::to_string(n.spec.cluster.nodes), 0), 0U) << n.change;
    EXPECT_EQ(n.spec.cluster.nodes, found[0].spec.cluster.nodes);
    ASSERT_TRUE(job::check(n.spec, *checked).empty()) << n.change;
    EXPECT_TRUE(projection::screen(*checked, calibration, {}, *workspace).fits) << n.change;
  }
}

TEST_F(Nearest, NothingWhenNoThreeChangesHelp) {
  job::JobSpec s = mixtral();
  s.cluster.accelerator.memory_visible = gib(2);
  EXPECT_TRUE(of(s).empty());
}

}  // namespace
}  // namespace eratos::search
