// Hand-worked: what each dispatcher sends and permutes, and the rows that a capacity leaves.
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "eratos/job/job.h"
#include "eratos/layer/dispatch.h"
#include "eratos/layer/moe.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

// 1024 tokens of width 512, 16 experts of which a token visits 4; ep 8, two experts a rank.
constexpr double kTokens = 1024, kWidth = 512, kTopK = 4, kRow = 2 * kWidth;
const Sizes kSmall{1, kWidth, 8, 8, 64, 256, 1000};

job::JobSpec moe_job(job::Dispatcher dispatcher, int gpus = 8) {
  job::JobSpec spec = job_of(mixtral(kSmall, 16, 4), gpus, {1, gpus, static_cast<int>(kTokens)});
  spec.parallel.ep = gpus;
  spec.routing.dispatcher = dispatcher;
  return spec;
}

struct Way {
  double sent = 0;      // bytes of the collectives there
  double returned = 0;  // and back
  int permutations = 0;
  double rows = 0;  // of the experts' first product
};

Way forward_of(const job::JobSpec& spec) {
  Way out;
  const Lowered l = lowered(spec);
  for (const ops::Op& op : layer_of(l).forward) {
    if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
      if (op.module == ops::Module::dispatch) out.sent += c->bytes.value;
      if (op.module == ops::Module::combine) out.returned += c->bytes.value;
    }
    if (const auto* e = std::get_if<ops::Elementwise>(&op.work)) {
      out.permutations += e->kind == ops::ElementwiseClass::permute ? 1 : 0;
    }
    if (const auto* g = std::get_if<ops::Gemm>(&op.work)) {
      if (op.module == ops::Module::expert_in) out.rows = g->m;
    }
  }
  return out;
}

TEST(Dispatch, AllToAllSendsEveryCopyAndSortsTwice) {
  const Way w = forward_of(moe_job(job::Dispatcher::alltoall));
  EXPECT_EQ(w.sent, kTokens * kTopK * kRow);
  EXPECT_EQ(w.returned, w.sent);
  EXPECT_EQ(w.permutations, 4);
  EXPECT_EQ(w.rows, kTokens * kTopK);
}

TEST(Dispatch, AllGatherBringsEveryTokenAndReducesAsMany) {
  const Way w = forward_of(moe_job(job::Dispatcher::allgather));
  EXPECT_EQ(w.sent, kTokens * 8 * kRow);
  EXPECT_EQ(w.returned, w.sent);
  EXPECT_EQ(w.permutations, 2);
  EXPECT_EQ(w.rows, kTokens * kTopK);
}

TEST(Dispatch, DeepEpSendsOneCopyARankAndSortsBehind) {
  const Way w = forward_of(moe_job(job::Dispatcher::deepep));
  // Two experts a rank: 8 (1 - C(14,4)/C(16,4)) = 3.6 of 4.
  EXPECT_NEAR(w.sent, kTokens * 3.6 * kRow, 1e-6);
  EXPECT_EQ(w.returned, w.sent);
  EXPECT_EQ(w.permutations, 2);
  EXPECT_EQ(w.rows, kTokens * kTopK);
}

// 4 groups of 4 experts, two ranks each, of which a token visits two, with two experts in each: 2
// groups of 2 (1 - C(2,2)/C(4,2)) ranks.
TEST(Dispatch, GroupsKeepATokenOnFewerRanks) {
  job::JobSpec spec = moe_job(job::Dispatcher::deepep);
  auto& moe = std::get<layer::MoeSpec>(spec.model.blocks.front().feed_forward);
  moe.groups = 4;
  moe.top_groups = 2;
  EXPECT_NEAR(forward_of(spec).sent, kTokens * (4 - 4.0 / 6) * kRow, 1e-6);
}

