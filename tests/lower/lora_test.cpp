// Hand-worked: frozen linears with adapters, packed sequences.
#include <gtest/gtest.h>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

using ops::Module;

job::JobSpec lora_job(std::initializer_list<Module> targets, int rank = 16) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 1, {1, 1, 4096});
  spec.lora.rank = rank;
  for (const Module m : targets) spec.lora.targets.set(static_cast<std::size_t>(m));
  return spec;
}

double flops(const ops::Program& p, ops::Pass pass, bool adapters) {
  double total = 0;
  for (const auto* list : {&p.forward, &p.backward}) {
    for (const ops::Op& op : *list) {
      const bool counted = std::holds_alternative<ops::Gemm>(op.work) && op.pass == pass;
      if (counted && (op.module == Module::adapter) == adapters) total += op.flops().value;
    }
  }
  return total;
}

double trained(const ops::Program& p) {
  double total = 0;
  for (const ops::Parameter& q : p.parameters) total += q.frozen ? 0 : q.elements;
  return total;
}

TEST(Lora, OnlyAdaptersAreTrained) {
  const job::JobSpec spec = lora_job({Module::qkv, Module::attention_out});
  const Lowered l = lowered(spec);
  // qkv: A 16 x 4096, B 6144 x 16; out: A 16 x 4096, B 4096 x 16.
  EXPECT_EQ(trained(layer_of(l)), 16 * (4096.0 + 6144) + 16 * (4096.0 + 4096));
  EXPECT_EQ(trained(l.program("embedding")), 0);
  EXPECT_EQ(trained(l.program("output")), 0);
}

TEST(Lora, NoWeightGradientButTheAdapters) {
  const job::JobSpec spec = lora_job({Module::qkv, Module::attention_out});
  const Lowered l = lowered(spec);
  const ops::Program& p = layer_of(l);
  const double weights = 16 * (4096.0 + 6144) + 16 * (4096.0 + 4096);
  EXPECT_EQ(flops(p, ops::Pass::wgrad, false), 0);
  EXPECT_EQ(flops(p, ops::Pass::forward, true), 2 * 4096 * weights);
  EXPECT_EQ(flops(p, ops::Pass::dgrad, true), 2 * 4096 * weights);
  EXPECT_EQ(flops(p, ops::Pass::wgrad, true), 2 * 4096 * weights);
  // What flows back through the frozen weights is as without adapters.
  job::JobSpec whole = spec;
  whole.lora = {};
  EXPECT_EQ(flops(p, ops::Pass::dgrad, false),
            flops(layer_of(lowered(whole)), ops::Pass::dgrad, false));
}

// Full training keeps 8h + 4(q + kv) + 6f + 4H + 8 bytes a token. Frozen, the second norm's result
// (2h) and the activation's (2f) wait for no weight gradient; the adapter of qkv keeps A x, 2r.
TEST(Lora, KeepsWhatDataGradientsNeed) {
  job::JobSpec spec = lora_job({Module::qkv});
  const double ours = saved(layer_of(lowered(spec)));
  spec.lora = {};
  const double whole = saved(layer_of(lowered(spec)));
  EXPECT_EQ(whole - ours, 4096 * (2 * 4096.0 + 2 * 14336.0 - 2 * 16));
}

TEST(Lora, DropoutKeepsItsMaskAndWhatItLeaves) {
  job::JobSpec spec = lora_job({Module::qkv});
  const double plain = saved(layer_of(lowered(spec)));
  spec.lora.dropout = 0.1;
  // The mask (1 B) and the input it leaves (2 B) instead of the norm's result (2 B).
  EXPECT_EQ(saved(layer_of(lowered(spec))) - plain, 4096 * 4096.0);
}

TEST(Lora, TensorParallelCutsTheAdapters) {
  job::JobSpec spec = lora_job({Module::qkv, Module::attention_out});
  spec.cluster = cluster_of(2);
  spec.parallel.tp = 2;
  spec.parallel.sequence_parallel = true;
  const Lowered l = lowered(spec);
  const ops::Program& p = layer_of(l);
  EXPECT_EQ(trained(p), (16 * (4096.0 + 6144) + 16 * (4096.0 + 4096)) / 2);
  int exchanges = 0;
  for (const ops::Op& op : p.forward) {
    const auto* c = std::get_if<ops::Collective>(&op.work);
    if (c != nullptr && op.module == Module::adapter) ++exchanges;
  }
  EXPECT_EQ(exchanges, 3);  // by columns: A x gathered; by rows: A x reduced, B's columns gathered
  for (const ops::Op& op : p.backward) {
    const auto* c = std::get_if<ops::Collective>(&op.work);
    // The MLP's input is not gathered again: nothing reads it.
    EXPECT_FALSE(c != nullptr && c->kind == ops::CollectiveKind::all_gather &&
                 op.module == Module::mlp_in);
  }
}

TEST(Lora, ExpertsHaveAdaptersEach) {
  job::JobSpec spec = job_of(mixtral(kMixtral8x7b, 8, 2), 1, {1, 1, 4096});
  spec.lora.rank = 8;
  spec.lora.targets.set(static_cast<std::size_t>(Module::expert_in));
  const Lowered l = lowered(spec);
  EXPECT_EQ(trained(layer_of(l)), 8 * (8 * 4096.0 + 2 * 14336 * 8.0));
  EXPECT_EQ(flops(layer_of(l), ops::Pass::forward, true),
            2 * (2 * 4096.0) * 8 * (4096 + 2 * 14336.0));
}

TEST(Lora, FaultsAreNamed) {
  job::CheckedJob out;
  job::JobSpec spec = lora_job({Module::qkv});
  spec.lora.targets.reset();
  EXPECT_EQ(job::check(spec, out).front().field, "lora.modules");
  spec.lora.targets.set(static_cast<std::size_t>(Module::norm));
  EXPECT_EQ(job::check(spec, out).front().field, "lora.modules");
  spec = lora_job({Module::qkv}, 3);
  spec.cluster = cluster_of(2);
  spec.parallel.tp = 2;
  EXPECT_EQ(job::check(spec, out).front().field, "lora.rank");
  spec = lora_job({Module::qkv});
  spec.batch.packed_length = 5000;
  EXPECT_EQ(job::check(spec, out).front().field, "batch.packed_length");
}

TEST(Packing, QueriesSeeTheirOwnPart) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 1, {1, 1, 4096});
  const auto attention = [](const Lowered& l) {
    double total = 0;
    for (const auto* list : {&layer_of(l).forward, &layer_of(l).backward}) {
      for (const ops::Op& op : *list) {
        if (std::holds_alternative<ops::Attention>(op.work)) total += op.flops().value;
      }
    }
    return total;
  };
  const double whole = attention(lowered(spec));
  spec.batch.packed_length = 256;
  EXPECT_DOUBLE_EQ(attention(lowered(spec)), whole * 256 / 4096);
}

}  // namespace
}  // namespace eratos::judges
