// Hand-worked: what kinds of attention, norms and caps add to a layer's saved bytes, parameters and
// FLOPs, one at a time.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <variant>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

// h 512, 8 heads and 2 key-value heads of 64, ffn 1536; 1024 tokens, 16 bits.
constexpr double kTokens = 1024, kHidden = 512, kQ = 512, kKv = 128, kHeads = 8, kVocab = 1000;
const Sizes kSmall{1, kHidden, 8, 2, 64, 1536, kVocab};

using Change = std::function<void(model::Architecture&)>;

struct Layer {
  double saved = 0;
  double parameters = 0;
  double attention_flops = 0;
  double counted = 0;  // of the whole model, by the architecture
};

Layer layer_with(const Change& change, const std::function<void(job::JobSpec&)>& tune = {}) {
  model::Architecture a = llama(kSmall);
  change(a);
  Layer out;
  out.counted = model::count_parameters(a).total;
  job::JobSpec spec = job_of(std::move(a), 1, {1, 1, static_cast<int>(kTokens)});
  if (tune) tune(spec);
  const Lowered l = lowered(spec);
  const ops::Program& p = layer_of(l);
  out.saved = saved(p) / kTokens;
  out.parameters = ops::parameter_elements(p);
  for (const ops::Op& op : p.forward) {
    if (std::holds_alternative<ops::Attention>(op.work)) out.attention_flops += op.flops().value;
  }
  return out;
}

layer::AttentionSpec& attention(model::Architecture& a) {
  return std::get<layer::AttentionSpec>(a.blocks[0].mixer);
}

const Layer& plain() {
  static const Layer kPlain = layer_with([](model::Architecture&) {});
  return kPlain;
}

// The program holds what the architecture counts, whatever the kind.
void expect_parameters(const Layer& layer, double more) {
  EXPECT_EQ(layer.parameters - plain().parameters, more);
  EXPECT_EQ(layer.counted - plain().counted, more);
}

TEST(AttentionKinds, AWindowChangesPairsAndNothingElse) {
  const Layer w = layer_with([](model::Architecture& a) { attention(a).window = 128; });
  EXPECT_EQ(w.saved, plain().saved);
  expect_parameters(w, 0);
  // 128 - 128 * 127 / 2048 of 512 keys.
  EXPECT_DOUBLE_EQ(w.attention_flops / plain().attention_flops, (128 - 128 * 127 / 2048.0) / 512);
}

TEST(AttentionKinds, AChunkIsASequenceOfItsLength) {
  const Layer c = layer_with([](model::Architecture& a) { attention(a).chunk = 256; });
  EXPECT_DOUBLE_EQ(c.attention_flops / plain().attention_flops, 0.25);
  EXPECT_EQ(layer_with([](model::Architecture& a) { attention(a).chunk = 8192; }).attention_flops,
            plain().attention_flops);
}

TEST(AttentionKinds, SinksAreOneNumberAHead) {
  expect_parameters(layer_with([](model::Architecture& a) { attention(a).sinks = true; }), kHeads);
}

TEST(AttentionKinds, SharedKeysAndValuesAreOneMatrix) {
  const Layer s = layer_with([](model::Architecture& a) { attention(a).shared_kv = true; });
  expect_parameters(s, -kHidden * kKv);
  EXPECT_EQ(s.saved, plain().saved);
}

TEST(AttentionKinds, AGateKeepsItselfAndTheGatedResult) {
  const Layer g = layer_with([](model::Architecture& a) { attention(a).output_gate = true; });
  expect_parameters(g, kHidden * kQ);
  EXPECT_EQ(g.saved - plain().saved, 4 * kQ);
}

TEST(AttentionKinds, ANormOfValuesHasNoWeightAndKeepsItsInput) {
  const Layer v = layer_with([](model::Architecture& a) { attention(a).value_norm = true; });
  expect_parameters(v, 0);
  // Its input, and a statistic for each of the two heads.
  EXPECT_EQ(v.saved - plain().saved, 2 * kKv + 4 * 2);
}