TEST(Dispatch, TellsTheExchangeWhatATokenVisits) {
  const auto fanout_of = [](job::Dispatcher dispatcher) {
    ops::Fanout out;
    const job::JobSpec spec = moe_job(dispatcher);
    const Lowered all = lowered(spec);
    for (const ops::Op& op : layer_of(all).forward) {
      if (op.module != ops::Module::dispatch) continue;
      if (const auto* c = std::get_if<ops::Collective>(&op.work)) out = c->fanout;
    }
    return out;
  };
  EXPECT_EQ(fanout_of(job::Dispatcher::deepep), (ops::Fanout{16, 4, 1, 1}));
  EXPECT_EQ(fanout_of(job::Dispatcher::hybridep), (ops::Fanout{16, 4, 1, 1}));
  EXPECT_FALSE(fanout_of(job::Dispatcher::alltoall).known());
  EXPECT_FALSE(fanout_of(job::Dispatcher::allgather).known());
}

TEST(Dispatch, GroupsThatCannotBeAreRefused) {
  const auto faults = [](int groups, int top_groups) {
    job::JobSpec spec = moe_job(job::Dispatcher::deepep);
    auto& moe = std::get<layer::MoeSpec>(spec.model.blocks.front().feed_forward);
    moe.groups = groups;
    moe.top_groups = top_groups;
    Diagnostics out;
    layer::check_moe(moe, spec.parallel, out);
    return out.size();
  };
  EXPECT_EQ(faults(4, 2), 0u);
  EXPECT_EQ(faults(4, 1), 0u);  // 4 experts for k 4
  EXPECT_EQ(faults(8, 1), 1u);  // 2 experts for k 4
  EXPECT_EQ(faults(3, 2), 1u);
  EXPECT_EQ(faults(4, 5), 1u);
  EXPECT_EQ(faults(4, 0), 1u);
}

// One copy between the exchange's buffer and the rows in order, each way: permute.cu of HybridEP.
TEST(Dispatch, HybridEpCopiesRowsInOrder) {
  const Way w = forward_of(moe_job(job::Dispatcher::hybridep));
  EXPECT_EQ(w.sent, forward_of(moe_job(job::Dispatcher::deepep)).sent);
  EXPECT_EQ(w.permutations, 2);
  EXPECT_EQ(w.rows, kTokens * kTopK);
}

// Where shapes are fixed when the program is compiled, 8 ranks may each send all their 4096 rows to one:
// products read the 4096 that come on average, sorting and activation pass over 32,768.
TEST(Dispatch, BuffersOfTheWorstCaseArePassedOverWhole) {
  job::JobSpec spec = moe_job(job::Dispatcher::alltoall);
  spec.framework.saved.worst_case_rows = true;
  EXPECT_EQ(forward_of(spec).rows, 4096);
  EXPECT_EQ(forward_of(spec).sent, kTokens * kTopK * kRow);
  const auto activation_of = [](const job::JobSpec& job) {
    const Lowered l = lowered(job);
    double bytes = 0;
    for (const ops::Op& op : layer_of(l).forward) {
      const auto* e = std::get_if<ops::Elementwise>(&op.work);
      if (e != nullptr && op.module == ops::Module::expert_activation) bytes += e->traffic.value;
    }
    return bytes;
  };
  const double worst = activation_of(spec);
  spec.framework.saved.worst_case_rows = false;
  EXPECT_GT(worst, 7.5 * activation_of(spec));
  spec.framework.saved.worst_case_rows = true;
  spec.routing.capacity_factor = 1.25;  // what is dropped needs no room
  EXPECT_LT(activation_of(spec), worst / 7);
}

// 1024 tokens of 4 rows over 16 experts are 256 an expert, with a deviation of 16: in multiples of 64 a chance
// of a half each to need a fifth one, and of 2 in 10,000 to need a sixth: 4.5 * 64.
TEST(Dispatch, RowsAreRoundedUpForNarrowProducts) {
  job::JobSpec spec = moe_job(job::Dispatcher::alltoall);
  spec.routing.row_multiple = 64;
  EXPECT_NEAR(forward_of(spec).rows, 16 * 4.5 * 64, 1);
  EXPECT_NEAR(forward_of(spec).sent, 16 * 4.5 * 64 * kRow, kRow);
}

