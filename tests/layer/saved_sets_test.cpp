// Hand-worked: bytes a token that one layer keeps, as the framework's fusions and saved sets change
// one at a time.
#include <gtest/gtest.h>

#include <functional>
#include <string_view>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

// h 512, 8 heads and 2 key-value heads of 64, ffn 1536; 1024 tokens.
constexpr double kTokens = 1024, kHidden = 512, kQ = 512, kKv = 128, kFfn = 1536, kHeads = 8;
const Sizes kSmall{1, kHidden, 8, 2, 64, kFfn, 1000};

using Change = std::function<void(job::JobSpec&)>;

double token_bytes(model::Architecture model, const Change& change) {
  job::JobSpec spec = job_of(std::move(model), 1, {1, 1, static_cast<int>(kTokens)});
  change(spec);
  return saved(layer_of(lowered(spec))) / kTokens;
}

double llama_bytes(const Change& change) { return token_bytes(llama(kSmall), change); }

const Change kNothing = [](job::JobSpec&) {};

// What a fused dense layer keeps a token in 16 bits.
constexpr double kFused = 8 * kHidden + 4 * kQ + 4 * kKv + 4 * kHeads + 6 * kFfn + 2 * 4;

TEST(SavedSets, FusedDenseLayer) { EXPECT_EQ(llama_bytes(kNothing), kFused); }

TEST(SavedSets, EagerNorms) {
  // The stream itself is not kept but its fp32 copy, and the normalised rows before the weight.
  const Change eager = [](job::JobSpec& s) { s.framework.fusions.norm = false; };
  EXPECT_EQ(llama_bytes(eager), kFused + 2 * (4 + 2 - 2) * kHidden);
  EXPECT_EQ(llama_bytes([&](job::JobSpec& s) {
              eager(s);
              s.framework.saved.eager_norm_square = true;
            }),
            kFused + 2 * (4 + 2 - 2 + 4) * kHidden);
}

TEST(SavedSets, EagerGatedActivation) {
  // gate, up, silu(gate) and the product instead of gate-and-up and the product.
  EXPECT_EQ(llama_bytes([](job::JobSpec& s) { s.framework.fusions.activation = false; }),
            kFused + 2 * kFfn);
}

TEST(SavedSets, LaunchCountsDoNotChangeWhatIsKept) {
  EXPECT_EQ(llama_bytes([](job::JobSpec& s) {
              s.framework.fusions.qkv = false;
              s.framework.fusions.gate_up = false;
              s.framework.fusions.rotary = false;
              s.framework.fusions.residual = false;
            }),
            kFused);
}

// The value is a view of the joined Q, K and V, which stays whole: two more widths beside the rotated
// Q and K. Grouped queries are copied apart.
TEST(SavedSets, AValueThatIsAView) {
  const Change view = [](job::JobSpec& s) { s.framework.saved.value_in_joined_qkv = true; };
  EXPECT_EQ(llama_bytes(view), kFused);
  const Sizes multi_head{1, kHidden, 8, 8, 64, kFfn, 1000};
  EXPECT_EQ(token_bytes(llama(multi_head), view),
            8 * kHidden + 8 * kQ + 4 * kHeads + 6 * kFfn + 2 * 4 + 2 * (kQ + kQ));
}

TEST(SavedSets, Dropout) {
  // Two masks of a byte a number of the stream; flash attention keeps none.
  EXPECT_EQ(llama_bytes([](job::JobSpec& s) {
              s.hidden_dropout = 0.1;
              s.attention_dropout = 0.1;
            }),
            kFused + 2 * kHidden);
}

TEST(SavedSets, UnfusedAttentionKeepsProbabilitiesAndRepeatedHeads) {
  const double s2 = kHeads * kTokens;  // scores a token
  EXPECT_EQ(llama_bytes([](job::JobSpec& s) { s.attention = layer::AttentionKernel::unfused; }),
            kFused - 4 * kHeads - 4 * kKv + 4 * kQ + 2 * s2);
  EXPECT_EQ(llama_bytes([](job::JobSpec& s) {
              s.attention = layer::AttentionKernel::unfused;
              s.framework.fusions.softmax = false;
            }),
            kFused - 4 * kHeads - 4 * kKv + 4 * kQ + (4 + 2) * s2);
}

