// Words of --axes, places of candidates, and counts that add up.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/reader/catalogue.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"
#include "eratos/search/walk.h"
#include "search/jobs.h"

namespace eratos::search {
namespace {

using Words = std::vector<std::string>;

std::string listed(const Space& space, AxisId axis) {
  std::string out;
  for (const Value& v : space.values(axis)) out += (out.empty() ? "" : ",") + v.word;
  return out;
}

// The header's example.
TEST(Space, ListedRangedAndPinned) {
  const job::JobSpec base = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
  const auto space = space_of(base, Words{"tp=1,2,4", "pp=2,4", "rest=job"});
  ASSERT_TRUE(space);
  EXPECT_EQ(space->raw(), 6U);
  EXPECT_EQ(listed(*space, AxisId::sharding), "zero1");
  const auto ranged = space_of(base, Words{"tp=1..8", "mbs=2,4..9", "rest=job"});
  ASSERT_TRUE(ranged);
  EXPECT_EQ(listed(*ranged, AxisId::tp), "1,2,4,8");
  EXPECT_EQ(listed(*ranged, AxisId::micro), "2,4,8");
}

TEST(Space, DefaultsDivideAndExclusionsLeaveTheRest) {
  const job::JobSpec base = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
  const auto space = space_of(base, Words{"vpp!=1,2"});
  ASSERT_TRUE(space);
  EXPECT_EQ(listed(*space, AxisId::tp), "1,2,4,8");
  EXPECT_EQ(listed(*space, AxisId::vpp), "3,4,8,16");
  EXPECT_EQ(listed(*space, AxisId::ep), "1");
  EXPECT_EQ(listed(*space, AxisId::global), "64");
  EXPECT_EQ(listed(*space, AxisId::precision), "bf16");
  EXPECT_EQ(listed(*space, AxisId::overlap_gather), "false,true");
}

TEST(Space, AJobsOwnValueIsAlwaysThere) {
  job::JobSpec base = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
  base.batch.micro = 6;
  base.recompute = {.granularity = job::Granularity::full, .layer_ids = {1, 2}};
  base.layout.first_stage_layers = 4;
  const auto space = space_of(base, Words{});
  ASSERT_TRUE(space);
  EXPECT_EQ(listed(*space, AxisId::micro), "1,2,4,6,8,16");
  EXPECT_NE(listed(*space, AxisId::recompute).find("job"), std::string::npos);
  EXPECT_EQ(listed(*space, AxisId::split), "even,balanced,given");
  const auto own = space_of(base, Words{"rest=job"});
  job::JobSpec same = base;
  apply(*own, Candidate{}, same);
  EXPECT_EQ(same.recompute.layer_ids, base.recompute.layer_ids);
  EXPECT_EQ(same.layout.first_stage_layers, 4);
}

TEST(Space, WordsOfRecomputation) {
  const job::JobSpec base = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
  const auto space =
      space_of(base, Words{"recompute=none,selective,selective:norm+activation,full,full:4,uniform:2"});
  ASSERT_TRUE(space);
  EXPECT_EQ(listed(*space, AxisId::recompute),
            "none,selective,selective:norm+activation,full,full:4,uniform:2");
  for (const Value& v : space->values(AxisId::recompute)) {
    EXPECT_EQ(word_of(space->recomputes[static_cast<std::size_t>(v.number)]), v.word);
  }
}

TEST(Space, OrdersOfRanksAreNumbered) {
  EXPECT_EQ(number_of({Axis::tp, Axis::cp, Axis::ep, Axis::dp, Axis::pp}), 0);
  EXPECT_EQ(number_of({Axis::tp, Axis::cp, Axis::ep, Axis::pp, Axis::dp}), 1);
  std::set<RankOrder> all;
  for (int n = 0; n < 120; ++n) {
    EXPECT_EQ(number_of(order_of(n)), n);
    all.insert(order_of(n));
  }
  EXPECT_EQ(all.size(), 120U);
}

TEST(Space, AnOrderIsTheJobsUnlessNamed) {
  const job::JobSpec base = job_of("llama3.1-8b", "h100-sxm-2x8", 64);
  EXPECT_EQ(listed(*space_of(base, Words{}), AxisId::order), "tp-cp-ep-dp-pp");
  EXPECT_EQ(listed(*space_of(base, Words{"order=every"}), AxisId::order),
            "tp-cp-ep-dp-pp,tp-cp-ep-pp-dp");
  const auto space = space_of(base, Words{"order=job,pp-dp-ep-cp-tp", "rest=job"});
  ASSERT_TRUE(space);
  job::JobSpec job = space->base;
  apply(*space, AxisId::order, 1, job);
  EXPECT_EQ(job.parallel.order, (RankOrder{Axis::pp, Axis::dp, Axis::ep, Axis::cp, Axis::tp}));
  EXPECT_FALSE(space_of(base, Words{"order=tp-cp-ep-dp"}));
  EXPECT_FALSE(space_of(base, Words{"order=tp-cp-ep-dp-dp"}));
}

// All that is left out of the defaults because it multiplies the space.
TEST(Space, EveryValueOfAnAxis) {
  const job::JobSpec dense = job_of("llama3.1-8b", "h100-sxm-4x8", 128);
  const auto space = space_of(dense, Words{"recompute=every", "sharding=every", "offload=every",
                                           "cp_kind=every", "overlap.p2p=every", "rest=job"});
  ASSERT_TRUE(space);
  // none, 2^3 - 1 sets of core_attention, norm and mlp, full, full:1 to 16 (of 32 layers).
  EXPECT_EQ(space->values(AxisId::recompute).size(), 1U + 7U + 1U + 5U)
      << listed(*space, AxisId::recompute);
  EXPECT_EQ(listed(*space, AxisId::sharding), "none,zero1,zero2,zero3,hsdp:8,hsdp:16");
  EXPECT_EQ(listed(*space, AxisId::offload), "0,25,50,75,100");
  EXPECT_EQ(listed(*space, AxisId::cp_kind), "p2p,all_gather,a2a");
  EXPECT_EQ(listed(*space, AxisId::overlap_p2p), "false,true");
  const auto mla = space_of(job_of("deepseek-v3", "h100-sxm-4x8", 128), Words{"recompute=every"});
  // none, 2^4 - 1 sets of core_attention, norm, expert_activation and mla_up, full, full:1 to 32.
  EXPECT_EQ(mla->values(AxisId::recompute).size(), 1U + 15U + 1U + 6U);
}

TEST(Space, EveryFaultAtOnceWithTheNearestWord) {
  const job::JobSpec base = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
  const auto space = space_of(base, Words{"tpp=1", "tp=x", "schedule=zb-h3", "pp=2", "pp=4",
                                          "sharding=hsdp", "cp!=1,2,4,8", "rest=none", "offload=200"});
  ASSERT_FALSE(space);
  std::string all;
  for (const Diagnostic& d : space.error()) all += to_text(d) + "\n";
  EXPECT_EQ(space.error().size(), 8U) << all;
  EXPECT_NE(all.find("unknown axis `tpp`; did you mean `tp`?"), std::string::npos) << all;
  EXPECT_NE(all.find("did you mean `zb-h1`?"), std::string::npos) << all;
  EXPECT_NE(all.find("axis `pp` is said twice"), std::string::npos) << all;
  EXPECT_NE(all.find("no value is left on axis cp"), std::string::npos) << all;
}

TEST(Space, PlacesOfCandidatesGoBothWays) {
  const auto space = space_of(job_of("mixtral-8x7b", "h100-sxm-2x8", 64), Words{});
  ASSERT_TRUE(space);
  const std::uint64_t raw = space->raw();
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t index = i * (raw / 1000);
    EXPECT_EQ(index_of(*space, candidate_at(*space, index)), index);
  }
  EXPECT_EQ(index_of(*space, candidate_at(*space, raw - 1)), raw - 1);
}

// The header's example, and all of the layers wherever they stand.
TEST(Space, BalancedStagesPutTheExtrasInTheMiddle) {
  job::JobSpec s = job_of("deepseek-v3", "h100-sxm-1x8", 64);
  ASSERT_EQ(s.model.layers(), 61);
  const std::vector<job::StageLayout> four = balanced_stages(s, 4);
  EXPECT_EQ(four[0].layers, 15);
  EXPECT_EQ(four[1].layers, 16);
  EXPECT_EQ(four[3].layers, 15);
  EXPECT_EQ(four[3].mtp, 1);
  for (int stages = 1; stages <= 61; ++stages) {
    int layers = 0;
    for (const job::StageLayout& one : balanced_stages(s, stages)) layers += one.layers;
    EXPECT_EQ(layers, 61);
  }
}

// Every candidate visited, legal or removed by exactly one rule.
TEST(Walk, CountsAddUpAndEqualBruteForce) {
  const Words axes[] = {
      {"tp=1..8", "cp=1,2", "pp=1..8", "vpp=1,2,4", "mbs=1,2", "sp=true,false", "rest=job"},
      {"tp=1,2", "pp=1,2,4", "split=even,balanced", "sharding=none,zero1,zero3,hsdp:4",
       "overlap.tp=true,false", "overlap.grad_reduce=true,false", "overlap.param_gather=true,false",
       "rest=job"},
      {"ep=1..8", "etp=1,2", "tp=1,2", "sp=true,false", "pp=1,2", "dispatcher=alltoall,allgather",
       "recompute=none,full,full:2,uniform:2", "rest=job"}};
  for (const char* model : {"llama3.1-8b", "mixtral-8x7b"}) {
    for (const Words& words : axes) {
      const auto space = space_of(job_of(model, "h100-sxm-1x8", 64), words);
      ASSERT_TRUE(space);
      const Count counted = count(*space);
      EXPECT_EQ(counted.raw, counted.legal + counted.removed.total());
      std::uint64_t legal = 0;
      std::vector<const Rule*> all = rules_of(*space);
      const auto scratch = std::make_unique<job::CheckedJob>();
      for (std::uint64_t i = 0; i < space->raw(); ++i) {
        const Candidate c = candidate_at(*space, i);
        job::JobSpec job = space->base;
        apply(*space, c, job);
        bool refused = false;
        for (const Rule* r : all) refused = refused || r->refuses({*space, c, job, *scratch});
        legal += refused ? 0 : 1;
      }
      EXPECT_EQ(counted.legal, legal) << model << " " << words[0];
      EXPECT_GT(legal, 0U);
    }
  }
}

TEST(Walk, ARuleOfOneAxisRemovesAllThatFollows) {
  const auto space =
      space_of(job_of("llama3.1-8b", "h100-sxm-1x8", 64), Words{"tp=1,3", "mbs=1,2,4", "sp=true,false",
                                                            "pp=1,2", "rest=job"});
  const Count counted = count(*space);
  for (std::size_t i = 0; i < rules().size(); ++i) {
    if (rules()[i].name != "tp-mixers") continue;
    EXPECT_EQ(counted.removed.by_rule[i], 12U);
  }
}

}  // namespace
}  // namespace eratos::search
