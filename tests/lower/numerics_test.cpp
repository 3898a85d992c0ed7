// Hand-worked: block-scaled recipes, optimizers in the step, offload, named recompute policies.
#include <gtest/gtest.h>

#include <string>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "eratos/memory/memory.h"
#include "eratos/projection/state.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

using ops::Module;

job::JobSpec llama_job(job::Recipe recipe = job::Recipe::bf16) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 1, {1, 1, 4096});
  spec.precision = recipe;
  return spec;
}

double cast_bytes(const ops::Program& p) {
  double total = 0;
  for (const ops::Op& op : p.forward) {
    if (op.module == Module::quantize) total += std::get_if<ops::Elementwise>(&op.work)->traffic.value;
  }
  return total;
}

TEST(Recipes, BlockScalesAreKeptAndMoved) {
  const double cast = 4096 * (3 * 4096.0 + 14336);  // numbers that forward casts
  // Narrow tensors that wait for backward: two norm results, the activation's, attention's copy.
  const double kept = 4096 * (2 * 4096.0 + 14336 + 4096);
  const double wide = saved(layer_of(lowered(llama_job()))) - 2 * (kept - 4096 * 4096.0);
  const struct {
    job::Recipe recipe;
    DType format;
    double traffic, bytes;  // an element
  } table[] = {{job::Recipe::fp8_blockwise, DType::fp8, 4.0625, 1 + 4.0 / 128},
               {job::Recipe::mxfp8, DType::fp8, 4.1875, 1 + 1.0 / 32},
               {job::Recipe::mxfp4, DType::fp4, 3.0625, 0.5 + 1.0 / 32},
               {job::Recipe::nvfp4, DType::fp4, 5.375, 0.5 + 1.0 / 16}};
  for (const auto& row : table) {
    SCOPED_TRACE(std::string(job::name_of(row.recipe)));
    const job::JobSpec spec = llama_job(row.recipe);
    const Lowered l = lowered(spec);
    EXPECT_DOUBLE_EQ(cast_bytes(layer_of(l)), row.traffic * cast);
    EXPECT_DOUBLE_EQ(saved(layer_of(l)), wide + row.bytes * kept);
    for (const ops::Op& op : layer_of(l).forward) {
      const auto* g = std::get_if<ops::Gemm>(&op.work);
      EXPECT_TRUE(g == nullptr || g->dtype == row.format);
    }
  }
}

TEST(Recipes, EndsStayWide) {
  job::JobSpec spec = llama_job(job::Recipe::nvfp4);
  spec.narrow.bf16_first_layers = 1;
  spec.narrow.bf16_last_layers = 3;
  const Lowered l = lowered(spec);
  int wide = 0;
  int narrow = 0;
  for (const ops::StageItem& item : l.all.stages[0].items) {
    const ops::Program& p = l.all.programs[item.program];
    if (p.name == std::string("embedding") || p.name == std::string("output")) continue;
    (cast_bytes(p) > 0 ? narrow : wide) += item.repeat;
  }
  EXPECT_EQ(wide, 4);
  EXPECT_EQ(narrow, 28);
  spec.narrow.bf16_last_layers = 32;
  job::CheckedJob out;
  EXPECT_EQ(job::check(spec, out).front().field, "precision.bf16_first_layers");
  spec = llama_job();
  spec.narrow.parameter_gather = true;
  EXPECT_EQ(job::check(spec, out).front().field, "precision.parameter_gather");
}

TEST(Recipes, APartMustHaveTheFormat) {
  job::JobSpec spec = llama_job(job::Recipe::mxfp4);
  spec.cluster.accelerator.peak[static_cast<std::size_t>(DType::fp4)] = FlopsPerSecond{0};
  job::CheckedJob out;
  EXPECT_EQ(job::check(spec, out).front().field, "precision.recipe");
}