TEST(AttentionKinds, NormsBehindTheBranches) {
  const Layer both = layer_with([](model::Architecture& a) { a.blocks[0].post_norm = true; });
  expect_parameters(both, 2 * kHidden);
  // Each keeps the branch's result and a statistic.
  EXPECT_EQ(both.saved - plain().saved, 2 * (2 * kHidden + 4));
  const Layer behind = layer_with([](model::Architecture& a) {
    a.blocks[0].pre_norm = false;
    a.blocks[0].post_norm = true;
  });
  expect_parameters(behind, 0);
  // The streams feed the products themselves: no output of a norm is kept, the branches are.
  EXPECT_EQ(behind.saved - plain().saved, 0);
}

TEST(AttentionKinds, AParallelBlockSharesItsNorm) {
  const Layer one = layer_with([](model::Architecture& a) { a.blocks[0].parallel = true; });
  expect_parameters(one, -kHidden);
  const Layer two = layer_with([](model::Architecture& a) {
    a.blocks[0].parallel = true;
    a.blocks[0].norm_per_branch = true;
  });
  expect_parameters(two, 0);
  // Two outputs, one input.
  EXPECT_EQ(two.saved - one.saved, 2 * kHidden + 4);
}

TEST(AttentionKinds, ASoftCapKeepsTanhOfWrittenScores) {
  const auto unfused = [](job::JobSpec& s) { s.attention = layer::AttentionKernel::unfused; };
  const Layer without = layer_with([](model::Architecture&) {}, unfused);
  const Layer with =
      layer_with([](model::Architecture& a) { attention(a).soft_cap = 50; }, unfused);
  EXPECT_EQ(with.saved - without.saved, 2 * kHeads * kTokens);
  EXPECT_EQ(layer_with([](model::Architecture& a) { attention(a).soft_cap = 50; }).saved,
            plain().saved);
}

TEST(AttentionKinds, AFinalSoftCapKeepsTanhOfTheLogits) {
  const auto head = [](double cap) {
    model::Architecture a = llama(kSmall);
    a.final_soft_cap = cap;
    const job::JobSpec spec = job_of(std::move(a), 1, {1, 1, static_cast<int>(kTokens)});
    return saved(lowered(spec).program("output")) / kTokens;
  };
  EXPECT_EQ(head(30) - head(0), 2 * kVocab);
}

TEST(AttentionKinds, RowsOfTheEmbeddingAreScaledOnce) {
  const auto traffic = [](bool scale) {
    model::Architecture a = llama(kSmall);
    a.embedding_scale = scale;
    const job::JobSpec spec = job_of(std::move(a), 1, {1, 1, static_cast<int>(kTokens)});
    double bytes = 0;
    const Lowered all = lowered(spec);
    for (const ops::Op& op : all.program("embedding").forward) {
      if (const auto* e = std::get_if<ops::Elementwise>(&op.work)) bytes += e->traffic.value;
    }
    return bytes / kTokens;
  };
  EXPECT_EQ(traffic(true) - traffic(false), 4 * kHidden);
}

TEST(AttentionKinds, LayersWithoutRotaryPositionsRotateNothing) {
  const auto rotates = [](layer::Position position) {
    model::Architecture a = llama(kSmall);
    attention(a).position = position;
    const job::JobSpec spec = job_of(std::move(a), 1, {1, 1, static_cast<int>(kTokens)});
    int count = 0;
    const Lowered all = lowered(spec);
    for (const ops::Op& op : layer_of(all).forward)
      count += op.module == ops::Module::rotary;
    return count;
  };
  EXPECT_EQ(rotates(layer::Position::rotary), 2);
  EXPECT_EQ(rotates(layer::Position::none), 0);
}

}  // namespace
}  // namespace eratos::judges
