// Judge: matrix FLOPs of a whole step from the sizes of the architecture alone, against the sum
// over the ops of the lowered job.
//
// Letters: s sequence, B sequences a step, h hidden, H heads, d head size, N matrix weights that
// one token meets (embedding look-up not counted, output layer counted), L layers.
// Closed forms: products 2N forward and 4N backward a token (6ND, arXiv 2001.08361 section 2.1);
// attention 2 * pairs * (d + d_v) a head forward, where a causal kernel visits half of the s*s
// pairs; backward twice that when scores are kept, 2.5 times in a fused kernel, which makes them
// again (arXiv 2307.08691 section 4.1). GPT in one line: 72 B L s h^2 (1 + s/6h + V/12hL)
// (arXiv 2104.04473, equation 3).
#include <gtest/gtest.h>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

constexpr double kBackwardOfKept = 2.0;
constexpr double kBackwardOfFused = 2.5;

double model_flops(const job::JobSpec& spec) {
  return step_flops(lowered(spec), is_model_work);
}

double recomputed_flops(const job::JobSpec& spec) {
  return step_flops(lowered(spec), [](const ops::Op& op) { return !is_model_work(op); });
}

// Forward FLOPs of causal fused attention of all layers: half the pairs.
double causal_attention(double layers, double sequences, double s, double heads, double d_plus_dv) {
  return layers * sequences * heads * (s * s / 2) * 2 * d_plus_dv;
}

void expect_flops(double found, double closed) { EXPECT_NEAR(found / closed, 1.0, 1e-13); }

TEST(Flops, GptInOneLine) {
  // Unfused attention computes the whole square, as the formula counts it.
  const double h = 12288, s = 2048, layers = 96, vocab = 51200, batch = 8;
  Sizes n{96, h, 96, 96, 128, 4 * h, vocab};
  job::JobSpec spec = job_of(gpt(n, s), 1, {2, static_cast<int>(batch), static_cast<int>(s)});
  spec.attention = layer::AttentionKernel::unfused;
  const double closed =
      72 * batch * layers * s * h * h * (1 + s / (6 * h) + vocab / (12 * h * layers));
  expect_flops(model_flops(spec), closed);
  EXPECT_EQ(recomputed_flops(spec), 0);

  // Selective recomputation repeats two products of 2 B s^2 h a layer (2205.05198, appendix A).
  spec.recompute.granularity = job::Granularity::selective;
  expect_flops(model_flops(spec), closed);
  expect_flops(recomputed_flops(spec), layers * 4 * batch * s * s * h);

  // Full recomputation repeats a layer's whole forward, 24 B s h^2 (1 + s/6h).
  spec.recompute.granularity = job::Granularity::full;
  expect_flops(model_flops(spec), closed);
  expect_flops(recomputed_flops(spec), layers * 24 * batch * s * h * h * (1 + s / (6 * h)));

  // The first 5 layers of the one stage only.
  spec.recompute.method = job::RecomputeMethod::block;
  spec.recompute.layers = 5;
  expect_flops(recomputed_flops(spec), 5 * 24 * batch * s * h * h * (1 + s / (6 * h)));

  // Two layers by number.
  spec.recompute.layer_ids = {3, 95};
  expect_flops(recomputed_flops(spec), 2 * 24 * batch * s * h * h * (1 + s / (6 * h)));
}

TEST(Flops, LlamaWithGroupedQueries) {
  const double batch = 4, s = 8192;
  const double tokens = batch * s;
  job::JobSpec spec = job_of(llama(kLlama3_8b), 1, {1, 4, 8192});
  // 8,030,261,248 weights less the embedding table and 65 norms of 4096.
  const double met = 8030261248.0 - 128256.0 * 4096 - 65 * 4096.0;
  const double attention = causal_attention(32, batch, s, 32, 256);
  expect_flops(model_flops(spec), 6 * met * tokens + attention * (1 + kBackwardOfFused));

  spec.attention = layer::AttentionKernel::unfused;
  expect_flops(model_flops(spec), 6 * met * tokens + 2 * attention * (1 + kBackwardOfKept));

  spec.attention = layer::AttentionKernel::flash;
  spec.recompute.granularity = job::Granularity::full;
  const double layers = met - 128256.0 * 4096;
  expect_flops(recomputed_flops(spec), 2 * layers * tokens + attention);
  spec.recompute.granularity = job::Granularity::selective;
  expect_flops(recomputed_flops(spec), attention);
}