// Both copies of a weight: 2 (1 + 1/32) B beside the 2 B of bf16, or instead of them.
TEST(Recipes, WeightsAreHeldNarrow) {
  job::JobSpec spec = llama_job(job::Recipe::mxfp8);
  const auto narrow = [&] {
    job::CheckedJob out;
    EXPECT_TRUE(job::check(spec, out).empty());
    return projection::state_rules(out).dense.narrow;
  };
  EXPECT_DOUBLE_EQ(narrow(), 2.0625);
  spec.narrow.parameter_gather = true;
  EXPECT_DOUBLE_EQ(narrow(), 0.0625);
  double elements = 0;
  const Lowered l = lowered(spec);
  for (const ops::Parameter& q : layer_of(l).parameters) elements += q.narrow ? q.elements : 0;
  EXPECT_EQ(elements, 218103808.0);  // all but the norms
}

TEST(GradientReduction, TheBufferHasTheReductionsFormat) {
  job::JobSpec spec = llama_job();
  EXPECT_EQ(job::held_gradient(spec), DType::fp32);
  spec.gradient_reduce_bf16 = true;
  EXPECT_EQ(job::held_gradient(spec), DType::bf16);
  spec.framework.state.wgrad_fused_accumulation = false;  // a gradient of its own is added up
  EXPECT_EQ(job::held_gradient(spec), DType::fp32);
}

// A layer of Llama 3.1 8B: qkv 6144 x 4096, out 4096 x 4096, in 28672 x 4096, down 4096 x 14336;
// five rounds of 4 a^2 b + 2 a^3 with a = 4096.
TEST(Muon, OrthogonalisesEveryMatrix) {
  job::JobSpec spec = llama_job();
  const auto step_flops_of = [](const Lowered& l) {
    double total = 0;
    for (const ops::Op& op : l.all.step_ops[0]) total += op.flops().value;
    return total;
  };
  EXPECT_EQ(step_flops_of(lowered(spec)), 0);
  spec.optimizer.kind = "muon";
  const double a = 4096;
  const double wide = 6144 + 4096 + 28672 + 14336.0;
  EXPECT_DOUBLE_EQ(step_flops_of(lowered(spec)), 32 * 5 * (4 * a * a * wide + 4 * 2 * a * a * a));
}

TEST(Offload, OptimizerCrossesTheHostsLink) {
  job::JobSpec spec = llama_job();
  spec.cluster.accelerator.host_link = BytesPerSecond{64e9};
  spec.offload.optimizer = 0.5;
  const Lowered l = lowered(spec);
  const double parameters = 8030261248.0;
  const ops::HostCopy* copy = nullptr;
  for (const ops::Op& op : l.all.step_ops[0]) {
    if (const auto* h = std::get_if<ops::HostCopy>(&op.work)) copy = h;
  }
  ASSERT_NE(copy, nullptr);
  EXPECT_DOUBLE_EQ(copy->bytes.value, parameters / 2 * (4 + 2));  // fp32 gradients out, bf16 back
  EXPECT_DOUBLE_EQ(copy->updated, parameters / 2);
  EXPECT_DOUBLE_EQ(projection::state_rules(l.job).dense.optimizer, 6);
}

TEST(Offload, ActivationsLeaveBetweenThePasses) {
  job::JobSpec spec = llama_job();
  spec.cluster.accelerator.host_link = BytesPerSecond{64e9};
  const double all = saved(layer_of(lowered(spec)));
  spec.offload.activations.set(static_cast<std::size_t>(Module::mlp_in));
  const double in = 4096 * 2 * 14336 * 2.0;  // gate and up
  Lowered l = lowered(spec);
  EXPECT_EQ(saved(layer_of(l)), all - in);
  double copied = 0;
  for (const auto* list : {&layer_of(l).forward, &layer_of(l).backward}) {
    for (const ops::Op& op : *list) {
      if (const auto* h = std::get_if<ops::HostCopy>(&op.work)) copied += h->bytes.value;
    }
  }
  EXPECT_EQ(copied, 2 * in);
  memory::ProgramMemory m;
  memory::walk(layer_of(l), Bytes{0}, false, m);
  EXPECT_EQ(m.saved.value, all - in);
  EXPECT_GE(m.backward_peak.value, all);  // all of it is back when backward runs

  spec.offload.activations.reset();
  spec.offload.layers = 3;
  l = lowered(spec);
  EXPECT_EQ(l.all.stages[0].items[1].repeat, 3);
  EXPECT_EQ(saved(l.all.programs[l.all.stages[0].items[1].program]), 0);
  EXPECT_EQ(saved(l.all.programs[l.all.stages[0].items[2].program]), all);
}

