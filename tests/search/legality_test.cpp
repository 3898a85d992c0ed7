// The rules say what job::check() says, what frameworks accept and refuse, and nothing twice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../projection/spread.h"
#include "eratos/base/rng.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/parallel/schedules.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"
#include "eratos/search/walk.h"

namespace eratos::search {
namespace {

// Every value that an axis can be told, sensible or not.
std::vector<std::string> wide_axes(const job::JobSpec& s) {
  const std::string world = std::to_string(s.cluster.gpus());
  return {"precision=bf16,fp16,fp8-delayed,mxfp8,nvfp4",
          "tp=1,2,3,4,8,16",
          "cp=1,2,3,4,16",
          "cp_kind=p2p,all_gather,a2a",
          "ep=1,2,3,4,8,16,64",
          "etp=1,2,3,8",
          "micro=1,2,3,4",
          "dispatcher=alltoall,allgather,deepep,einsum",
          "recompute=job,none,selective,full,full:2,uniform:2,uniform:3",
          "pp=1,2,3,4,8,16",
          "vpp=1,2,3,4,5,128",
          "split=given,even,balanced",
          "schedule=auto,none,gpipe,1f1b,interleaved-1f1b,looped-bfs,zb-h1,zb-h2,zb-auto,v-min,"
          "v-half,zbv,zbv-greedy,dualpipe,dualpipev",
          "order=job,tp-cp-ep-pp-dp,pp-dp-ep-cp-tp,dp-tp-cp-pp-ep",
          "sharding=none,zero1,zero2,zero3,zero3:8,hsdp:3,hsdp:8",
          "global=job,64,96,1024,100000000",
          "offload=0,50,100"};
}

Candidate random_candidate(const Space& space, Rng& rng) {
  Candidate c;
  for (std::size_t i = 0; i < kAxes; ++i) {
    c.at[i] = static_cast<std::uint8_t>(rng.below(space.axes[i].size()));
  }
  return c;
}

// Mostly the job's own values, so that what is drawn is legal now and then.
Candidate near_job(const Space& space, const Space& own, Rng& rng) {
  Candidate c = random_candidate(space, rng);
  for (std::size_t i = 0; i < kAxes; ++i) {
    if (rng.uniform() < 0.2) continue;
    for (std::size_t v = 0; v < space.axes[i].size(); ++v) {
      if (space.axes[i][v].number == own.axes[i][0].number) c.at[i] = static_cast<std::uint8_t>(v);
    }
  }
  return c;
}

struct Legality : testing::Test {
  std::unique_ptr<job::CheckedJob> checked = std::make_unique<job::CheckedJob>();
  std::unique_ptr<job::CheckedJob> scratch = std::make_unique<job::CheckedJob>();
  projection::WorkspacePtr workspace = projection::make_workspace();

  const Rule* refusing(const Space& space, const Candidate& c, const job::JobSpec& job,
                       Ground ground) {
    for (const Rule& r : rules()) {
      if (r.ground == ground && r.refuses({space, c, job, *scratch})) return &r;
    }
    return nullptr;
  }

