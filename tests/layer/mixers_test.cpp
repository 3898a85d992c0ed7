// State spaces and linear attention: weights, local shapes and what backward keeps, by hand.
#include <gtest/gtest.h>

#include <string>

#include "eratos/layer/compressed_attention.h"
#include "eratos/layer/delta_net.h"
#include "eratos/layer/mamba.h"
#include "eratos/model/architecture.h"
#include "eratos/model/block.h"
#include "judges/jobs.h"

namespace eratos::judges {
namespace {

constexpr double kTokens = 8192;

// Nemotron-H 8B.
layer::MambaSpec nemotron_state_space() {
  layer::MambaSpec m;
  m.hidden = 4096;
  m.heads = 128;
  m.groups = 8;
  return m;
}

// Qwen3-Next.
layer::DeltaNetSpec qwen_delta_net() {
  layer::DeltaNetSpec d;
  d.hidden = 2048;
  d.key_heads = 16;
  d.value_heads = 32;
  return d;
}

// Kimi Linear.
layer::DeltaNetSpec kimi_delta_net() {
  layer::DeltaNetSpec d;
  d.hidden = 2304;
  d.rule = layer::DeltaRule::kimi;
  d.key_heads = 32;
  d.value_heads = 32;
  return d;
}

layer::LayerContext context_of(const framework::FrameworkProfile& profile, int tp = 1, int cp = 1) {
  layer::LayerContext c;
  c.sequence = kTokens * cp;
  c.tp = tp;
  c.cp = cp;
  c.sequence_parallel = tp > 1;
  c.profile = &profile;
  return c;
}

ops::Program alone(const layer::Mixer& mixer, double hidden, const layer::LayerContext& c) {
  layer::BlockSpec block;
  block.mixer = mixer;
  block.feed_forward = std::monostate{};
  ops::Program p;
  model::lower_block(block, c, hidden, p);
  return p;
}

double kept(const ops::Program& p, std::string_view name) {
  double bytes = 0;
  for (const ops::Tensor& t : p.tensors) {
    if (t.saved && t.name == name) bytes += t.bytes().value;
  }
  return bytes;
}

double scan_flops(const std::vector<ops::Op>& list) {
  double sum = 0;
  for (const ops::Op& op : list) {
    if (op.module == ops::Module::scan) sum += op.flops().value;
  }
  return sum;
}

TEST(Mamba, WeightsOfOneLayer) {
  // in 4096 * (16384 + 2048 + 128), taps and bias of 10240 channels, three numbers a head, norm,
  // out.
  EXPECT_EQ(layer::mamba_parameters(nemotron_state_space()),
            4096.0 * 18560 + 10240 * 5 + 3 * 128 + 8192 + 8192.0 * 4096);
  EXPECT_EQ(layer::mamba_parameters(nemotron_state_space()), 109'635'968);
}

TEST(Mamba, KeepsTheProjectionAndThreeInnerWidths) {
  const framework::FrameworkProfile profile = fused_profile();
  const ops::Program p = alone(nemotron_state_space(), 4096, context_of(profile));
  // 2 (5d + 2GN + H) bytes a token; norm's statistic 4; and the block's own norm: 2h in, 2h out, 4.
  const double mixer = 2 * (5.0 * 8192 + 2048 + 128) + 4;
  const double norm = 2 * 4096 + 2 * 4096 + 4;
  EXPECT_EQ(ops::saved_bytes(p).value, kTokens * (mixer + norm));
  EXPECT_EQ(kept(p, "scanned"), kTokens * 2 * 8192);
  EXPECT_EQ(std::string(p.name), "mamba alone");
}

TEST(Mamba, ScanWorkIsTheFormula) {
  const framework::FrameworkProfile profile = fused_profile();
  layer::MambaSpec m = nemotron_state_space();
  const ops::Program p = alone(m, 4096, context_of(profile));
  // Chunk 256: scores 256*8*128, states 8192*128, outputs 8192*(256 + 128), twice each.
  const double forward = 2 * (256.0 * 1024 + 8192.0 * 128 + 8192.0 * 384);
  EXPECT_EQ(layer::mamba_scan_flops(m, kTokens), forward);
  EXPECT_EQ(scan_flops(p.forward), kTokens * forward);
  // Backward: twice that, and scores and states once more.
  EXPECT_EQ(scan_flops(p.backward), kTokens * (2 * forward + 2 * (256.0 * 1024 + 8192.0 * 128)));
  // A sequence shorter than the chunk is one chunk.
  EXPECT_EQ(layer::mamba_scan_flops(m, 64), 2 * (64.0 * 1024 + 8192.0 * 128 + 8192.0 * 192));
}

TEST(Mamba, TensorParallelismCutsHeadsAndGroups) {
  const framework::FrameworkProfile profile = fused_profile();
  const ops::Program p = alone(nemotron_state_space(), 4096, context_of(profile, 4));
  const auto* in = std::get_if<ops::Gemm>(&p.forward[2].work);  // norm, gather, product
  ASSERT_NE(in, nullptr);
  EXPECT_EQ(in->n, 18560.0 / 4);
  EXPECT_EQ(kept(p, "scanned"), kTokens * 2 * 8192 / 4);
}

TEST(Mamba, ContextParallelismTradesHeadsForPositions) {
  const framework::FrameworkProfile profile = fused_profile();
  const ops::Program p = alone(nemotron_state_space(), 4096, context_of(profile, 1, 2));
  double sent = 0;
  for (const auto* list : {&p.forward, &p.backward}) {
    for (const ops::Op& op : *list) {
      const auto* c = std::get_if<ops::Collective>(&op.work);
      if (c != nullptr && c->axis == parallel::Axis::cp) sent += c->bytes.value;
    }
  }
  // The projection there and its gradient back, the result back and its gradient there.
  EXPECT_EQ(sent, 2 * kTokens * 2 * (18560.0 + 8192));
}

TEST(DeltaNet, WeightsOfOneLayer) {
  EXPECT_EQ(layer::delta_net_parameters(qwen_delta_net()), 33'718'464);
  // q, k, v 2304*12288, taps 4*12288, decay and gate 2*2304*128 and 2*128*4096, beta 2304*32, 32
  // and 4096 of the decay, norm 128, out.
  EXPECT_EQ(layer::delta_net_parameters(kimi_delta_net()),
            2304.0 * 12288 + 4 * 12288 + 2 * 2304.0 * 128 + 2 * 128.0 * 4096 + 2304 * 32 + 32 +
                4096 + 128 + 4096.0 * 2304);
}

TEST(DeltaNet, KeepsWhatTheChunkKernelsKeep) {
  const framework::FrameworkProfile profile = fused_profile();
  const ops::Program p = alone(qwen_delta_net(), 2048, context_of(profile));
  const double k = 2048;
  const double v = 4096;
  const double heads = 32;
  // Projection (with the gate, which is kept again where it stays with its positions), q and k
  // copied to 32 heads, v, decay, inverse; out, its statistics a head, the gated result.
  const double mixer = 2 * (2 * k + 2 * v + 2 * heads) + 2 * v + 2 * 2 * heads * 128 + 2 * v +
                       4 * heads + 2 * heads * 64 + 2 * v + 4 * heads + 2 * v;
  const double norm = 2 * 2048 + 2 * 2048 + 4;
  EXPECT_EQ(ops::saved_bytes(p).value, kTokens * (mixer + norm));
}

TEST(DeltaNet, ScanWorkIsTheFormula) {
  const framework::FrameworkProfile profile = fused_profile();
  for (const layer::DeltaNetSpec& d : {qwen_delta_net(), kimi_delta_net()}) {
    const ops::Program p = alone(d, d.hidden, context_of(profile));
    const double per_head = 2 * (64.0 * 5 * 128 + 3 * 128.0 * 128);
    EXPECT_EQ(layer::delta_net_scan_flops(d, kTokens), 32 * per_head);
    EXPECT_EQ(scan_flops(p.forward), kTokens * 32 * per_head);
    EXPECT_GE(scan_flops(p.backward), 2 * scan_flops(p.forward));
    EXPECT_LE(scan_flops(p.backward), 3 * scan_flops(p.forward));
  }
}

TEST(CompressedAttention, WeightsAndKeys) {
  // DeepSeek-V4-Flash, a layer of the window alone.
  layer::CompressedAttentionSpec c;
  c.hidden = 4096;
  c.heads = 64;
  EXPECT_EQ(layer::compressed_attention_parameters(c), 106'956'352);
  // 128 keys, fewer for the first 127 queries of 4096.
  EXPECT_EQ(layer::compressed_attention_keys(c, 4096), 128 - 128.0 * 127 / 8192);
  // Ratio 128: 32 pooled positions, of which a query sees half on average; projections of both and
  // 129 rows of positions and norm.
  c.ratio = 128;
  EXPECT_EQ(layer::compressed_attention_keys(c, 4096), 128 - 128.0 * 127 / 8192 + 16);
  EXPECT_EQ(layer::compressed_attention_parameters(c), 106'956'352 + 2 * 4096 * 512 + 129 * 512);
  // Ratio 4: the best 512 of 1024.
  c.ratio = 4;
  EXPECT_EQ(layer::compressed_attention_keys(c, 4096),
            128 - 128.0 * 127 / 8192 + 512 - 512.0 * 511 / 2048);
  // The attention op does that work.
  const framework::FrameworkProfile profile = fused_profile();
  layer::LayerContext context = context_of(profile);
  context.sequence = 4096;
  const ops::Program p = alone(c, 4096, context);
  for (const ops::Op& op : p.forward) {
    const auto* a = std::get_if<ops::Attention>(&op.work);
    if (a == nullptr) continue;
    EXPECT_NEAR(a->keys(), layer::compressed_attention_keys(c, 4096), 1e-6);
  }
}

TEST(HyperConnections, KeepStreamsTwiceNormalisedOnceWide) {
  framework::FrameworkProfile profile = fused_profile();
  layer::BlockSpec block;
  block.mixer = std::monostate{};
  block.feed_forward = layer::MlpSpec{4096, 8192, true, false, layer::ActivationKind::silu};
  block.streams = 4;
  ops::Program p;
  model::lower_block(block, context_of(profile), 4096, p);
  // Streams 2*4h, normalised 4*4h, 24 numbers, the result 2h; norm in and out 4h, its statistic;
  // 6f.
  EXPECT_EQ(ops::saved_bytes(p).value,
            kTokens * (8.0 * 4096 + 16.0 * 4096 + 4 * 24 + 2 * 4096 + 4 * 4096 + 4 + 6 * 8192));
  EXPECT_EQ(ops::parameter_elements(p), 393'243 + 4096 + 3 * 4096.0 * 8192);
  // Norms that torch writes out keep their operand in fp32.
  const double fused = ops::saved_bytes(p).value;
  profile.fusions.unweighted_norm = false;
  ops::Program eager;
  model::lower_block(block, context_of(profile), 4096, eager);
  EXPECT_EQ(ops::saved_bytes(eager).value - fused, kTokens * 4.0 * 4 * 4096);
}

TEST(HybridStack, ExpertsInALatentWidth) {
  // Nemotron-3 Super's experts: a row of 1024 travels, not one of 4096.
  layer::MoeSpec moe = experts(4096, 512, 22, 2688);
  moe.latent = 1024;
  moe.gated = false;
  layer::BlockSpec block;
  block.mixer = std::monostate{};
  block.feed_forward = moe;
  model::Architecture a = with_layers(empty_model(4096, 1000), 1, block);
  const double weights = 4096.0 * 512 + 2 * 4096.0 * 1024 + 512 * 2.0 * 1024 * 2688 + 4096;
  EXPECT_EQ(model::count_parameters(a).total, weights + 2 * 4096.0 * 1000 + 4096);
  const framework::FrameworkProfile profile = fused_profile();
  layer::LayerContext c = context_of(profile);
  c.ep = 8;
  ops::Program p;
  model::lower_block(block, c, 4096, p);
  for (const ops::Op& op : p.forward) {
    if (const auto* sent = std::get_if<ops::Collective>(&op.work)) {
      EXPECT_EQ(sent->bytes.value, kTokens * 22 * 1024 * 2);
    }
  }
  EXPECT_EQ(std::string(p.name), "moe alone");
}

}  // namespace
}  // namespace eratos::judges
