// Hand-worked: what a rank does once a step.
#include "eratos/lower/step.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

struct Traffic {
  ops::Module module;
  ops::CollectiveKind kind;
  Axis axis;
  double bytes;
  friend bool operator==(const Traffic&, const Traffic&) = default;
};

void PrintTo(const Traffic& t, std::ostream* out) {
  *out << ops::name_of(t.module) << " " << ops::name_of(t.kind) << " axis "
       << static_cast<int>(t.axis) << " " << static_cast<long long>(t.bytes);
}

std::vector<Traffic> traffic_of(const std::vector<ops::Op>& list) {
  std::vector<Traffic> out;
  for (const ops::Op& op : list) {
    if (const auto* c = std::get_if<ops::Collective>(&op.work)) {
      out.push_back({op.module, c->kind, c->axis, c->bytes.value});
    }
  }
  return out;
}

double elementwise_bytes(const std::vector<ops::Op>& list, ops::Module module) {
  for (const ops::Op& op : list) {
    const auto* e = std::get_if<ops::Elementwise>(&op.work);
    if (e != nullptr && op.module == module) return e->traffic.value;
  }
  return 0;
}

using ops::CollectiveKind;
using ops::Module;

// Llama 3.1 8B: 32 layers of 218,103,808 matrix weights and two norms of 4096, two tables of
// 525,336,576, one last norm.
constexpr double kMatrices = 32 * 218103808.0 + 2 * 525336576.0;
constexpr double kNorms = 65 * 4096.0;

job::JobSpec llama_job() {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 8, {1, 8, 8192});
  spec.parallel.tp = 2;
  spec.parallel.sequence_parallel = true;  // dp 4
  return spec;
}

TEST(Step, TheModelAddsUp) { EXPECT_EQ(kMatrices + kNorms, 8030261248.0); }

// Transformer Engine's update copies each tensor's bf16 moments to fp32 and back: six launches a tensor, of
// those whose part of the flat buffer the rank owns.
TEST(Step, NarrowMomentsAreCopiedTensorByTensor) {
  job::JobSpec spec = llama_job();
  const auto launches = [](const job::JobSpec& job) {
    const Lowered l = lowered(job);
    for (const ops::Op& op : l.all.step_ops[0]) {
      if (op.module == Module::optimizer) return static_cast<int>(op.kernels);
    }
    return 0;
  };
  EXPECT_EQ(launches(spec), 4);
  spec.optimizer.precision_aware = true;
  spec.optimizer.exp_avg = DType::bf16;
  spec.optimizer.exp_avg_sq = DType::bf16;
  spec.parallel.sharding = parallel::Sharding::zero1;
  // A layer has four weights and two norms; two tables and the last norm: 195, over four ranks.
  EXPECT_EQ(launches(spec), 4 + 6 * 49);
}

TEST(Step, UnshardedGradientsAreAllReduced) {
  const job::JobSpec spec = llama_job();
  const Lowered l = lowered(spec);
  const double local = kMatrices / 2 + kNorms;
  EXPECT_EQ(traffic_of(l.all.step_ops[0]),
            (std::vector<Traffic>{
                {Module::gradient_reduce, CollectiveKind::all_reduce, Axis::tp, 4 * kNorms},
                {Module::gradient_reduce, CollectiveKind::all_reduce, Axis::dp_cp, 4 * local}}));
  // Adam in fp32 beside 16-bit weights: gradient 4, master 4+4, moments 4 * 4, weight 2.
  EXPECT_EQ(elementwise_bytes(l.all.step_ops[0], Module::optimizer), 30 * local);
  EXPECT_EQ(elementwise_bytes(l.all.step_ops[0], Module::gradient_norm), 4 * local);
}

TEST(Step, TheDistributedOptimizerScattersAndGathers) {
  job::JobSpec spec = llama_job();
  spec.parallel.sharding = parallel::Sharding::zero1;
  const Lowered l = lowered(spec);
  const double local = kMatrices / 2 + kNorms;
  EXPECT_EQ(traffic_of(l.all.step_ops[0]),
            (std::vector<Traffic>{
                {Module::gradient_reduce, CollectiveKind::all_reduce, Axis::tp, 4 * kNorms},
                {Module::gradient_reduce, CollectiveKind::reduce_scatter, Axis::dp_cp, 4 * local},
                {Module::parameter_gather, CollectiveKind::all_gather, Axis::dp_cp, 2 * local}}));
  EXPECT_EQ(elementwise_bytes(l.all.step_ops[0], Module::optimizer), 30 * local / 4);

  spec.gradient_reduce_bf16 = true;
  EXPECT_EQ(traffic_of(lowered(spec).all.step_ops[0])[1].bytes, 2 * local);

  spec.framework.state.zero1_all_reduce = true;
  EXPECT_EQ(traffic_of(lowered(spec).all.step_ops[0])[1].kind, CollectiveKind::all_reduce);
}

