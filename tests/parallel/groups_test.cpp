// Hand-worked rank groups of Megatron's default order tp-cp-ep-dp-pp and of others.
#include "eratos/parallel/parallel.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace eratos::parallel {

void PrintTo(const Group& g, std::ostream* out) { *out << g.size << " every " << g.stride; }
bool operator==(const Group& a, const Group& b) { return a.size == b.size && a.stride == b.stride; }

namespace {

ParallelSpec spec_of(int tp, int cp, int dp, int pp, int ep = 1, int etp = 1) {
  ParallelSpec s;
  s.tp = tp;
  s.cp = cp;
  s.dp = dp;
  s.pp = pp;
  s.ep = ep;
  s.etp = etp;
  return s;
}

// Megatron-LM's own example (core/parallel_state.py): 16 ranks, tp 2, pp 4: tensor groups [0,1],
// [2,3], ...; data groups [0,2], [1,3], ...; pipeline groups [0,4,8,12], ...
TEST(Groups, MegatronsExample) {
  const ParallelSpec s = spec_of(2, 1, 2, 4);
  EXPECT_EQ(s.world(), 16);
  EXPECT_EQ(group_of(s, Axis::tp), (Group{2, 1}));
  EXPECT_EQ(group_of(s, Axis::dp), (Group{2, 2}));
  EXPECT_EQ(group_of(s, Axis::pp), (Group{4, 4}));
}

// 64 ranks: tp 2, cp 2, dp 4, pp 4: tp neighbours, cp every 2, dp every 4, pp every 16.
TEST(Groups, ContextParallelStandsBetweenTensorAndData) {
  const ParallelSpec s = spec_of(2, 2, 4, 4);
  EXPECT_EQ(group_of(s, Axis::cp), (Group{2, 2}));
  EXPECT_EQ(group_of(s, Axis::dp), (Group{4, 4}));
  EXPECT_EQ(group_of(s, Axis::dp_cp), (Group{8, 2}));
  EXPECT_EQ(group_of(s, Axis::tp_cp), (Group{4, 1}));
  EXPECT_EQ(group_of(s, Axis::pp), (Group{4, 16}));
}

// The header's example: tp 2, dp 8, pp 4, ep 8 on 64 ranks. Experts fold over the same 16 ranks of
// a stage: ep neighbours, edp every 8.
TEST(Groups, ExpertsFoldOverTheSameRanks) {
  const ParallelSpec s = spec_of(2, 1, 8, 4, 8);
  EXPECT_EQ(group_of(s, Axis::ep), (Group{8, 1}));
  EXPECT_EQ(group_of(s, Axis::edp), (Group{2, 8}));
  EXPECT_EQ(group_of(s, Axis::dp), (Group{8, 2}));
  EXPECT_EQ(group_of(s, Axis::pp), (Group{4, 16}));
}

TEST(Groups, ExpertTensorParallelismIsInnermost) {
  const ParallelSpec s = spec_of(4, 1, 8, 2, 4, 2);  // 64 ranks, 32 a stage
  EXPECT_EQ(group_of(s, Axis::etp), (Group{2, 1}));
  EXPECT_EQ(group_of(s, Axis::ep), (Group{4, 2}));
  EXPECT_EQ(group_of(s, Axis::edp), (Group{4, 8}));
}

TEST(Groups, PipelineBeforeData) {
  ParallelSpec s = spec_of(2, 1, 4, 4);
  s.order = {Axis::tp, Axis::cp, Axis::ep, Axis::pp, Axis::dp};
  EXPECT_EQ(group_of(s, Axis::pp), (Group{4, 2}));
  EXPECT_EQ(group_of(s, Axis::dp), (Group{4, 8}));
}

TEST(Groups, HybridShardsAreTheNearestRanks) {
  ParallelSpec s = spec_of(2, 1, 16, 1);
  s.sharding = Sharding::hsdp;
  s.hsdp_group = 4;
  EXPECT_EQ(group_of(s, Axis::hsdp_shard), (Group{4, 2}));
  EXPECT_EQ(group_of(s, Axis::hsdp_replica), (Group{4, 8}));
  s.hsdp_group = 0;  // ZeRO-3: one shard group of all
  EXPECT_EQ(group_of(s, Axis::hsdp_shard), (Group{16, 2}));
  EXPECT_EQ(group_of(s, Axis::hsdp_replica).size, 1);
}

TEST(Groups, MembersInADomain) {
  EXPECT_EQ(members_in_domain({8, 2}, 8), 4);   // the header's example
  EXPECT_EQ(members_in_domain({8, 1}, 8), 8);
  EXPECT_EQ(members_in_domain({4, 1}, 8), 4);   // never more than the group has
  EXPECT_EQ(members_in_domain({4, 16}, 8), 1);  // every member in a domain of its own
  EXPECT_EQ(members_in_domain({16, 4}, 72), 16);
}

// Ranks of the group of `axis` that rank 0 is in; every axis together must reach every rank once.
TEST(Groups, AxesTogetherReachEveryRankOnce) {
  for (const int tp : {1, 2, 4}) {
    for (const int cp : {1, 2}) {
      for (const int dp : {1, 3, 8}) {
        for (const int pp : {1, 2, 5}) {
          const ParallelSpec s = spec_of(tp, cp, dp, pp);
          std::set<int> ranks;
          const Group t = group_of(s, Axis::tp), c = group_of(s, Axis::cp),
                      d = group_of(s, Axis::dp), p = group_of(s, Axis::pp);
          for (int i = 0; i < tp; ++i) {
            for (int j = 0; j < cp; ++j) {
              for (int k = 0; k < dp; ++k) {
                for (int l = 0; l < pp; ++l) {
                  ranks.insert(i * t.stride + j * c.stride + k * d.stride + l * p.stride);
                }
              }
            }
          }
          EXPECT_EQ(static_cast<int>(ranks.size()), s.world());
          EXPECT_EQ(*ranks.rbegin(), s.world() - 1);
        }
      }
    }
  }
}

}  // namespace
}  // namespace eratos::parallel
