// Judge: activation memory of arXiv 2205.05198 (Korthikanti et al., "Reducing Activation
// Recomputation in Large Transformer Models"), equations 1 to 6 and table 2, against saved bytes.
//
// Letters: s sequence, b micro-batch, h hidden, a heads, t tensor-parallel size. The layer is the
// paper's: GPT with 4h feed-forward, 16 bits, dropout 0.1 behind attention, projection and MLP,
// unfused attention. The paper leaves out the norms' statistics (its section 4.1: "2sb ... can be
// neglected"); they are two fp32 numbers a token and norm, added here.
#include <gtest/gtest.h>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

struct Case {
  double s, b, h, a;
};

// Two of the paper's own models (table 3: 22B and 175B) and one where nothing is a power of two.
constexpr Case kCases[] = {{2048, 4, 6144, 64}, {2048, 1, 12288, 96}, {96, 3, 480, 12}};
constexpr int kDegrees[] = {1, 2, 4};

job::JobSpec paper_job(const Case& c, int t, bool sequence_parallel) {
  Sizes n;
  n.hidden = c.h;
  n.heads = static_cast<int>(c.a);
  n.kv_heads = n.heads;
  n.head_dim = static_cast<int>(c.h / c.a);
  n.ffn = 4 * c.h;
  n.vocab = 51200;
  const job::BatchSpec batch{static_cast<int>(c.b), static_cast<int>(c.b), static_cast<int>(c.s)};
  job::JobSpec spec = job_of(gpt(n, c.s), t, batch);
  spec.parallel.tp = t;
  spec.parallel.sequence_parallel = sequence_parallel;
  spec.attention = layer::AttentionKernel::unfused;
  spec.hidden_dropout = 0.1;
  spec.attention_dropout = 0.1;
  return spec;
}

double layer_bytes(const job::JobSpec& spec) {
  const Lowered l = lowered(spec);
  return saved(layer_of(l));
}

double statistics(const Case& c, double ranks) { return 2 * 2 * 4 * c.s * c.b / ranks; }

TEST(ActivationFormula, OneRank) {
  for (const Case& c : kCases) {
    const double paper = c.s * c.b * c.h * (34 + 5 * c.a * c.s / c.h);
    EXPECT_DOUBLE_EQ(layer_bytes(paper_job(c, 1, false)), paper + statistics(c, 1));
  }
}

TEST(ActivationFormula, TensorParallel) {
  for (const Case& c : kCases) {
    for (const int t : kDegrees) {
      const double paper = c.s * c.b * c.h * (10 + 24.0 / t + 5 * c.a * c.s / (c.h * t));
      EXPECT_DOUBLE_EQ(layer_bytes(paper_job(c, t, false)), paper + statistics(c, 1));
    }
  }
}

TEST(ActivationFormula, TensorAndSequenceParallel) {
  for (const Case& c : kCases) {
    for (const int t : kDegrees) {
      const double paper = c.s * c.b * c.h / t * (34 + 5 * c.a * c.s / c.h);
      EXPECT_DOUBLE_EQ(layer_bytes(paper_job(c, t, true)), paper + statistics(c, t));
    }
  }
}

TEST(ActivationFormula, SelectiveRecomputationDropsTheQuadraticTerm) {
  for (const Case& c : kCases) {
    for (const int t : kDegrees) {
      job::JobSpec spec = paper_job(c, t, true);
      spec.recompute.granularity =
          job::Granularity::selective;  // of the attention core, by default
      EXPECT_DOUBLE_EQ(layer_bytes(spec), 34 * c.s * c.b * c.h / t + statistics(c, t));
      spec.parallel.sequence_parallel = false;
      EXPECT_DOUBLE_EQ(layer_bytes(spec), c.s * c.b * c.h * (10 + 24.0 / t) + statistics(c, 1));
    }
  }
}

TEST(ActivationFormula, FullRecomputationKeepsTheInput) {
  for (const Case& c : kCases) {
    for (const int t : kDegrees) {
      job::JobSpec spec = paper_job(c, t, false);
      spec.recompute.granularity = job::Granularity::full;
      EXPECT_DOUBLE_EQ(layer_bytes(spec), 2 * c.s * c.b * c.h);
      // Under sequence parallelism the input itself is a shard.
      spec.parallel.sequence_parallel = true;
      EXPECT_DOUBLE_EQ(layer_bytes(spec), 2 * c.s * c.b * c.h / t);
    }
  }
}

TEST(ActivationFormula, PublishedTotalOf22B) {
  // 22B on 8 GPUs (table 3: t 8, b 4, h 6144, a 64): 34 + 5as/h = 140.67; with tp and sp a layer
  // takes sbh/t * 140.67 = 884,998,144 bytes = 844 MiB.
  const double bytes = layer_bytes(paper_job(kCases[0], 8, true)) - statistics(kCases[0], 8);
  EXPECT_NEAR(bytes, 885.0e6, 0.1e6);
}

}  // namespace
}  // namespace eratos::judges