TEST(SavedSets, QueryKeyNorms) {
  // Inputs of the two norms, and a statistic a head and token.
  model::Architecture a = llama(kSmall);
  std::get<layer::AttentionSpec>(a.blocks[0].mixer).qk_norm = true;
  EXPECT_EQ(token_bytes(a, kNothing), kFused + 2 * (kQ + kKv) + 4 * (8 + 2));
  std::get<layer::AttentionSpec>(a.blocks[0].mixer).qk_norm = false;
  std::get<layer::AttentionSpec>(a.blocks[0].mixer).qk_norm_full = true;
  EXPECT_EQ(token_bytes(a, kNothing), kFused + 2 * (kQ + kKv) + 4 * 2);
}

TEST(SavedSets, ParallelBranchesShareOneNorm) {
  model::Architecture a = llama(kSmall);
  a.blocks[0].parallel = true;
  EXPECT_EQ(token_bytes(a, kNothing), kFused - 4 * kHidden - 4);
}

// 8 experts, 2 a token, width 1536. Beside the attention half: norm in and out 4h and its
// statistic, router 4E fp32 probabilities, gathered rows 2kh, gate-and-up 4k f, product 2k f, and
// for each of the k rows: fused, a weight of 4 and a place of 4; eager, index 8 and value 4 of
// top-k, the sum of the values (4 a token), a weight of 2 and two places of 8.
constexpr double kAttentionHalf = 4 * kHidden + 4 + 4 * kQ + 4 * kKv + 4 * kHeads;
constexpr double kExperts = 8, kTop = 2;
constexpr double kMoe =
    kAttentionHalf + 4 * kHidden + 4 + 4 * kExperts + 2 * kTop * kHidden + 6 * kTop * kFfn;
constexpr double kEagerRouter = kTop * (8 + 4 + 2 + 16) + 4;

double moe_bytes(const Change& change) { return token_bytes(mixtral(kSmall, 8, 2), change); }

TEST(SavedSets, Experts) {
  EXPECT_EQ(moe_bytes(kNothing), kMoe + kEagerRouter);
  EXPECT_EQ(moe_bytes([](job::JobSpec& s) { s.framework.fusions.router = true; }),
            kMoe + kTop * (4 + 4));
}

TEST(SavedSets, RouterWeightsBehindTheExperts) {
  const Change last = [](job::JobSpec& s) { s.framework.saved.moe_probs_in_activation = false; };
  // Expert outputs before scaling; and, where adding rows back is an operator of its own, after it.
  EXPECT_EQ(moe_bytes(last), kMoe + kEagerRouter + 2 * 2 * kTop * kHidden);
  EXPECT_EQ(moe_bytes([&](job::JobSpec& s) {
              last(s);
              s.framework.fusions.permute = true;
            }),
            kMoe + kEagerRouter + 2 * kTop * kHidden);
}

TEST(SavedSets, SharedExperts) {
  model::Architecture a = mixtral(kSmall, 8, 2);
  auto& moe = std::get<layer::MoeSpec>(a.blocks[0].feed_forward);
  moe.shared_ffn = 3072;
  EXPECT_EQ(token_bytes(a, kNothing), kMoe + kEagerRouter + 6 * 3072);
  moe.shared_gate = true;  // its row before the gate, and the gate
  EXPECT_EQ(token_bytes(a, kNothing), kMoe + kEagerRouter + 6 * 3072 + 2 * kHidden + 2);
}

TEST(SavedSets, ExpertsOverRanksKeepTheSame) {
  job::JobSpec spec = job_of(mixtral(kSmall, 8, 2), 4, {1, 4, 1024});
  for (const int ep : {2, 4}) {
    spec.parallel.ep = ep;
    EXPECT_EQ(saved(layer_of(lowered(spec))) / kTokens, kMoe + kEagerRouter);
  }
}

// Head: norm in and out 4h and its statistic; Megatron's unfused loss: logits in 16 bits and one
// fp32 buffer a logit that the gradient overwrites.
TEST(SavedSets, Heads) {
  job::JobSpec spec = job_of(llama(kSmall), 1, {1, 1, 1024});
  spec.loss_fused = false;
  const double norm = 4 * kHidden + 4;
  EXPECT_EQ(saved(lowered(spec).program("output")) / kTokens, norm + 6 * 1000);
  spec.loss_fused = true;
  EXPECT_EQ(saved(lowered(spec).program("output")) / kTokens, norm + 4 * 1000);
  spec.framework.loss.keeps_logits = false;
  EXPECT_EQ(saved(lowered(spec).program("output")) / kTokens, norm + 2 * 1000);
  // A gradient of its own: fp32 log-probabilities are kept until then.
  spec.framework.loss.gradient_in_place = false;
  EXPECT_EQ(saved(lowered(spec).program("output")) / kTokens, norm + 4 * 1000);
}