TEST(Flops, MixtralCountsOnlyVisitedExperts) {
  const double batch = 2, s = 4096;
  const double tokens = batch * s;
  job::JobSpec spec = job_of(mixtral(kMixtral8x7b, 8, 2), 8, {1, 8, 4096});
  spec.batch.global = 8;
  spec.parallel.ep = 8;
  // Active weights (of the published 12,879,925,248) less the table and the norms.
  const double met = 12879925248.0 - 32000.0 * 4096 - 65 * 4096.0;
  const double attention = causal_attention(32, batch, s, 32, 256);
  expect_flops(model_flops(spec), 4 * (6 * met * tokens + attention * (1 + kBackwardOfFused)));

  spec.recompute.granularity = job::Granularity::full;
  expect_flops(recomputed_flops(spec), 4 * (2 * (met - 32000.0 * 4096) * tokens + attention));
}

TEST(Flops, LatentAttentionAndSharedExperts) {
  const double batch = 4, s = 4096;
  const double tokens = batch * s;
  job::JobSpec spec = job_of(deepseek_v2_lite(), 4, {1, 4, 4096});
  spec.parallel.ep = 4;
  // DeepSeek-V2-Lite: 2,661,150,208 active, less the table, 27 * (2 * 2048 + 512) + 2048 of norms.
  const double met = 2661150208.0 - 102400.0 * 2048 - (27 * (2 * 2048.0 + 512) + 2048);
  // Scores over 192 numbers, values of 128.
  const double attention = causal_attention(27, batch, s, 16, 192 + 128);
  expect_flops(model_flops(spec), 6 * met * tokens + attention * (1 + kBackwardOfFused));

  spec.recompute.granularity = job::Granularity::selective;
  spec.recompute.modules.set(static_cast<std::size_t>(ops::Module::mla_up));
  // q up stands in the query projection (no query latent); keys and values are made again.
  expect_flops(recomputed_flops(spec), 2 * 27 * 512.0 * 16 * 256 * tokens);
}

TEST(Flops, PredictionModuleMeetsABlockAJoinAndTheHead) {
  const double batch = 2, s = 1024;
  model::Architecture a = deepseek_v3(1, 2);
  job::JobSpec spec = job_of(a, 1, {1, 2, 1024});
  const double without = model_flops(spec);
  spec.model.mtp_layers = 1;
  const double h = 7168;
  const double mla = h * 1536 + 1536 * 128.0 * 192 + h * 576 + 512 * 128.0 * 256 + 128 * 128 * h;
  const double moe = h * 256 + 9 * 3 * h * 2048;
  const double met = 2 * h * h + mla + moe + 129280 * h;
  const double attention = causal_attention(1, batch, s, 128, 192 + 128);
  expect_flops(model_flops(spec) - without,
               6 * met * batch * s + attention * (1 + kBackwardOfFused));
  // `uniform` repeats the module but not its head.
  const double plain = recomputed_flops(spec);
  EXPECT_EQ(plain, 0);
  spec.recompute.granularity = job::Granularity::full;
  const double module = 2 * (met - 129280 * h) * batch * s + attention;
  spec.model.mtp_layers = 0;
  const double layers = recomputed_flops(spec);
  spec.model.mtp_layers = 1;
  expect_flops(recomputed_flops(spec) - layers, module);
}

}  // namespace
}  // namespace eratos::judges
