// Hand-worked: what the 8-bit recipes change in a lowered layer.
#include <gtest/gtest.h>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

using ops::Module;

job::JobSpec fp8_job(model::Architecture model) {
  job::JobSpec spec = job_of(std::move(model), 1, {1, 1, 4096});
  spec.precision = job::Recipe::fp8_delayed;
  return spec;
}

DType format_of(const ops::Program& p, Module module) {
  for (const ops::Op& op : p.forward) {
    const auto* g = std::get_if<ops::Gemm>(&op.work);
    if (g != nullptr && op.module == module) return g->dtype;
  }
  ADD_FAILURE();
  return DType::fp32;
}

double cast_traffic(const std::vector<ops::Op>& list) {
  double bytes = 0;
  for (const ops::Op& op : list) {
    if (op.module != Module::quantize) continue;
    bytes += std::get_if<ops::Elementwise>(&op.work)->traffic.value;
  }
  return bytes;
}

TEST(Precision, LinearLayersRunNarrowAndTheRestDoesNot) {
  const job::JobSpec spec = fp8_job(mixtral(kMixtral8x7b, 8, 2));
  const Lowered l = lowered(spec);
  const ops::Program& p = layer_of(l);
  for (const Module m : {Module::qkv, Module::attention_out, Module::expert_in, Module::expert_out}) {
    EXPECT_EQ(format_of(p, m), DType::fp8) << ops::name_of(m);
  }
  EXPECT_EQ(format_of(p, Module::router), DType::bf16);
  EXPECT_EQ(format_of(l.program("output"), Module::output_layer), DType::bf16);
  for (const ops::Op& op : p.forward) {
    const auto* a = std::get_if<ops::Attention>(&op.work);
    EXPECT_TRUE(a == nullptr || a->dtype == DType::bf16);
  }
}

// Megatron's fp8_dot_product_attention and fp8_output_proj.
TEST(Precision, AttentionAndTheOutputLayerRunNarrowWhereTheJobSaysSo) {
  job::JobSpec spec = fp8_job(llama(kLlama3_8b));
  spec.narrow.attention = true;
  spec.narrow.output_layer = true;
  const Lowered l = lowered(spec);
  EXPECT_EQ(format_of(l.program("output"), Module::output_layer), DType::fp8);
  int narrow = 0;
  for (const auto* list : {&layer_of(l).forward, &layer_of(l).backward}) {
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto* a = std::get_if<ops::Attention>(&(*list)[i].work);
      if (a == nullptr) continue;
      EXPECT_EQ(a->dtype, DType::fp8);
      EXPECT_EQ((*list)[i - 1].module, Module::quantize);
      ++narrow;
    }
  }
  EXPECT_EQ(narrow, 2);
}

// A token of a Llama layer in 16 bits keeps 8h + 4(q + kv) + 6f + 4H + 8 bytes. In 8 bits the
// operands only products read shrink to a byte: two norm outputs (2h less) and the activation's
// result (f less); attention's result is read by attention again, so a narrow copy stands beside it
// (q more).
TEST(Precision, OperandsOfProductsAreKeptNarrow) {
  job::JobSpec spec = fp8_job(llama(kLlama3_8b));
  const double narrow = saved(layer_of(lowered(spec)));
  spec.precision = job::Recipe::bf16;
  const double wide = saved(layer_of(lowered(spec)));
  EXPECT_EQ(wide - narrow, 4096 * (2 * 4096.0 + 14336 - 4096));
}

// Every operand a product makes narrow costs a cast: 4 bytes an element (read 2, write 1 and 1
// transposed), 6 where the scale is found first.
TEST(Precision, CastsStandBeforeProducts) {
  job::JobSpec spec = fp8_job(llama(kLlama3_8b));
  const auto traffic = [&](const std::vector<ops::Op>& list) {
    double bytes = 0;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (list[i].module != Module::quantize) continue;
      bytes += std::get_if<ops::Elementwise>(&list[i].work)->traffic.value;
      EXPECT_NE(std::get_if<ops::Gemm>(&list[i + 1].work), nullptr);
    }
    return bytes;
  };
  // Forward casts h, q, h, f numbers a token; backward the gradients of out h, 2f, h, q + 2kv.
  const double forward = 4096 * (3 * 4096.0 + 14336);
  const double backward = 4096 * (4096 + 2 * 14336.0 + 4096 + 6144);
  Lowered l = lowered(spec);
  EXPECT_EQ(traffic(layer_of(l).forward), 4 * forward);
  EXPECT_EQ(traffic(layer_of(l).backward), 4 * backward);
  spec.precision = job::Recipe::fp8_current;
  l = lowered(spec);
  EXPECT_EQ(traffic(layer_of(l).forward), 6 * forward);
  EXPECT_EQ(traffic(layer_of(l).backward), 6 * backward);
}

// Both operands' layouts are read by Blackwell's products: one copy of 1 byte, of weights too.
TEST(Precision, OneCopyWhereEitherLayoutIsRead) {
  job::JobSpec spec = fp8_job(llama(kLlama3_8b));
  spec.cluster.accelerator.any_layout_fp8 = true;
  EXPECT_EQ(cast_traffic(layer_of(lowered(spec)).forward), 3 * 4096 * (3 * 4096.0 + 14336));
  spec.precision = job::Recipe::mxfp8;  // a copy along columns has scales of its own
  EXPECT_EQ(cast_traffic(layer_of(lowered(spec)).forward), 4.1875 * 4096 * (3 * 4096.0 + 14336));
}

