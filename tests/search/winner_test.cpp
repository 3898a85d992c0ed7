// Winners as files: what is in a framework's own space, its file says and reads back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/reader/catalogue.h"
#include "eratos/reader/export_job.h"
#include "eratos/reader/sayable.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"
#include "eratos/search/walk.h"

namespace eratos::search {
namespace {

job::JobSpec base_of(const char* model, const char* framework) {
  job::JobSpec s;
  s.model = *reader::load_model(model);
  s.framework = *reader::load_framework(framework);
  s.cluster = *reader::load_cluster("h100-sxm-4x8");
  s.parallel.sharding = parallel::Sharding::zero1;
  s.batch = {1, 128, 4096};
  s.loss_fused = s.framework.loss.fused_by_default;
  return s;
}

// What comes back different, over `wanted` random legal candidates of the default space.
std::set<std::string> changed_in(const job::JobSpec& base, std::string_view target, int wanted,
                                 Rng& rng) {
  Space space = *space_of(base, {});
  reader::keep_sayable(space);
  const std::vector<const Rule*> asked = rules_of(space);
  const auto scratch = std::make_unique<job::CheckedJob>();
  std::set<std::string> out;
  for (int tried = 0; tried < wanted;) {
    const Candidate at = candidate_at(space, rng.next() % space.raw());
    job::JobSpec job = space.base;
    apply(space, at, job);
    const bool refused = std::any_of(asked.begin(), asked.end(), [&](const Rule* r) {
      return r->refuses({space, at, job, *scratch});
    });
    if (refused) continue;
    ++tried;
    const auto exported = reader::export_job(job, target);
    if (!exported) {
      out.insert(exported.error()[0].message);
      continue;
    }
    for (const reader::Unsaid& u : exported->unsaid) {
      if (u.path == "cluster") continue;  // said where the job is started
      if (u.path == "mtp.train" && base.model.mtp_layers == 0) continue;
      out.insert(u.path + ": " + u.value + ", read as " + u.read);
    }
  }
  return out;
}

struct Pair {
  const char* model;
  const char* framework;
};

TEST(Winner, IsTheSameJobAfterItsFile) {
  const Pair pairs[] = {
      {"llama3.1-8b", "megatron"},        {"mixtral-8x7b", "megatron"},
      {"deepseek-v3", "megatron"},        {"llama3.1-8b", "primus-megatron"},
      {"mixtral-8x7b", "primus-megatron"}, {"deepseek-v3", "primus-megatron"},
      {"llama3.1-8b", "nanotron"},        {"llama3.1-8b", "torchtitan"},
      {"qwen3-30b-a3b", "torchtitan"},    {"deepseek-v3-nomtp", "torchtitan"}};
  Rng rng(81);
  for (const auto& [model, framework] : pairs) {
    const job::JobSpec base = base_of(model, framework);
    for (const std::string& what :
         changed_in(base, reader::target_of(base.framework), 200, rng)) {
      ADD_FAILURE() << model << " by " << framework << ": " << what;
    }
  }
}

// What is left out for it says so: as values of an axis, or as a rule with its count.
TEST(Winner, WhatTorchtitansFileCannotSayIsARuleWithItsReason) {
  Space space = *space_of(base_of("qwen3-30b-a3b", "torchtitan"),
                          std::vector<std::string>{"tp=1,2,4", "etp=1,2,4", "ep=1,2,4", "cp=1,2",
                                                   "sp=false,true", "sharding=none,zero3,hsdp:8",
                                                   "rest=job"});
  reader::keep_sayable(space);
  const Count counted = count(space);
  for (const char* name : {"file-expert-tensor", "file-sharding"}) {
    std::uint64_t removed = 0;
    for (std::size_t i = 0; i < rules().size(); ++i) {
      if (rules()[i].name == name) removed = counted.removed.by_rule[i];
    }
    EXPECT_GT(removed, 0U) << name;
  }
  Space all = *space_of(base_of("llama3.1-8b", "torchtitan"), {});
  reader::keep_sayable(all);
  EXPECT_TRUE(std::any_of(all.left_out.begin(), all.left_out.end(), [](const auto& v) {
    return v.axis == AxisId::split && v.word == "balanced";
  }));
}

TEST(Winner, ValuesWithoutAWordAreLeftOutUnlessNamed) {
  const job::JobSpec base = base_of("llama3.1-8b", "torchtitan");
  Space space = *space_of(base, {});
  reader::keep_sayable(space);
  ASSERT_EQ(space.values(AxisId::offload).size(), 1U);
  EXPECT_EQ(space.values(AxisId::offload)[0].number, 0);
  EXPECT_TRUE(std::any_of(space.left_out.begin(), space.left_out.end(), [](const auto& v) {
    return v.axis == AxisId::offload && v.word == "100";
  }));
  Space named = *space_of(base, std::vector<std::string>{"offload=0,100"});
  reader::keep_sayable(named);
  EXPECT_EQ(named.values(AxisId::offload).size(), 2U);
}

// In which order values are tried changes nothing of the space.
TEST(Winner, ValuesMayBeTriedInAnyOrder) {
  for (const char* framework : {"megatron", "torchtitan", "nanotron"}) {
    const auto space = space_of(base_of("llama3.1-8b", framework), {});
    ASSERT_TRUE(space);
    Space forward = *space;
    Space backward = *space;
    reader::keep_sayable(forward);
    std::size_t tried = 0;
    reader::keep_sayable(backward, [&](std::size_t n, const auto& one) {
      for (tried = n; n-- > 0;) one(n);
    });
    EXPECT_GT(tried, 10U);
    const auto text = [](const Space& s) {
      std::string out;
      for (const std::vector<Value>& axis : s.axes) {
        for (const Value& v : axis) out += v.word + " ";
        out += "; ";
      }
      for (const auto& v : s.left_out) out += std::string(facts_of(v.axis).name) + " -" + v.word + " ";
      return out;
    };
    EXPECT_EQ(text(forward), text(backward)) << framework;
    EXPECT_FALSE(forward.left_out.empty());
  }
}

// What `every` adds is told apart as the defaults are: nanotron lays ranks out in one way.
TEST(Winner, EveryValueOfAnAxisIsKeptWhereTheFrameworkSaysIt) {
  const auto orders = [](const char* framework) {
    Space space = *space_of(base_of("llama3.1-8b", framework), std::vector<std::string>{"order=every"});
    reader::keep_sayable(space);
    return space.values(AxisId::order).size();
  };
  EXPECT_EQ(orders("megatron"), 2U);
  EXPECT_EQ(orders("primus-megatron"), 2U);
  EXPECT_EQ(orders("nanotron"), 1U);
  EXPECT_EQ(orders("torchtitan"), 1U);
}

}  // namespace
}  // namespace eratos::search