// Over two chunks of eight layers a rank, spaced evenly: of sixteen, two are the fourth and the
// twelfth, one in each chunk.
TEST(Offload, LayersAreSpacedOverChunks) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 2, {1, 8, 4096});
  spec.cluster.accelerator.host_link = BytesPerSecond{64e9};
  spec.parallel.pp = 2;
  spec.parallel.vpp = 2;
  spec.offload.layers = 2;
  const Lowered l = lowered(spec);
  ASSERT_EQ(l.all.stage_count, 4u);
  for (std::size_t s = 0; s < 4; ++s) {
    int position = 0;
    int gone = -1;
    for (const ops::StageItem& item : l.all.stages[s].items) {
      const ops::Program& p = l.all.programs[item.program];
      if (std::string_view(p.name) == "embedding" || std::string_view(p.name) == "output") continue;
      if (saved(p) == 0) {
        EXPECT_EQ(gone, -1);
        EXPECT_EQ(item.repeat, 1);
        gone = position;
      }
      position += item.repeat;
    }
    EXPECT_EQ(position, 8);
    EXPECT_EQ(gone, 3) << s;
  }
}

// The layer's input, and what the policy names.
TEST(Policy, KeepsResultsOfTheNamedModules) {
  job::JobSpec spec = llama_job();
  spec.recompute.granularity = job::Granularity::full;
  spec.recompute.policy = "named";
  spec.recompute.kept.set(static_cast<std::size_t>(Module::qkv));
  spec.recompute.kept.set(static_cast<std::size_t>(Module::attention_out));
  // Input h, Q and K and V before rotation 6144, the output projection's result h.
  EXPECT_EQ(saved(layer_of(lowered(spec))), 4096 * 2 * (4096 + 6144 + 4096.0));
  // Forward is repeated but for the two products, which ran once.
  double again = 0;
  const Lowered all = lowered(spec);
  for (const ops::Op& op : layer_of(all).backward) {
    const bool product = std::holds_alternative<ops::Gemm>(op.work);
    if (product && op.pass == ops::Pass::recompute) again += op.flops().value;
  }
  EXPECT_EQ(again, 2 * 4096.0 * 4096 * (2 * 14336 + 14336.0));
}

// Seven products apart: Q, V, gate and down are the first, third, fifth and seventh.
TEST(Policy, EverySecondProduct) {
  job::JobSpec spec = llama_job();
  spec.framework.fusions.qkv = false;
  spec.framework.fusions.gate_up = false;
  spec.recompute.granularity = job::Granularity::full;
  spec.recompute.policy = "op-level";
  spec.recompute.kept.set(static_cast<std::size_t>(Module::core_attention));
  spec.recompute.alternate = true;
  const Lowered l = lowered(spec);
  double again = 0;
  for (const ops::Op& op : layer_of(l).backward) {
    const bool product = std::holds_alternative<ops::Gemm>(op.work);
    if (product && op.pass == ops::Pass::recompute) again += op.flops().value;
  }
  // K 1024, out 4096 and up 14336 columns are made again.
  EXPECT_EQ(again, 2 * 4096.0 * 4096 * (1024 + 4096 + 14336.0));
  double bytes = 0;
  for (const ops::Tensor& t : layer_of(l).tensors) {
    if (t.saved && t.name == std::string("kept_products")) bytes += t.bytes().value;
  }
  EXPECT_EQ(bytes, 4096 * 2 * (4096 + 1024 + 14336.0));  // Q and V, gate
}