// In buckets of 50 MiB: the input's table, half of it on each tensor-parallel rank, comes last and alone.
TEST(Step, UnshardedGradientsInBuckets) {
  job::JobSpec spec = llama_job();
  spec.overlap.grad_reduce = true;
  spec.framework.overlap.dp_share = 0.5;
  spec.framework.state.reduce_bucket_bytes = 52428800;
  const Lowered l = lowered(spec);
  std::vector<ops::Collective> reduced;
  for (const ops::Op& op : l.all.step_ops[0]) {
    const auto* c = std::get_if<ops::Collective>(&op.work);
    if (c != nullptr && c->axis == Axis::dp_cp) reduced.push_back(*c);
  }
  ASSERT_EQ(reduced.size(), 2u);
  const double last = 4 * 525336576.0 / 2;
  EXPECT_EQ(reduced[0].bytes.value, 52428800);
  EXPECT_DOUBLE_EQ(reduced[0].repeats * 52428800, 4 * (kMatrices / 2 + kNorms) - last);
  EXPECT_EQ(reduced[0].overlappable, 0.5);
  EXPECT_DOUBLE_EQ(reduced[1].repeats * 52428800, last);
  EXPECT_EQ(reduced[1].overlappable, 0);
}

// A framework that reduces after backward hides neither gradients nor parameters under ZeRO-1.
TEST(Step, ZeroOneWithoutOverlap) {
  job::JobSpec spec = llama_job();
  spec.overlap.grad_reduce = spec.overlap.param_gather = true;
  spec.framework.overlap.dp_share = 0.5;
  spec.parallel.sharding = parallel::Sharding::zero1;
  for (const bool overlaps : {true, false}) {
    spec.framework.state.zero1_overlaps = overlaps;
    const Lowered l = lowered(spec);
    for (const ops::Op& op : l.all.step_ops[0]) {
      const auto* c = std::get_if<ops::Collective>(&op.work);
      if (c == nullptr || c->axis != Axis::dp_cp) continue;
      EXPECT_EQ(c->overlappable, overlaps ? 0.5 : 0);
    }
  }
}

// Experts reduce over the ranks that hold the same ones: world 16, pp 1, ep 8: edp 2.
// Two ranks, each with both halves: all 8.03e9 weights, dp 4. Summed over 8 ranks instead of 4, each
// weight costs an eighth of its fp32 gradient and of its bf16 self more: (4 + 2) / 8 bytes.
TEST(Step, BothCopiesOfABidirectionalPipelineShareTheirSums) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 8, {1, 64, 8192});
  spec.parallel.pp = 2;
  spec.parallel.sharding = parallel::Sharding::zero1;
  spec.schedule.algorithm = "dualpipe";
  const Lowered l = lowered(spec);
  const std::vector<Traffic> traffic = traffic_of(l.all.step_ops[0]);
  ASSERT_EQ(traffic.size(), 3u);
  EXPECT_EQ(traffic[0], (Traffic{Module::gradient_reduce, CollectiveKind::send_recv, Axis::pp,
                                 (kMatrices + kNorms) * 6 / 8}));
  EXPECT_EQ(traffic[1].bytes, 4 * (kMatrices + kNorms));
  // Sharded state is cut over both copies too.
  EXPECT_EQ(elementwise_bytes(l.all.step_ops[0], Module::optimizer), 30 * (kMatrices + kNorms) / 8);
}

TEST(Step, ExpertsReduceOverTheirOwnGroup) {
  job::JobSpec spec = job_of(mixtral(kMixtral8x7b, 8, 2), 16, {1, 16, 4096});
  spec.parallel.ep = 8;
  spec.parallel.sharding = parallel::Sharding::zero1;
  const Lowered l = lowered(spec);
  const double experts = 32 * 3 * 4096.0 * 14336;  // one of eight a layer
  const double dense = 46702792704.0 - 8 * experts;
  EXPECT_EQ(traffic_of(l.all.step_ops[0]),
            (std::vector<Traffic>{
                {Module::gradient_reduce, CollectiveKind::reduce_scatter, Axis::dp_cp, 4 * dense},
                {Module::parameter_gather, CollectiveKind::all_gather, Axis::dp_cp, 2 * dense},
                {Module::gradient_reduce, CollectiveKind::reduce_scatter, Axis::edp, 4 * experts},
                {Module::parameter_gather, CollectiveKind::all_gather, Axis::edp, 2 * experts}}));
  EXPECT_EQ(parallel::group_of(l.job.parallel, Axis::edp).size, 2);
  EXPECT_EQ(elementwise_bytes(l.all.step_ops[0], Module::optimizer),
            30 * (dense / 16 + experts / 2));
}

// A tied table stands on the first and the last stage of a pipeline, whose gradients are summed.
TEST(Step, ATiedTableIsReducedBetweenTheEnds) {
  Sizes n{4, 1024, 8, 8, 128, 4096, 50304};
  job::JobSpec spec = job_of(gpt(n, 2048), 4, {1, 4, 2048});
  spec.parallel.pp = 4;
  const Lowered l = lowered(spec);
  const Traffic shared{Module::gradient_reduce, CollectiveKind::send_recv, Axis::pp,
                       4 * 50304 * 1024.0};
  EXPECT_EQ(traffic_of(l.all.step_ops[0]), (std::vector<Traffic>{shared}));
  EXPECT_TRUE(traffic_of(l.all.step_ops[1]).empty());
  EXPECT_EQ(traffic_of(l.all.step_ops[3]), (std::vector<Traffic>{shared}));
}