TEST(Dispatch, ALibraryThatEnqueuesEachExpertLaunchesEach) {
  job::JobSpec spec = moe_job(job::Dispatcher::alltoall);
  const auto launched = [](const job::JobSpec& job) {
    const Lowered l = lowered(job);
    for (const ops::Op& op : layer_of(l).forward) {
      if (op.module == ops::Module::expert_in) return static_cast<int>(op.kernels);
    }
    return 0;
  };
  spec.framework.kernel.per_group = Seconds{9e-6};
  EXPECT_EQ(launched(spec), 2);  // two experts a rank
  spec.framework.kernel.per_group = Seconds{0};
  EXPECT_EQ(launched(spec), 1);
}

// F 1.25: ceil(1.25 * 4096 / 16) = 320 places an expert, 5120 of a sequence, filled or not.
TEST(Dispatch, EinsumPicksRowsByProductsWithMasks) {
  job::JobSpec spec = moe_job(job::Dispatcher::einsum);
  spec.routing.capacity_factor = 1.25;
  const Way w = forward_of(spec);
  EXPECT_EQ(w.sent, 5120 * kRow);
  EXPECT_EQ(w.returned, w.sent);
  EXPECT_EQ(w.permutations, 0);
  EXPECT_EQ(w.rows, 5120);
  const auto flops_of = [](const std::vector<ops::Op>& list) {
    double flops = 0;
    for (const ops::Op& op : list) {
      const bool moves = op.module == ops::Module::dispatch || op.module == ops::Module::combine;
      if (moves && std::holds_alternative<ops::Gemm>(op.work)) flops += op.flops().value;
    }
    return flops;
  };
  const Lowered l = lowered(spec);
  // There and back; backward both again, and the gradient of the masks.
  const double one = 2 * kTokens * 5120 * kWidth;
  EXPECT_EQ(flops_of(layer_of(l).forward), 2 * one);
  EXPECT_EQ(flops_of(layer_of(l).backward), 3 * one);
  spec.routing.capacity_factor = 0;
  job::CheckedJob checked;
  EXPECT_EQ(job::check(spec, checked).size(), 1u);
}

// 1024 tokens of 4 rows added up by atomics, 5 times what reading and writing each row once takes:
// 4 * 2 * kRow bytes more a token, in the forward and in the gradient of the way there.
TEST(Dispatch, UnfusedAdditionCostsItsFactor) {
  const auto traffic = [](bool fused) {
    job::JobSpec spec = moe_job(job::Dispatcher::deepep);
    spec.framework.fusions.permute = fused;
    spec.framework.kernel.scatter_add = 5;
    const Lowered l = lowered(spec);
    double bytes = 0;
    for (const auto* list : {&layer_of(l).forward, &layer_of(l).backward}) {
      for (const ops::Op& op : *list) {
        const auto* e = std::get_if<ops::Elementwise>(&op.work);
        if (e != nullptr && e->kind == ops::ElementwiseClass::permute) bytes += e->traffic.value;
      }
    }
    return bytes;
  };
  EXPECT_EQ(traffic(false) - traffic(true), 2 * kTokens * kTopK * 4 * 2 * kRow);
}

// Two experts of 512 x 256, gate, up and down, in one buffer: 16 bits each until backward.
TEST(Dispatch, StackedExpertWeightsAreKept) {
  job::JobSpec spec = moe_job(job::Dispatcher::deepep);
  const double without = saved(layer_of(lowered(spec)));
  spec.framework.saved.stacked_expert_weights = true;
  EXPECT_EQ(saved(layer_of(lowered(spec))) - without, 2 * 3 * kWidth * 256 * 2);
}

// The busiest rank receives and computes 1.5 times the rows; what it sends of its own is as it was.
TEST(Dispatch, ABusierRankReceivesMore) {
  for (const auto d : {job::Dispatcher::alltoall, job::Dispatcher::deepep, job::Dispatcher::hybridep}) {
    const job::JobSpec spec = moe_job(d);
    job::CheckedJob checked;
    ASSERT_TRUE(job::check(spec, checked).empty());
    layer::LayerContext c = lower::context_of(checked);
    const auto& moe = std::get<layer::MoeSpec>(spec.model.blocks.front().feed_forward);
    const layer::RouteSizes even = layer::route_sizes(moe, c);
    c = lower::context_of(checked, 1.5);
    const layer::RouteSizes busy = layer::route_sizes(moe, c);
    EXPECT_EQ(busy.sent, even.sent);
    EXPECT_EQ(busy.rows, 1.5 * even.rows);
  }
}

