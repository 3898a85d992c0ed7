// From ops to a pass and a stage, with a machine whose prices are round numbers: a streamed byte
// takes 1 ns, so does a byte between two ranks, and nothing has a launch or a latency.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "eratos/base/axis.h"
#include "eratos/collective/collective.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/kernel/context.h"
#include "eratos/model/architecture.h"
#include "eratos/ops/ops.h"
#include "eratos/ops/stage.h"
#include "eratos/parallel/parallel.h"
#include "eratos/projection/time.h"

namespace eratos::projection {
namespace {

class Pass : public testing::Test {
 protected:
  Pass() {
    checked->spec = &spec;
    spec.framework.overlap.contention = 0.2;
    spec.framework.host = {};
    spec.framework.host.overlap_exponent = 2;
    pricing.job = checked.get();
    pricing.kernels.elementwise_seconds_per_byte.fill(1e-9);
    collective::LevelConstants link;
    link.gpus = 2;
    link.seconds_per_byte = 1e-9;
    pricing.links.levels.push_back(link);
    for (collective::GroupPlacement& p : pricing.placements) {
      p.size = 2;
      p.members.push_back(2);
    }
  }

  static ops::Op compute(double milliseconds, ops::Module m = ops::Module::norm) {
    ops::Op op;
    op.module = m;
    op.work = ops::Elementwise{Bytes{milliseconds * 1e6}, ops::ElementwiseClass::streaming};
    return op;
  }
  static ops::Op traffic(double milliseconds, ops::Stream stream, double share,
                         ops::Module m = ops::Module::dispatch) {
    ops::Op op;
    op.module = m;
    op.stream = stream;
    op.work =
        ops::Collective{ops::CollectiveKind::send_recv, Axis::ep, Bytes{milliseconds * 1e6}, share};
    return op;
  }
  PassTime forward_of(std::initializer_list<ops::Op> ops) {
    ops::Program p;
    p.forward = ops;
    ProgramTime t;
    time_program(p, pricing, false, t);
    return t.forward;
  }