// Over two ranks the fp32 log-probabilities are of half the vocabulary, or of all of it where each
// rank gathers the logits.
TEST(SavedSets, GatheredLogits) {
  job::JobSpec spec = job_of(llama(kSmall), 2, {1, 1, 1024});
  spec.parallel.tp = 2;
  spec.loss_fused = false;
  spec.framework.loss.keeps_logits = false;
  spec.framework.loss.gradient_in_place = false;
  const double norm = 4 * kHidden + 4;
  EXPECT_EQ(saved(lowered(spec).program("output")) / kTokens, norm + 4 * 500);
  spec.framework.loss.gathers_logits = true;
  EXPECT_EQ(saved(lowered(spec).program("output")) / kTokens, norm + 4 * 1000);
  spec.parallel.tp = 1;
  spec.batch.global = 2;
  EXPECT_EQ(saved(lowered(spec).program("output")) / kTokens, norm + 4 * 1000);
}

// Bytes of the loss's working set a token.
double working_set(const job::JobSpec& spec) {
  const Lowered l = lowered(spec);
  for (const ops::Tensor& t : l.program("output").tensors) {
    if (t.name == std::string_view("loss_working_set")) return t.bytes().value / kTokens;
  }
  return 0;
}

// torch's loss, 14 bytes a logit: log-probabilities 4, logits and their gradient 2 each, 6 while
// backward runs. Written out over two ranks, a buffer of fp32 more of each one's half; not where the
// logits are gathered, nor fused.
TEST(SavedSets, ParallelLossWrittenOut) {
  job::JobSpec spec = job_of(llama(kSmall), 2, {1, 2, 1024});
  spec.loss_fused = false;
  spec.framework.loss.keeps_logits = true;
  spec.framework.loss.gradient_in_place = false;
  spec.framework.loss.unfused_bytes_per_logit = 14;
  EXPECT_EQ(working_set(spec), 6 * 1000);
  spec.parallel.tp = 2;
  spec.batch.global = 1;
  EXPECT_EQ(working_set(spec), (6 + 4) * 500);
  spec.framework.loss.gathers_logits = true;
  EXPECT_EQ(working_set(spec), 6 * 1000);
  spec.framework.loss.gathers_logits = false;
  spec.loss_fused = true;
  spec.framework.loss.fused_bytes_per_logit = 14;
  EXPECT_EQ(working_set(spec), 6 * 500);
}

// In pieces the logits that exist are as many as the hidden states; the weight's gradient, h V of 16
// bits, waits for backward, unless it is frozen.
TEST(SavedSets, LogitsInPieces) {
  model::Architecture a = llama(kSmall);
  a.vocab = 4 * kHidden;
  job::JobSpec spec = job_of(a, 1, {1, 1, 1024});
  spec.loss_fused = true;
  spec.framework.loss.fused_bytes_per_logit = 2;
  const double norm = 4 * kHidden + 4;
  EXPECT_EQ(saved(lowered(spec).program("output")) / kTokens, norm + 2 * 4 * kHidden);
  spec.framework.loss.fused_in_pieces = true;
  const double weight = 2 * kHidden * 4 * kHidden;
  EXPECT_EQ(saved(lowered(spec).program("output")), (norm + 2 * kHidden) * kTokens + weight);
  spec.lora.rank = 8;
  spec.lora.targets.set(static_cast<std::size_t>(ops::Module::qkv));
  EXPECT_LT(saved(lowered(spec).program("output")), (norm + 2 * kHidden) * kTokens + weight / 2);
}

TEST(SavedSets, EmbeddingsKeepTheirIdsAndMask) {
  job::JobSpec spec = job_of(llama(kSmall), 1, {1, 1, 1024});
  EXPECT_EQ(saved(lowered(spec).program("embedding")) / kTokens, 8);
  spec.hidden_dropout = 0.1;
  EXPECT_EQ(saved(lowered(spec).program("embedding")) / kTokens, 8 + kHidden);
}

}  // namespace
}  // namespace eratos::judges