// 2 (Q 4096, V 1024, gate 14336, down 4096, attention 4096, the layer's input 4096) + 4 x 32 heads of
// statistics: 63,616 bytes a token. Where a compiler cuts the layer, down's result goes: only the next
// residual reads it; so do the ops that would be made again for that.
TEST(Policy, CompiledKeepsOnlyWhatBackwardReads) {
  job::JobSpec spec = llama_job();
  spec.framework.fusions.qkv = false;
  spec.framework.fusions.gate_up = false;
  spec.recompute.granularity = job::Granularity::full;
  spec.recompute.kept.set(static_cast<std::size_t>(Module::core_attention));
  spec.recompute.alternate = true;
  spec.framework.saved.recompute_stops_early = false;
  const Lowered eager = lowered(spec);
  EXPECT_EQ(saved(layer_of(eager)), 4096 * 63616.0);
  spec.framework.saved.recompute_stops_early = true;
  const Lowered compiled = lowered(spec);
  EXPECT_EQ(saved(layer_of(compiled)), 4096 * 55424.0);
  EXPECT_LT(layer_of(compiled).backward.size(), layer_of(eager).backward.size());
}

// Grouped products and the router's are neither counted nor kept.
TEST(Policy, LeavesGroupedProductsOut) {
  job::JobSpec spec = job_of(mixtral(kMixtral8x7b, 8, 2), 8, {1, 8, 4096});
  spec.framework.fusions.qkv = false;
  spec.recompute.granularity = job::Granularity::full;
  spec.recompute.kept.set(static_cast<std::size_t>(Module::core_attention));
  spec.recompute.alternate = true;
  double experts = 0;
  const Lowered l = lowered(spec);
  const ops::Program& p = layer_of(l);
  for (const ops::Op& op : p.backward) {
    const auto* g = std::get_if<ops::Gemm>(&op.work);
    if (g != nullptr && op.pass == ops::Pass::recompute && g->experts) experts += 1;
  }
  EXPECT_EQ(experts, 2);  // in and out, whole
  for (const ops::Tensor& t : p.tensors) {
    EXPECT_FALSE(t.saved && t.name == std::string("kept_products") && t.module == Module::expert_in);
  }
}

// What a reduce-scatter wrote is kept: a t-th of the tokens.
TEST(Policy, KeepsReduceScatters) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 2, {1, 8, 4096});
  spec.parallel.tp = 2;
  spec.parallel.sequence_parallel = true;
  spec.recompute.granularity = job::Granularity::full;
  spec.recompute.kept.set(static_cast<std::size_t>(Module::core_attention));
  spec.recompute.alternate = true;
  const Lowered l = lowered(spec);
  const ops::Program& p = layer_of(l);
  int again = 0;
  for (const ops::Op& op : p.backward) {
    const auto* c = std::get_if<ops::Collective>(&op.work);
    if (c == nullptr || op.pass != ops::Pass::recompute) continue;
    again += c->kind == ops::CollectiveKind::reduce_scatter ? 1 : 0;
  }
  EXPECT_EQ(again, 0);
}

TEST(SecondaryShards, BackwardGathersNearby) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 16, {1, 16, 4096});
  spec.parallel.sharding = parallel::Sharding::zero3;
  spec.parallel.hsdp_group = 4;
  const Lowered l = lowered(spec);
  Axis forward{};
  Axis backward{};
  for (const ops::Op& op : layer_of(l).forward) {
    if (const auto* c = std::get_if<ops::Collective>(&op.work)) forward = c->axis;
  }
  backward = std::get_if<ops::Collective>(&layer_of(l).backward.front().work)->axis;
  EXPECT_EQ(forward, Axis::dp_cp);
  EXPECT_EQ(backward, Axis::hsdp_shard);
  // A sixteenth of the parameters and a quarter of their second copy.
  const memory::StateBytes b = projection::state_rules(l.job).dense;
  EXPECT_DOUBLE_EQ(b.parameter / b.parameter_shards, 2.0 / 16 + 2.0 / 4);
}

}  // namespace
}  // namespace eratos::judges