  bool accepted(const job::JobSpec& job) {
    return job::check(job, *checked).empty() && projection::schedule_faults(*checked).empty();
  }
};

TEST_F(Legality, RulesOfTheJobAgreeWithCheck) {
  projection::Spread spread(11, true);
  Rng rng(12);
  int legal = 0;
  int illegal = 0;
  std::map<std::string, int> fired;
  for (int i = 0; i < 400; ++i) {
    projection::DrawnJob drawn = spread.next();
    if (rng.below(8) == 0) drawn.spec.schedule.group_size = 4;
    if (rng.below(8) == 0) drawn.spec.layout.embedding_counts = true;
    if (rng.below(8) == 0) drawn.spec.layout.first_stage_layers = 2;
    if (rng.below(8) == 0) drawn.spec.cluster.accelerator.host_link = BytesPerSecond{0};
    if (rng.below(8) == 0) drawn.spec.optimizer.kind = "muon";
    if (rng.below(8) == 0) drawn.spec.lora = {.rank = 12, .targets = job::lora_modules()};
    if (rng.below(8) == 0) drawn.spec.batch.sequence = 4098;
    if (rng.below(8) == 0) drawn.spec.narrow.bf16_first_layers = 1;
    if (rng.below(8) == 0) {
      drawn.spec.recompute = {.granularity = job::Granularity::full, .layer_ids = {1, 999}};
    }
    if (drawn.spec.layout.embedding_counts && drawn.spec.layout.first_stage_layers > 0) continue;
    const auto space = space_of(drawn.spec, wide_axes(drawn.spec));
    ASSERT_TRUE(space) << to_text(space.error()[0]);
    const auto own = space_of(drawn.spec, std::vector<std::string>{"rest=job"});
    if (!fixed_faults(drawn.spec).empty()) continue;
    for (int k = 0; k < 50; ++k) {
      const Candidate c = k % 5 == 0 ? random_candidate(*space, rng) : near_job(*space, *own, rng);
      job::JobSpec job = space->base;
      apply(*space, c, job);
      const Rule* rule = refusing(*space, c, job, Ground::job);
      const bool good = accepted(job);
      (good ? legal : illegal) += 1;
      for (const Rule& r : rules()) {
        if (r.ground == Ground::job && r.refuses({*space, c, job, *scratch}))
          fired[std::string(r.name)] += 1;
      }
      if (good == (rule == nullptr)) continue;
      const Diagnostics why = job::check(job, *checked);
      FAIL() << (rule != nullptr ? rule->name : "no rule") << " refuses, check says "
             << (why.empty() ? "nothing" : to_text(why[0])) << " of " << job.model.name;
    }
  }
  EXPECT_GT(legal, 1000);
  EXPECT_GT(illegal, 1000);
  for (const Rule& r : rules()) {
    if (r.ground == Ground::job && fired[std::string(r.name)] == 0) {
      ADD_FAILURE() << r.name << " never refused anything";
    }
  }
}

// A rule sees no axis that it does not name, or a walk would ask it too early.
TEST_F(Legality, RulesReadOnlyTheAxesTheyName) {
  projection::Spread spread(21, true);
  Rng rng(22);
  for (int i = 0; i < 150; ++i) {
    const projection::DrawnJob drawn = spread.next();
    const auto space = space_of(drawn.spec, wide_axes(drawn.spec));
    ASSERT_TRUE(space);
    for (int k = 0; k < 20; ++k) {
      const Candidate a = random_candidate(*space, rng);
      const Candidate other = random_candidate(*space, rng);
      job::JobSpec ja = space->base;
      apply(*space, a, ja);
      for (const Rule& r : rules()) {
        Candidate b = other;
        for (std::size_t x = 0; x < kAxes; ++x) {
          if ((r.reads & axis_bit(static_cast<AxisId>(x))) != 0) b.at[x] = a.at[x];
        }
        job::JobSpec jb = space->base;
        apply(*space, b, jb);
        ASSERT_EQ(r.refuses({*space, a, ja, *scratch}), r.refuses({*space, b, jb, *scratch}))
            << r.name;
      }
    }
  }
}

// A repeat costs and holds what the candidate does that stands for it.
TEST_F(Legality, RepeatsAreTheSameJob) {
  projection::Spread spread(31);
  Rng rng(32);
  std::map<std::string, int> seen;
  for (int i = 0; i < 1500; ++i) {
    projection::DrawnJob drawn = spread.next();
    const auto space = space_of(drawn.spec, {});
    ASSERT_TRUE(space);
    const auto own = space_of(drawn.spec, std::vector<std::string>{"rest=job"});
    const Candidate c = near_job(*space, *own, rng);
    job::JobSpec job = space->base;
    apply(*space, c, job);
    if (!accepted(job)) continue;
    for (const Rule& r : rules()) {
      if (r.ground != Ground::repeat || !r.refuses({*space, c, job, *scratch})) continue;
      // The last axis that the rule reads is the one that repeats.
      std::size_t axis = 0;
      for (std::size_t x = 0; x < kAxes; ++x) {
        if ((r.reads & axis_bit(static_cast<AxisId>(x))) != 0) axis = x;
      }
      Candidate first = c;
      first.at[axis] = 0;
      if (r.name == "hsdp-is-zero3") {
        const std::vector<Value>& stages = space->values(AxisId::sharding);
        while (stages[first.at[axis]].word != "zero3") ++first.at[axis];
      }
      job::JobSpec stands = space->base;
      apply(*space, first, stands);
      ASSERT_TRUE(accepted(job));
      const projection::Projection a =
          projection::project(*checked, spread.calibrations[drawn.part], {}, *workspace);
      ASSERT_TRUE(accepted(stands)) << r.name;
      const projection::Projection b =
          projection::project(*checked, spread.calibrations[drawn.part], {}, *workspace);
      ASSERT_EQ(a.time.step.value, b.time.step.value) << r.name << " " << job.model.name;
      ASSERT_EQ(a.memory.device_peak.value, b.memory.device_peak.value) << r.name;
      seen[std::string(r.name)] += 1;
    }
  }
  for (const Rule& r : rules()) {
    // These are of axes that are the job's unless named.
    const bool named = r.name == "kind-needs-cp" || r.name == "overlap-needs-pp" ||
                       r.name == "order-repeats";
    if (r.ground == Ground::repeat && !named) {
      EXPECT_GT(seen[std::string(r.name)], 0) << r.name;
    }
  }
}

// An order that repeats another one costs and holds the same; one that does not is not always alike.
TEST_F(Legality, OrdersThatRepeatAreTheSameJob) {
  projection::Spread spread(35);
  Rng rng(36);
  int repeats = 0;
  int others = 0;
  for (int i = 0; i < 1500; ++i) {
    projection::DrawnJob drawn = spread.next();
    const auto space = space_of(drawn.spec, std::vector<std::string>{"order=every", "rest=job"});
    ASSERT_TRUE(space);
    const Rule* repeat = nullptr;
    for (const Rule& r : rules()) {
      if (r.name == "order-repeats") repeat = &r;
    }
    ASSERT_NE(repeat, nullptr);
    const std::size_t orders = space->values(AxisId::order).size();
    ASSERT_EQ(orders, 2U);
    Candidate second;
    second.at[static_cast<std::size_t>(AxisId::order)] = 1;
    job::JobSpec a = space->base;
    apply(*space, Candidate{}, a);
    job::JobSpec b = space->base;
    apply(*space, second, b);
    const bool same = repeat->refuses({*space, second, b, *scratch});
    if (!accepted(a)) continue;
    const projection::Projection pa =
        projection::project(*checked, spread.calibrations[drawn.part], {}, *workspace);
    ASSERT_TRUE(accepted(b));
    const projection::Projection pb =
        projection::project(*checked, spread.calibrations[drawn.part], {}, *workspace);
    if (same) {
      ASSERT_EQ(pa.time.step.value, pb.time.step.value) << a.model.name;
      ASSERT_EQ(pa.memory.device_peak.value, pb.memory.device_peak.value) << a.model.name;
      ++repeats;
    } else if (pa.time.step.value != pb.time.step.value) {
      ++others;
    }
  }
  EXPECT_GT(repeats, 100);
  EXPECT_GT(others, 10);
}

// So one screen serves every value of the axes behind kScreenedAxes. Orders that look at times are left out:
// a search does not ask whether they fit before it has theirs (projection/candidate.h).
TEST_F(Legality, AScreenDoesNotSeeTheOverlapSwitches) {
  projection::Spread spread(41, true);
  Rng rng(42);
  for (int i = 0; i < 1000; ++i) {
    projection::DrawnJob drawn = spread.next();
    const auto* facts = parallel::find_schedule_facts(drawn.spec.schedule.algorithm);
    if (facts != nullptr && facts->needs_limit) continue;
    ASSERT_TRUE(accepted(drawn.spec));
    const calibration::Calibration& calibration = spread.calibrations[drawn.part];
    const projection::Screen a = projection::screen(*checked, calibration, {}, *workspace);
    drawn.spec.overlap = {rng.below(2) == 0, rng.below(2) == 0, rng.below(2) == 0,
                          rng.below(2) == 0, rng.below(2) == 0};
    ASSERT_TRUE(accepted(drawn.spec));
    const projection::Screen b = projection::screen(*checked, calibration, {}, *workspace);
    ASSERT_EQ(a.fits, b.fits);
    ASSERT_EQ(a.device_peak.value, b.device_peak.value);
    ASSERT_EQ(a.least_peak.value, b.least_peak.value);
    ASSERT_EQ(a.step_lower_bound.value, b.step_lower_bound.value) << drawn.spec.model.name;
  }
}

TEST_F(Legality, NamesAndReasonsAreThereOnce) {
  std::set<std::string_view> names;
  for (const Rule& r : rules()) {
    EXPECT_TRUE(names.insert(r.name).second) << r.name;
    EXPECT_NE(r.reads, 0U) << r.name;
    EXPECT_FALSE(r.reason.empty()) << r.name;
    EXPECT_FALSE(r.source.empty()) << r.name;
  }
}

// What the frameworks say of single configurations: their own assertions, and recipes they ship.
struct Case {
  const char* framework;
  const char* model;
  const char* cluster;
  std::vector<std::string> axes;
  const char* rule;  // that refuses; "" where the framework runs it
};

TEST_F(Legality, FrameworksAcceptAndRefuse) {
  const Case cases[] = {
      // Megatron-LM validate_args: world_size % (tp * pp * cp).
      {"megatron", "llama3.1-8b", "h100-sxm-1x8", {"tp=8", "pp=2"}, "world-size"},
      // num_query_groups 8 against tp 16: core/transformer/attention.py repeats groups; 3 divides
      // nothing.
      {"megatron", "llama3.1-8b", "h100-sxm-2x8", {"tp=16"}, ""},
      {"megatron", "llama3.1-8b", "h100-sxm-3x8", {"tp=3"}, "tp-mixers"},
      // seq_length % (2 * cp).
      {"megatron", "llama3.1-8b", "h100-sxm-3x8", {"cp=3"}, "cp-sequence"},
      // 80 layers over pp 3; over pp 4 in 5 chunks of 4 (Megatron-Bridge recipes, 70B: vpp 5).
      {"megatron", "llama3.1-70b", "h100-sxm-3x8", {"pp=3", "global=96"}, "layers-divide"},
      {"megatron", "llama3.1-70b", "h100-sxm-8x8", {"tp=4", "sp=true", "pp=4", "vpp=5"}, ""},
      {"megatron", "llama3.1-70b", "h100-sxm-8x8", {"pp=4", "vpp=3"}, "layers-divide"},
      // Interleaving asks for micro-batches in groups of pp ... and for a pipeline.
      {"megatron", "llama3.1-8b", "h100-sxm-1x8", {"vpp=2"}, "vpp-needs-pp"},
      // moe_layer.py: expert and tensor parallelism need sequence parallelism.
      {"megatron", "mixtral-8x7b", "h100-sxm-1x8", {"tp=2", "ep=4"}, "experts-need-sp"},
      {"megatron", "mixtral-8x7b", "h100-sxm-1x8", {"tp=2", "ep=4", "sp=true"}, ""},
      // CP folds into EP: tp1 cp4 with ep 8 on 8 ranks (parallel_state.py).
      {"megatron", "mixtral-8x7b", "h100-sxm-1x8", {"cp=4", "ep=8"}, ""},
      {"megatron", "mixtral-8x7b", "h100-sxm-3x8", {"ep=3"}, "ep-experts"},
      {"megatron", "llama3.1-8b", "h100-sxm-1x8", {"ep=2"}, "experts-of-dense"},
      // overlap_param_gather asserts overlap_grad_reduce; tp_comm_overlap asserts
      // sequence_parallel.
      {"megatron",
       "llama3.1-8b",
       "h100-sxm-1x8",
       {"sharding=zero1", "overlap.grad_reduce=false", "overlap.param_gather=true"},
       "gather-needs-reduce"},
      {"megatron",
       "llama3.1-8b",
       "h100-sxm-1x8",
       {"tp=2", "overlap.tp=true"},
       "tp-overlap-needs-sp"},
      {"megatron", "llama3.1-8b", "h100-sxm-1x8", {"tp=2", "sp=true", "overlap.tp=true"}, ""},
      // Interleaving without overlap_p2p_comm asserts pp > 2.
      {"megatron",
       "llama3.1-8b",
       "h100-sxm-1x8",
       {"pp=2", "vpp=2", "overlap.p2p=false"},
       "p2p-overlap-at-pp-2"},
      // overlap_moe_expert_parallel_comm: ep > 1, an all-to-all, no full recompute, chunks with pp.
      {"megatron", "mixtral-8x7b", "h100-sxm-1x8", {"ep=8", "overlap.moe_a2a=true"}, ""},
      {"megatron",
       "mixtral-8x7b",
       "h100-sxm-1x8",
       {"overlap.moe_a2a=true"},
       "moe-overlap-needs-ep"},
      {"megatron",
       "mixtral-8x7b",
       "h100-sxm-1x8",
       {"ep=8", "overlap.moe_a2a=true", "dispatcher=allgather"},
       "moe-overlap-dispatcher"},
      {"megatron",
       "mixtral-8x7b",
       "h100-sxm-1x8",
       {"ep=8", "overlap.moe_a2a=true", "recompute=full"},
       "moe-overlap-recompute"},
      {"megatron",
       "mixtral-8x7b",
       "h100-sxm-1x8",
       {"ep=8", "overlap.moe_a2a=true", "recompute=selective:expert_in+expert_activation+expert_out"},
       "moe-overlap-recompute"},
      {"megatron",
       "mixtral-8x7b",
       "h100-sxm-1x8",
       {"ep=8", "overlap.moe_a2a=true", "recompute=selective:expert_activation"},
       ""},
      {"megatron",
       "mixtral-8x7b",
       "h100-sxm-1x8",
       {"ep=2", "pp=2", "overlap.moe_a2a=true"},
       "moe-overlap-chunks"},
      // --use-torch-fsdp2 asserts pp 1; torchtitan composes FSDP2 with its pipelines.
      {"megatron",
       "llama3.1-8b",
       "h100-sxm-1x8",
       {"pp=2", "sharding=zero3"},
       "sharding-in-pipeline"},
      {"torchtitan", "llama3.1-8b", "h100-sxm-1x8", {"pp=2", "sharding=zero3"}, ""},
      // Schedules: Megatron-LM has no zero bubble, Primus has; it refuses to recompute beside it.
      {"megatron", "llama3.1-8b", "h100-sxm-1x8", {"pp=4", "schedule=zb-h1"}, "schedule-offered"},
      {"primus-megatron",
       "llama3.1-8b",
       "mi355x-1x8",
       {"pp=4", "schedule=zb-h1", "overlap.grad_reduce=false", "overlap.param_gather=false"},
       ""},
      {"primus-megatron",
       "llama3.1-8b",
       "mi355x-1x8",
       {"pp=4", "schedule=zb-h1", "recompute=full", "overlap.grad_reduce=false",
        "overlap.param_gather=false"},
       "recompute-beside-split"},
      {"primus-megatron",
       "llama3.1-8b",
       "mi355x-1x8",
       {"pp=4", "schedule=zb-h1"},
       "overlap-beside-split"},
      {"primus-megatron", "llama3.1-8b", "mi355x-1x8", {"pp=4", "schedule=zbv"}, "schedule-chunks"},
      {"nanotron", "llama3.1-8b", "h100-sxm-1x8", {"pp=2", "vpp=2"}, "schedule-offered"},
      // parallel_state.py: with pp inside dp (--use-tp-pp-dp-mapping) experts and attention have
      // as many data-parallel ranks each, and expert_data_parallel_size knows no cp.
      {"megatron", "llama3.1-8b", "h100-sxm-2x8", {"tp=2", "pp=2", "order=tp-cp-ep-pp-dp"}, ""},
      {"megatron",
       "llama3.1-8b",
       "h100-sxm-2x8",
       {"cp=2", "pp=2", "order=tp-cp-ep-pp-dp"},
       "pipelines-lie-alike"},
      {"megatron", "llama3.1-8b", "h100-sxm-2x8", {"cp=2", "order=tp-cp-ep-pp-dp"}, ""},
      {"megatron",
       "mixtral-8x7b",
       "h100-sxm-2x8",
       {"ep=8", "pp=2", "order=tp-cp-ep-pp-dp"},
       "pipelines-lie-alike"},
      {"megatron",
       "mixtral-8x7b",
       "h100-sxm-2x8",
       {"tp=2", "sp=true", "ep=2", "pp=2", "order=tp-cp-ep-pp-dp"},
       ""},
      // Muon's matrices are whole; HSDP's group divides the data-parallel ranks.
      {"torchtitan", "llama3.1-8b", "h100-sxm-2x8", {"sharding=hsdp:8"}, ""},
      {"torchtitan", "llama3.1-8b", "h100-sxm-2x8", {"sharding=hsdp:3"}, "sharding-group"},
      // micro * dp divides the batch (num_microbatches_calculator.py).
      {"megatron", "llama3.1-8b", "h100-sxm-1x8", {"micro=3"}, "global-batch"},
      // A100 has no fp8.
      {"megatron", "llama3.1-8b", "a100-80g-1x8", {"precision=fp8-delayed"}, "precision-of-part"},
      {"megatron", "llama3.1-8b", "h100-sxm-1x8", {"precision=fp8-delayed"}, ""},
  };
  for (const Case& one : cases) {
    job::JobSpec base;
    base.model = *reader::load_model(one.model);
    base.framework = *reader::load_framework(one.framework);
    base.cluster = *reader::load_cluster(one.cluster);
    base.batch = {1, 128, 4096};
    if (base.cluster.gpus() % 3 == 0) base.batch.global = 96;
    std::vector<std::string> words = one.axes;
    words.emplace_back("rest=job");
    const auto space = space_of(base, words);
    ASSERT_TRUE(space) << to_text(space.error()[0]);
    const Count counted = count(*space);
    ASSERT_EQ(counted.raw, 1U);
    const std::string what = std::string(one.framework) + ", " + one.model + ", " + one.axes[0];
    EXPECT_EQ(counted.legal, std::string(one.rule).empty() ? 1U : 0U) << what;
    std::string by;
    for (std::size_t i = 0; i < rules().size(); ++i) {
      if (counted.removed.by_rule[i] > 0) by = rules()[i].name;
    }
    EXPECT_EQ(by, one.rule) << what;
  }
}

}  // namespace
}  // namespace eratos::search