  job::JobSpec spec;
  std::unique_ptr<job::CheckedJob> checked = std::make_unique<job::CheckedJob>();
  Pricing pricing;
};

// The header's example: C 10 ms, K 4 ms, w 0.5, kappa 0.2: hidden 2, exposed 2, pass 12.4 ms.
TEST_F(Pass, HalfOfTheTrafficHidesAndSlowsWhatItHidesBehind) {
  const PassTime t = forward_of({compute(6), traffic(4, ops::Stream::ep, 0.5), compute(4)});
  EXPECT_NEAR(t.ep, 2e-3, 1e-15);
  EXPECT_NEAR(t.compute, 10.4e-3, 1e-15);
  EXPECT_NEAR(t.device(), 12.4e-3, 1e-15);
  EXPECT_EQ(t.kernels, 2);
  EXPECT_NEAR(t.module[static_cast<std::size_t>(ops::Module::dispatch)], 2e-3, 1e-15);
}

// Hidden time needs compute to hide behind: 3 ms of compute hide at most 3 of 8, and tp comes
// first.
TEST_F(Pass, StreamsShareTheComputeTheyHideBehind) {
  spec.framework.overlap.contention = 0;
  const PassTime t =
      forward_of({compute(3), traffic(2, ops::Stream::tp, 1.0), traffic(8, ops::Stream::dp, 1.0)});
  EXPECT_NEAR(t.tp, 0, 1e-15);
  EXPECT_NEAR(t.dp, 7e-3, 1e-15);
  EXPECT_NEAR(t.device(), 10e-3, 1e-15);
}

// 6 ms that may hide whole and 2 ms that may not: three quarters of the stream.
TEST_F(Pass, TheShareOfAStreamIsWeighedByTime) {
  spec.framework.overlap.contention = 0;
  const PassTime t = forward_of(
      {compute(100), traffic(6, ops::Stream::ep, 1.0), traffic(2, ops::Stream::ep, 0.0)});
  EXPECT_NEAR(t.ep, 2e-3, 1e-15);
}

TEST_F(Pass, AnOpWithoutKernelsCostsNothing) {
  ops::Op slice = compute(5);
  slice.kernels = 0;
  const PassTime t = forward_of({slice, compute(1)});
  EXPECT_NEAR(t.device(), 1e-3, 1e-15);
  EXPECT_EQ(t.kernels, 1);
}

// Device 3 ms a layer, two layers; host 4 ms a kernel: (6^2 + 8^2)^(1/2) = 10 ms.
TEST_F(Pass, HostAndDeviceCombine) {
  spec.framework.host.per_kernel = milliseconds(4);
  ops::Program p;
  p.forward = {compute(3)};
  ProgramTime t;
  time_program(p, pricing, false, t);
  ops::StageProgram stage;
  stage.items.push_back({0, 2});
  const ChunkTime c = time_chunk(stage, &t, ChunkPass::forward, pricing);
  EXPECT_NEAR(c.host, 8e-3, 1e-15);
  EXPECT_NEAR(c.sum.device(), 6e-3, 1e-15);
  EXPECT_NEAR(c.duration, 10e-3, 1e-15);
  EXPECT_NEAR(c.launch(), 4e-3, 1e-15);
  EXPECT_EQ(time_chunk(stage, &t, ChunkPass::backward, pricing).duration, 0);  // there is no backward
  // All launches inside graphs: the host is free.
  spec.graph_share = 1;
  EXPECT_NEAR(time_chunk(stage, &t, ChunkPass::forward, pricing).duration, 6e-3, 1e-15);
}

// Device 10 ms, host 10 ms: sqrt(2) times either with n 2, both in turn with n 1.
TEST_F(Pass, TensorParallelRanksWaitForOneAnothersHosts) {
  const auto takes = [&](int tp, double exponent) {
    spec.framework.host.per_kernel = Seconds{10e-3};
    spec.framework.host.tp_overlap_exponent = exponent;
    checked->parallel.tp = tp;
    ops::Program p;
    p.forward = {compute(10)};
    ProgramTime t;
    time_program(p, pricing, false, t);
    ops::StageProgram stage;
    stage.items.push_back({0, 1});
    return time_chunk(stage, &t, ChunkPass::forward, pricing).duration;
  };
  EXPECT_NEAR(takes(1, 1), std::sqrt(2.0) * 10e-3, 1e-12);
  EXPECT_NEAR(takes(2, 0), std::sqrt(2.0) * 10e-3, 1e-12);
  EXPECT_NEAR(takes(2, 1), 20e-3, 1e-12);
}

// The host's fixed costs: 1 ms a micro-batch, 2 ms a layer; a program without input and output
// (embedding, head) is no layer.
// An eager expert layer: 2 ms, routing 1, overlapping 8; 4 where the all-to-all dispatcher runs shared
// experts between its stages.
TEST_F(Pass, TheHostOfExpertLayers) {
  spec.framework.host.per_moe_layer = milliseconds(2);
  spec.framework.host.per_moe_router = milliseconds(1);
  spec.framework.host.per_moe_wait = milliseconds(4);
  spec.framework.host.per_moe_overlap = milliseconds(8);
  spec.framework.host.per_recompute = milliseconds(16);
  spec.recompute.granularity = job::Granularity::selective;
  ops::Program program;
  program.forward = {compute(1, ops::Module::router)};
  ops::Op again = compute(1, ops::Module::norm);
  again.pass = ops::Pass::recompute;
  program.backward = {again, again};  // one module, made again by two ops
  ops::StageProgram stage;
  stage.items.push_back({0, 1});
  const auto host = [&](ChunkPass pass) {
    ProgramTime t;
    time_program(program, pricing, false, t);
    return time_chunk(stage, &t, pass, pricing).host;
  };
  spec.routing.dispatcher = job::Dispatcher::hybridep;
  EXPECT_NEAR(host(ChunkPass::forward), 3e-3, 1e-15);
  EXPECT_NEAR(host(ChunkPass::backward), 19e-3, 1e-15);
  spec.routing.dispatcher = job::Dispatcher::alltoall;
  EXPECT_NEAR(host(ChunkPass::forward), 3e-3, 1e-15);
  program.forward.push_back(compute(1, ops::Module::shared_expert));
  EXPECT_NEAR(host(ChunkPass::forward), 7e-3, 1e-15);
  spec.routing.dispatcher = job::Dispatcher::hybridep;
  EXPECT_NEAR(host(ChunkPass::forward), 3e-3, 1e-15);
  spec.routing.dispatcher = job::Dispatcher::alltoall;
  spec.overlap.moe_a2a = true;
  EXPECT_NEAR(host(ChunkPass::forward), 15e-3, 1e-15);
  spec.graph_modules.set(static_cast<std::size_t>(ops::Module::router));
  EXPECT_NEAR(host(ChunkPass::forward), 14e-3, 1e-15);
  spec.graph_share = 1;
  EXPECT_NEAR(host(ChunkPass::forward), 0, 1e-15);
}

// Two grouped products over 8 local experts at 1 ms each: 16 ms forward and 16 backward, where the weights'
// products belong to the same calls. Nothing where a graph holds them, nor for a plain product.
TEST_F(Pass, TheHostGoesThroughLocalExperts) {
  spec.framework.host.per_local_expert = milliseconds(1);
  const auto grouped = [](ops::Pass pass) {
    ops::Op op;
    op.module = ops::Module::expert_in;
    op.pass = pass;
    op.work = ops::Gemm{64, 64, 64, 8, DType::bf16, false, true};
    return op;
  };
  ops::Op plain = grouped(ops::Pass::forward);
  std::get<ops::Gemm>(plain.work).experts = false;
  ops::Program program;
  program.forward = {grouped(ops::Pass::forward), grouped(ops::Pass::forward), plain};
  for (int i = 0; i < 2; ++i) {
    program.backward.push_back(grouped(ops::Pass::dgrad));
    program.backward.push_back(grouped(ops::Pass::wgrad));
  }
  ops::StageProgram stage;
  stage.items.push_back({0, 1});
  const auto host = [&](ChunkPass pass) {
    ProgramTime t;
    time_program(program, pricing, false, t);
    return time_chunk(stage, &t, pass, pricing).host;
  };
  EXPECT_NEAR(host(ChunkPass::forward), 16e-3, 1e-15);
  EXPECT_NEAR(host(ChunkPass::backward), 16e-3, 1e-15);
  spec.graph_modules.set(static_cast<std::size_t>(ops::Module::expert_in));
  EXPECT_NEAR(host(ChunkPass::forward), 0, 1e-15);
  spec.graph_modules.reset();
  spec.graph_share = 1;
  EXPECT_NEAR(host(ChunkPass::backward), 0, 1e-15);
}

// Launches of modules inside graphs are not the host's.
TEST_F(Pass, ModulesInGraphsLaunchNothing) {
  EXPECT_EQ(forward_of({compute(1), compute(1, ops::Module::qkv)}).kernels, 2);
  spec.graph_modules.set(static_cast<std::size_t>(ops::Module::qkv));
  EXPECT_EQ(forward_of({compute(1), compute(1, ops::Module::qkv)}).kernels, 1);
}

TEST_F(Pass, FixedCostsOfTheHost) {
  spec.framework.host.per_micro_batch = milliseconds(1);
  spec.framework.host.per_layer = milliseconds(2);
  ops::Program layer;
  layer.tensors.resize(2);
  layer.input = 0;
  layer.output = 1;
  ProgramTime times[2];
  time_program(layer, pricing, false, times[0]);
  time_program(ops::Program{}, pricing, false, times[1]);
  ops::StageProgram stage;
  stage.items.push_back({1, 1});
  stage.items.push_back({0, 3});
  EXPECT_NEAR(time_chunk(stage, times, ChunkPass::forward, pricing).host, 7e-3, 1e-15);
}

}  // namespace
}  // namespace eratos::projection