// ZeRO-3 gathers each unit before forward and before backward and scatters its gradient behind it.
TEST(Step, ZeroThreeGathersInsideTheProgram) {
  job::JobSpec spec = llama_job();
  spec.parallel.tp = 1;
  spec.parallel.sequence_parallel = false;
  spec.parallel.sharding = parallel::Sharding::zero3;
  const Lowered l = lowered(spec);
  EXPECT_TRUE(traffic_of(l.all.step_ops[0]).empty());
  const double layer = 218103808.0 + 2 * 4096;
  EXPECT_EQ(traffic_of(layer_of(l).forward),
            (std::vector<Traffic>{{Module::parameter_gather, CollectiveKind::all_gather,
                                   Axis::hsdp_shard, 2 * layer}}));
  EXPECT_EQ(traffic_of(layer_of(l).backward),
            (std::vector<Traffic>{
                {Module::parameter_gather, CollectiveKind::all_gather, Axis::hsdp_shard, 2 * layer},
                {Module::gradient_reduce, CollectiveKind::reduce_scatter, Axis::hsdp_shard,
                 4 * layer}}));
  EXPECT_EQ(elementwise_bytes(l.all.step_ops[0], Module::optimizer), 30 * 8030261248.0 / 8);

  // fp32 weights are gathered in fp32.
  spec.precision = job::Recipe::fp32;
  EXPECT_EQ(traffic_of(layer_of(lowered(spec)).forward)[0].bytes, 4 * layer);
}

// HSDP with groups of 4 on 8 ranks: shards inside a group, one all-reduce of shards across.
TEST(Step, HybridShardingReducesAcrossReplicas) {
  job::JobSpec spec = llama_job();
  spec.parallel.tp = 1;
  spec.parallel.sequence_parallel = false;
  spec.parallel.sharding = parallel::Sharding::hsdp;
  spec.parallel.hsdp_group = 4;
  const Lowered l = lowered(spec);
  EXPECT_EQ(traffic_of(l.all.step_ops[0]),
            (std::vector<Traffic>{{Module::gradient_reduce, CollectiveKind::all_reduce,
                                   Axis::hsdp_replica, 4 * 8030261248.0 / 4}}));
  EXPECT_EQ(elementwise_bytes(l.all.step_ops[0], Module::optimizer), 30 * 8030261248.0 / 4);
}

TEST(Step, RankParametersSayWhatTensorParallelRanksRepeat) {
  job::JobSpec spec = job_of(deepseek_v3(1, 2), 2, {1, 2, 4096});
  spec.parallel.tp = 2;
  spec.parallel.sequence_parallel = true;
  const Lowered l = lowered(spec);
  const lower::RankParameters n = lower::rank_parameters(l.job, l.all, 0);
  // Per layer: down projections 7168 * (1536 + 576), norms 2 * 7168 + 1536 + 512; two routers with
  // their biases, 256 * 7169; one last norm.
  EXPECT_EQ(n.replicated, 3 * (7168.0 * 2112 + 2 * 7168 + 2048) + 2 * 256 * 7169.0 + 7168);
  EXPECT_EQ(n.expert, 2 * 256 * 3 * 7168.0 * 2048);
}

// Elementwise bytes of the loss of one share, in the order they run.
std::vector<double> share_traffic(parallel::OutputLayer output) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 4, {1, 8, 4096});
  spec.parallel.pp = 4;
  spec.schedule.output_layer = output;
  std::vector<double> out;
  const Lowered l = lowered(spec);
  const ops::Program& p = l.all.programs[l.all.shares[0].items[1].program];
  for (const auto* list : {&p.forward, &p.backward}) {
    for (const ops::Op& op : *list) {
      const auto* e = std::get_if<ops::Elementwise>(&op.work);
      if (e != nullptr && op.module == ops::Module::loss) out.push_back(e->traffic.value);
    }
  }
  return out;
}

TEST(Shares, BarriersMoveProbabilitiesAgain) {
  // 4096 tokens of 4096 elements; 128256 / 4 logits a token. The input comes in fp32 and is copied and
  // cast: 14 bytes. Corrected probabilities: 8. One barrier: 6 a logit for the second 16-bit copy, 18 an
  // element for the labels' rows.
  const double hidden = 4096.0 * 4096;
  const double logits = 4096.0 * 128256 / 4;
  const auto loss = share_traffic(parallel::OutputLayer::interlaced);  // forward, backward, their inputs
  ASSERT_EQ(loss.size(), 4u);
  EXPECT_EQ(share_traffic(parallel::OutputLayer::two_barriers),
            (std::vector<double>{14 * hidden, loss[0], 8 * logits, loss[1], 0, 0}));
  EXPECT_EQ(share_traffic(parallel::OutputLayer::one_barrier),
            (std::vector<double>{14 * hidden, loss[0], 6 * logits + 18 * hidden, 8 * logits, loss[1], 0,
                                 0}));
}

}  // namespace
}  // namespace eratos::judges
