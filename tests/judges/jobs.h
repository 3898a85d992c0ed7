// Architectures, profiles and jobs written out by hand, for tests that judge the lowering without
// reading the catalogue, and the sums the judges take over lowered programs.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "eratos/model/architecture.h"
#include "eratos/ops/ops.h"
#include "eratos/ops/stage.h"

namespace eratos::judges {

struct Sizes {
  int layers = 1;
  double hidden = 0;
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 128;
  double ffn = 0;
  double vocab = 0;
};

inline model::Architecture with_layers(model::Architecture a, int count,
                                       const layer::BlockSpec& block) {
  a.blocks.push_back(block);
  const auto kind = static_cast<std::uint8_t>(a.blocks.size() - 1);
  for (int i = 0; i < count; ++i) a.pattern.push_back(kind);
  return a;
}

inline model::Architecture empty_model(double hidden, double vocab) {
  model::Architecture a;
  a.name = "hand-made";
  a.hidden = hidden;
  a.vocab = vocab;
  return a;
}

inline layer::AttentionSpec rotary_attention(const Sizes& n) {
  layer::AttentionSpec attention;
  attention.hidden = n.hidden;
  attention.heads = n.heads;
  attention.kv_heads = n.kv_heads;
  attention.head_dim = n.head_dim;
  return attention;
}

// RMSNorm, rotary positions, SwiGLU, no bias.
inline model::Architecture llama(const Sizes& n) {
  layer::BlockSpec block;
  block.mixer = rotary_attention(n);
  block.feed_forward = layer::MlpSpec{n.hidden, n.ffn, true, false, layer::ActivationKind::silu};
  return with_layers(empty_model(n.hidden, n.vocab), n.layers, block);
}

inline layer::MoeSpec experts(double hidden, int count, int top_k, double ffn) {
  layer::MoeSpec moe;
  moe.hidden = hidden;
  moe.experts = count;
  moe.top_k = top_k;
  moe.ffn = ffn;
  return moe;
}

// Llama with experts of width n.ffn in every layer.
inline model::Architecture mixtral(const Sizes& n, int count, int top_k) {
  layer::BlockSpec block;
  block.mixer = rotary_attention(n);
  block.feed_forward = experts(n.hidden, count, top_k, n.ffn);
  return with_layers(empty_model(n.hidden, n.vocab), n.layers, block);
}

// LayerNorm and biases everywhere, learned positions, GELU, one matrix for both ends.
inline model::Architecture gpt(const Sizes& n, double positions) {
  model::Architecture a = empty_model(n.hidden, n.vocab);
  a.norm = {layer::NormKind::layernorm, true};
  a.position = layer::Position::learned;
  a.max_positions = positions;
  a.tie_embeddings = true;
  layer::AttentionSpec attention = rotary_attention(n);
  attention.qkv_bias = true;
  attention.out_bias = true;
  attention.position = layer::Position::learned;
  layer::BlockSpec block;
  block.mixer = attention;
  block.norm = a.norm;
  block.feed_forward = layer::MlpSpec{n.hidden, n.ffn, false, true, layer::ActivationKind::gelu};
  return with_layers(std::move(a), n.layers, block);
}

inline layer::MlaSpec latent_attention(double hidden, int heads, int q_lora_rank) {
  layer::MlaSpec mla;
  mla.hidden = hidden;
  mla.heads = heads;
  mla.q_lora_rank = q_lora_rank;  // the other sizes are DeepSeek's: 512, 128, 64, 128
  return mla;
}

inline model::Architecture deepseek_v2_lite(int dense = 1, int moe_layers = 26) {
  layer::BlockSpec block;
  block.mixer = latent_attention(2048, 16, 0);
  block.feed_forward = layer::MlpSpec{2048, 10944, true, false, layer::ActivationKind::silu};
  model::Architecture a = with_layers(empty_model(2048, 102400), dense, block);
  layer::MoeSpec moe = experts(2048, 64, 6, 1408);
  moe.shared_ffn = 2816;
  block.feed_forward = moe;
  return with_layers(std::move(a), moe_layers, block);
}

inline model::Architecture deepseek_v3(int dense = 3, int moe_layers = 58) {
  layer::BlockSpec block;
  block.mixer = latent_attention(7168, 128, 1536);
  block.feed_forward = layer::MlpSpec{7168, 18432, true, false, layer::ActivationKind::silu};
  model::Architecture a = with_layers(empty_model(7168, 129280), dense, block);
  layer::MoeSpec moe = experts(7168, 256, 8, 2048);
  moe.shared_ffn = 2048;
  moe.router_bias = true;
  block.feed_forward = moe;
  return with_layers(std::move(a), moe_layers, block);
}

inline const Sizes kLlama3_8b{32, 4096, 32, 8, 128, 14336, 128256};
inline const Sizes kMixtral8x7b{32, 4096, 32, 8, 128, 14336, 32000};

// Megatron with Transformer Engine as the fields' own defaults describe it.
inline framework::FrameworkProfile fused_profile() {
  framework::FrameworkProfile p;
  p.name = "hand-made";
  p.loss.unfused_bytes_per_logit = 6;
  p.loss.fused_bytes_per_logit = 4;
  p.loss.unfused_traffic_per_logit = 60;
  p.loss.fused_traffic_per_logit = 31;
  return p;
}

inline hardware::ClusterSpec cluster_of(int gpus) {
  hardware::ClusterSpec c;
  c.name = "hand-made";
  c.nodes = 1;
  c.gpus_per_node = gpus;
  c.accelerator.name = "hand-made";
  for (FlopsPerSecond& peak : c.accelerator.peak) peak = FlopsPerSecond{1e15};
  return c;
}

inline job::JobSpec job_of(model::Architecture model, int gpus, job::BatchSpec batch) {
  job::JobSpec spec;
  spec.name = "hand-made";
  spec.model = std::move(model);
  spec.batch = batch;
  spec.framework = fused_profile();
  spec.cluster = cluster_of(gpus);
  return spec;
}

inline std::string text_of(const Diagnostics& faults) {
  std::string out;
  for (const Diagnostic& d : faults) out += d.field + ": " + to_text(d) + "\n";
  return out;
}

// A legal job, checked and lowered. `spec` must outlive it.
struct Lowered {
  job::CheckedJob job;
  ops::LoweredJob all;