TEST(Dispatch, OneRankPermutesAndSendsNothing) {
  for (const auto d : {job::Dispatcher::alltoall, job::Dispatcher::allgather,
                       job::Dispatcher::deepep, job::Dispatcher::hybridep}) {
    job::JobSpec spec = moe_job(d, 1);
    const Way w = forward_of(spec);
    EXPECT_EQ(w.sent, 0);
    EXPECT_EQ(w.permutations, 2);
    EXPECT_EQ(w.rows, kTokens * kTopK);
  }
}

// Every dispatcher mirrors itself in backward: as many bytes and permutations as forward.
TEST(Dispatch, BackwardIsTheSameWay) {
  for (const auto d : {job::Dispatcher::alltoall, job::Dispatcher::allgather,
                       job::Dispatcher::deepep, job::Dispatcher::hybridep}) {
    const job::JobSpec spec = moe_job(d);
    const Lowered l = lowered(spec);
    double forward = 0;
    double backward = 0;
    int permutations = 0;
    const auto add = [&](const ops::Op& op, double& bytes, int sign) {
      if (const auto* c = std::get_if<ops::Collective>(&op.work)) bytes += c->bytes.value;
      if (const auto* e = std::get_if<ops::Elementwise>(&op.work)) {
        if (e->kind == ops::ElementwiseClass::permute) permutations += sign;
      }
    };
    for (const ops::Op& op : layer_of(l).forward) add(op, forward, 1);
    for (const ops::Op& op : layer_of(l).backward) add(op, backward, -1);
    EXPECT_NEAR(forward, backward, 1e-6);
    EXPECT_EQ(permutations, 0);
  }
}

// 4096 rows over 16 experts: 256 each. A factor of 0.5 keeps 128 of them, one of 1.25 all 256, and
// padded 320; 0.3 is 76.8, so 77.
TEST(Capacity, RowsOfAnExpert) {
  const auto rows = [](double factor, bool padded) {
    job::JobSpec spec = moe_job(job::Dispatcher::alltoall);
    spec.routing.capacity_factor = factor;
    spec.routing.pad_to_capacity = padded;
    return forward_of(spec).rows / 16;
  };
  EXPECT_EQ(rows(0, false), 256);
  EXPECT_EQ(rows(0.5, false), 128);
  EXPECT_EQ(rows(1.25, false), 256);
  EXPECT_EQ(rows(1.25, true), 320);
  EXPECT_EQ(rows(0.5, true), 128);
  EXPECT_EQ(rows(0.3, false), 77);
}

TEST(Capacity, MemoryFollowsTheRows) {
  const auto bytes = [](double factor) {
    job::JobSpec spec = moe_job(job::Dispatcher::alltoall);
    spec.routing.capacity_factor = factor;
    spec.routing.pad_to_capacity = factor > 0;
    return saved(layer_of(lowered(spec)));
  };
  // A row more: gathered row, gate and up, their product, its place in the order and its weight.
  const double row = kRow + 6 * 256 + 2 * 8 + 2;
  EXPECT_EQ(bytes(1.5) - bytes(0), 0.5 * kTokens * kTopK * row);
}

TEST(Experts, WithoutAGroupedProductEachLaunchesItsOwnKernels) {
  const auto kernels = [](bool grouped) {
    job::JobSpec spec = moe_job(job::Dispatcher::alltoall);
    spec.framework.fusions.grouped_gemm = grouped;
    int count = 0;
    const Lowered all = lowered(spec);
    for (const ops::Op& op : layer_of(all).forward) {
      if (op.module == ops::Module::expert_in) count += op.kernels;
    }
    return count;
  };
  EXPECT_EQ(kernels(true), 1);
  EXPECT_EQ(kernels(false), 2);  // 16 experts over 8 ranks
}

}  // namespace
}  // namespace eratos::judges
