// Hand-worked: what selective and full recomputation keep and repeat.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

using Lines = std::vector<std::string>;
using ops::Module;

job::JobSpec recomputing(model::Architecture model, std::initializer_list<Module> modules) {
  job::JobSpec spec = job_of(std::move(model), 1, {1, 1, 4096});
  spec.recompute.granularity = job::Granularity::selective;
  for (const Module m : modules) spec.recompute.modules.set(static_cast<std::size_t>(m));
  return spec;
}

double none(job::JobSpec spec) {
  spec.recompute = {};
  return saved(layer_of(lowered(spec)));
}

// Modules of the repeated ops and of the op each run of them stands before.
Lines repeated(const ops::Program& p) {
  Lines out;
  bool inside = false;
  for (const ops::Op& op : p.backward) {
    const bool again = op.pass == ops::Pass::recompute;
    if (again) out.push_back(std::string(ops::name_of(op.module)));
    if (inside && !again) {
      out.push_back("| " + std::string(ops::name_of(op.pass)) + " " +
                    std::string(ops::name_of(op.module)));
    }
    inside = again;
  }
  return out;
}

TEST(Recompute, FlashAttentionAloneDropsItsLogSumExp) {
  // Its output is the projection's operand and stays.
  const job::JobSpec spec = recomputing(llama(kLlama3_8b), {Module::core_attention});
  const Lowered l = lowered(spec);
  EXPECT_EQ(saved(layer_of(l)), none(spec) - 4096 * 4.0 * 32);
  EXPECT_EQ(repeated(layer_of(l)), (Lines{"core_attention", "| dgrad core_attention"}));
}

TEST(Recompute, NormsDropTheirOutput) {
  // Two outputs of 2h bytes and two statistics of 4 a token.
  const job::JobSpec spec = recomputing(llama(kLlama3_8b), {Module::norm});
  const Lowered l = lowered(spec);
  EXPECT_EQ(saved(layer_of(l)), none(spec) - 4096 * (2 * 2 * 4096.0 + 8));
  EXPECT_EQ(repeated(layer_of(l)), (Lines{"norm", "| wgrad mlp_in", "norm", "| wgrad qkv"}));
}

TEST(Recompute, ActivationsDropTheirOutput) {
  const job::JobSpec spec = recomputing(llama(kLlama3_8b), {Module::activation});
  const Lowered l = lowered(spec);
  EXPECT_EQ(saved(layer_of(l)), none(spec) - 4096 * 2 * 14336.0);
  EXPECT_EQ(repeated(layer_of(l)), (Lines{"activation", "| wgrad mlp_out"}));
}

TEST(Recompute, TheWholeFeedForwardKeepsTheNormsOutput) {
  const job::JobSpec spec = recomputing(
      llama(kLlama3_8b), {Module::mlp_in, Module::activation, Module::mlp_out});
  const Lowered l = lowered(spec);
  EXPECT_EQ(saved(layer_of(l)), none(spec) - 4096 * 6 * 14336.0);
}

// Megatron's mla_up_proj: latents are kept; queries, keys, values and the latents' norms are made
// again. Queries come from one stretch of ops, keys from another with the rotary work of both; the
// first must be repeated before the second, and its result not be kept in between.
TEST(Recompute, UpProjectionsAreMadeAgainInOrder) {
  const job::JobSpec spec = recomputing(deepseek_v3(1, 2), {Module::mla_up});
  const Lowered l = lowered(spec);
  const ops::Program& p = l.program("dense layer");
  // A token drops q and k 2*128*192 each, the up projection 2*128*256, the norms' outputs
  // 2*(1536 + 512) and statistics 8.
  EXPECT_EQ(saved(p),
            none(spec) - 4096 * (4 * 128 * 192.0 + 2 * 128 * 256 + 2 * (1536 + 512) + 8));
  EXPECT_EQ(repeated(p), (Lines{"mla_up", "mla_up",                      // norm, q up
                                "mla_up", "mla_up", "mla_up", "mla_up",  // norm, kv up, rotary
                                "| dgrad core_attention"}));
}

TEST(Recompute, ExpertActivationsDropTheirOutput) {
  job::JobSpec spec = recomputing(mixtral(kMixtral8x7b, 8, 2), {Module::expert_activation});
  const Lowered l = lowered(spec);
  EXPECT_EQ(saved(layer_of(l)), none(spec) - 4096 * 2 * 2 * 14336.0);
}

TEST(Recompute, FullRepeatsForwardOnceAtTheFront) {
  job::JobSpec spec = recomputing(llama(kLlama3_8b), {});
  spec.recompute.granularity = job::Granularity::full;
  const Lowered l = lowered(spec);
  const ops::Program& p = layer_of(l);
  for (std::size_t i = 0; i < p.forward.size(); ++i) {
    EXPECT_EQ(p.backward[i].pass, ops::Pass::recompute);
    EXPECT_EQ(p.backward[i].module, p.forward[i].module);
  }
  EXPECT_NE(p.backward[p.forward.size()].pass, ops::Pass::recompute);
  // The output and the embedding are not checkpointed.
  EXPECT_EQ(repeated(l.program("output")), Lines{});
}

// torch's checkpoint ends the repetition at the activation, the last thing that backward reads: the
// down product and the residual addition behind it are not made again.
TEST(Recompute, FullStopsEarlyWhereTheFrameworkDoes) {
  job::JobSpec spec = recomputing(llama(kLlama3_8b), {});
  spec.recompute.granularity = job::Granularity::full;
  const Lines whole = repeated(layer_of(lowered(spec)));
  spec.framework.saved.recompute_stops_early = true;
  const Lines early = repeated(layer_of(lowered(spec)));
  ASSERT_EQ(early.size() + 2, whole.size());
  EXPECT_EQ(early[early.size() - 2], "activation");
  EXPECT_EQ(whole[whole.size() - 3], "mlp_out");
}

TEST(Recompute, BlockCountsLayersOfEachVirtualStage) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 4, {1, 8, 4096});
  spec.parallel.pp = 4;
  spec.parallel.vpp = 2;
  spec.recompute.granularity = job::Granularity::full;
  spec.recompute.method = job::RecomputeMethod::block;
  spec.recompute.layers = 1;
  const Lowered l = lowered(spec);
  ASSERT_EQ(l.all.stage_count, 8u);
  for (std::size_t s = 0; s < 8; ++s) {
    // Four layers a virtual stage: one recomputed, three kept.
    const auto& items = l.all.stages[s].items;
    const std::size_t first = s == 0 ? 1 : 0;
    EXPECT_EQ(items[first].repeat, 1);
    EXPECT_EQ(items[first + 1].repeat, 3);
    EXPECT_EQ(saved(l.all.programs[items[first].program]), 2 * 4096 * 4096.0);
  }
}

}  // namespace
}  // namespace eratos::judges