  const ops::Program& program(std::string_view name) const {
    for (std::size_t i = 0; i < all.program_count; ++i) {
      if (all.programs[i].name == name) return all.programs[i];
    }
    ADD_FAILURE() << "no program `" << name << "`";
    static const ops::Program kNone;
    return kNone;
  }
};

inline Lowered lowered(const job::JobSpec& spec) {
  Lowered out;
  const Diagnostics faults = job::check(spec, out.job);
  EXPECT_TRUE(faults.empty()) << text_of(faults);
  if (faults.empty()) lower::lower(out.job, out.all);
  return out;
}

// Program of the first layer of a job.
inline const ops::Program& layer_of(const Lowered& l) {
  for (std::size_t i = 0; i < l.all.program_count; ++i) {
    const std::string_view name = l.all.programs[i].name;
    if (name != "embedding" && name != "output" && name != "mtp") return l.all.programs[i];
  }
  ADD_FAILURE() << "no layer";
  static const ops::Program kNone;
  return kNone;
}

inline double saved(const ops::Program& p) { return ops::saved_bytes(p).value; }

// Calls f(op, times a step on this pipeline rank and one micro-batch) for each op of each stage.
template <class F>
void for_each_op(const Lowered& l, F&& f) {
  for (std::size_t i = 0; i < l.all.stage_count; ++i) {
    for (const ops::StageItem& item : l.all.stages[i].items) {
      const ops::Program& p = l.all.programs[item.program];
      for (const ops::Op& op : p.forward) f(op, item.repeat);
      for (const ops::Op& op : p.backward) f(op, item.repeat);
    }
  }
}

// Matrix FLOPs of a step over all ranks; `counts(op)` chooses the ops.
template <class Counts>
double step_flops(const Lowered& l, Counts&& counts) {
  double one_pipeline = 0;
  for_each_op(l, [&](const ops::Op& op, int repeat) {
    if (counts(op)) one_pipeline += op.flops().value * repeat;
  });
  const auto& p = l.job.parallel;
  return one_pipeline * p.tp * p.cp * p.dp * l.job.micro_batches;
}

inline bool is_model_work(const ops::Op& op) { return op.pass != ops::Pass::recompute; }

}  // namespace eratos::judges
