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