double norm_traffic(const ops::Program& p) {
  double bytes = 0;
  for (const ops::Op& op : p.forward) {
    const auto* e = std::get_if<ops::Elementwise>(&op.work);
    if (e != nullptr && e->kind == ops::ElementwiseClass::norm_forward) bytes += e->traffic.value;
  }
  return bytes;
}

// Delayed: both norms write h bytes a token in place of 2 h, and what is left of their casts is a
// transpose, 2 h. Current: the norms find the maximum, 4 h in place of 6 h.
TEST(Precision, NormsCastWhereTheyCan) {
  job::JobSpec spec = fp8_job(llama(kLlama3_8b));
  const double before = norm_traffic(layer_of(lowered(spec)));
  spec.framework.fusions.norm_cast = true;
  const double norms = 4096 * 2 * 4096.0;
  const double others = 4096 * (4096.0 + 14336);
  EXPECT_EQ(cast_traffic(layer_of(lowered(spec)).forward), 2 * norms + 4 * others);
  EXPECT_EQ(norm_traffic(layer_of(lowered(spec))), before - norms);
  spec.precision = job::Recipe::fp8_current;
  EXPECT_EQ(cast_traffic(layer_of(lowered(spec)).forward), 4 * norms + 6 * others);
  EXPECT_EQ(norm_traffic(layer_of(lowered(spec))), before);
}

// tp 2, T 4096, h 4096: two gathers forward, two of x again and two of dy backward.
TEST(Precision, GathersOverTensorParallelRanksAreNarrow) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 2, {1, 1, 4096});
  spec.parallel.tp = 2;
  spec.parallel.sequence_parallel = true;
  const auto gathered = [&](job::Recipe recipe) {
    spec.precision = recipe;
    const Lowered l = lowered(spec);
    double bytes = 0;
    for (const auto* list : {&layer_of(l).forward, &layer_of(l).backward}) {
      for (const ops::Op& op : *list) {
        const auto* c = std::get_if<ops::Collective>(&op.work);
        if (c != nullptr && c->kind == ops::CollectiveKind::all_gather) bytes += c->bytes.value;
      }
    }
    return bytes;
  };
  const double one = 4096 * 4096.0;
  EXPECT_EQ(gathered(job::Recipe::bf16), 6 * 2 * one);
  EXPECT_EQ(gathered(job::Recipe::fp8_delayed), 6 * one);
  EXPECT_EQ(gathered(job::Recipe::mxfp8), (2 + 2 + 2 * 2) * (1 + 1.0 / 32) * one);
  EXPECT_EQ(gathered(job::Recipe::nvfp4), (2 + 2 + 2 * 2) * (0.5 + 1.0 / 16) * one);
}

// Each rank casts its own half of x and dy along rows, 3 bytes, and transposes the whole, 2 bytes,
// for the weight gradient; what is cut anyway costs 4 as ever.
TEST(Precision, RanksCastTheirOwnTokens) {
  job::JobSpec spec = job_of(llama(kLlama3_8b), 2, {1, 1, 4096});
  spec.parallel.tp = 2;
  spec.parallel.sequence_parallel = true;
  spec.precision = job::Recipe::fp8_delayed;
  const Lowered l = lowered(spec);
  const double shard = 2048 * 4096.0;
  const double whole = 2 * shard;
  EXPECT_EQ(cast_traffic(layer_of(l).forward), 2 * 3 * shard + 4 * 4096 * (2048 + 7168.0));
  EXPECT_EQ(cast_traffic(layer_of(l).backward),
            2 * 3 * shard + 4 * 2 * whole + 4 * 4096 * (3072 + 14336.0));
}

// A rank's 8 experts: one cast after another, or, with all launches in graphs, one for all, and none
// where the grouped product before it writes narrow copies of a gated activation.
TEST(Precision, ExpertsAreCastOneByOneOrAsAnEpilogue) {
  job::JobSpec spec = fp8_job(mixtral(kMixtral8x7b, 8, 2));
  spec.precision = job::Recipe::mxfp8;
  spec.framework.fusions.grouped_cast = false;
  const auto launches = [&] {
    double all = 0;
    const Lowered l = lowered(spec);
    for (const ops::Op& op : layer_of(l).forward) {
      const auto* e = std::get_if<ops::Elementwise>(&op.work);
      if (e != nullptr && op.module == Module::quantize) all += op.kernels;
    }
    return all;
  };
  // Two casts for attention, two for 8 experts, 3 kernels each.
  EXPECT_EQ(launches(), 3 * (2 + 2 * 8));
  spec.framework.fusions.grouped_cast = true;
  EXPECT_EQ(launches(), 3 * (2 + 2));
  spec.framework.fusions.expert_epilogue = true;
  EXPECT_EQ(launches(), 3 * (2 + 2));
  spec.graph_share = 1;
  EXPECT_EQ(launches(), 3 * (2 + 1));
}

TEST(Precision, FullPrecisionTakesFourBytes) {
  job::JobSpec spec = fp8_job(llama(kLlama3_8b));
  spec.precision = job::Recipe::bf16;
  const double half = saved(layer_of(lowered(spec)));
  spec.precision = job::Recipe::fp32;
  // Twice the bytes, but for statistics (8) and log-sum-exp (4 * 32), which are fp32 anyway.
  EXPECT_EQ(saved(layer_of(lowered(spec))), 2 * half - 4096 * (8 + 4 * 32.0));
}

}  // namespace
}  // namespace eratos::judges
