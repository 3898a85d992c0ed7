// Random legal jobs, the same ones on every machine: for properties that must hold of all jobs.
#pragma once

#include <initializer_list>

#include "eratos/base/rng.h"
#include "judges/jobs.h"

namespace eratos::judges {

template <class T>
T pick(Rng& rng, std::initializer_list<T> items) {
  return *(items.begin() + rng.below(items.size()));
}

inline bool toss(Rng& rng) { return rng.below(2) == 1; }

inline layer::MambaSpec state_space(double hidden) {
  layer::MambaSpec m;
  m.hidden = hidden;
  m.heads = 64;
  m.groups = 32;
  return m;
}

inline layer::DeltaNetSpec delta_net(Rng& rng, double hidden) {
  layer::DeltaNetSpec d;
  d.hidden = hidden;
  d.rule = pick(rng, {layer::DeltaRule::gated, layer::DeltaRule::kimi});
  d.key_heads = 32;
  d.value_heads = d.rule == layer::DeltaRule::gated ? pick(rng, {32, 64}) : 32;
  d.key_dim = 64;
  return d;
}

// Linear attention in three of four layers, each with a feed-forward, as Qwen3-Next and Kimi
// Linear.
inline model::Architecture paired_hybrid(Rng& rng, const Sizes& n) {
  model::Architecture a = toss(rng) ? mixtral(n, 16, 2) : llama(n);
  layer::BlockSpec linear = a.blocks[0];
  linear.mixer = delta_net(rng, n.hidden);
  a.blocks.push_back(linear);
  for (std::size_t i = 0; i < a.pattern.size(); ++i) a.pattern[i] = i % 4 == 3 ? 0 : 1;
  a.mtp_layers = static_cast<int>(rng.below(2));
  return a;
}

// Layers that are one half each, with experts in a latent width, as Nemotron-3.
inline model::Architecture stacked_hybrid(Rng& rng, const Sizes& n) {
  model::Architecture a = llama(n);
  const layer::BlockSpec whole = a.blocks[0];
  layer::MoeSpec moe = experts(n.hidden, 16, pick(rng, {2, 4}), n.ffn);
  moe.shared_ffn = toss(rng) ? n.ffn : 0;
  moe.latent = toss(rng) ? n.hidden / 4 : 0;
  moe.gated = false;
  a.blocks.clear();
  for (int i = 0; i < 5; ++i) a.blocks.push_back(whole);
  a.blocks[0].mixer = state_space(n.hidden);
  a.blocks[0].feed_forward = std::monostate{};
  a.blocks[1].mixer = std::monostate{};
  a.blocks[1].feed_forward = moe;
  a.blocks[2].feed_forward = std::monostate{};
  a.blocks[3].mixer = std::monostate{};
  a.blocks[4].feed_forward = moe;
  a.pattern = {0, 1, 0, 3, 2, 1, 0, 1};
  a.mtp_layers = static_cast<int>(rng.below(2));
  a.mtp_kind = 4;
  return a;
}

// DeepSeek-V4's three kinds of layers, four residual streams and a prediction module.
inline model::Architecture compressed(const Sizes& n) {
  model::Architecture a = mixtral(n, 16, 4);
  layer::BlockSpec block = a.blocks[0];
  block.streams = 4;
  a.blocks.clear();
  for (const int ratio : {0, 4, 128}) {
    layer::CompressedAttentionSpec c;
    c.hidden = n.hidden;
    c.heads = n.heads;
    c.head_dim = n.head_dim;
    c.ratio = ratio;
    block.mixer = c;
    a.blocks.push_back(block);
  }
  a.pattern = {0, 0, 1, 2, 1, 2, 1, 2};
  a.mtp_layers = 1;
  a.mtp_kind = 0;
  return a;
}

inline model::Architecture random_model(Rng& rng) {
  Sizes n;
  n.layers = 8;
  n.head_dim = pick(rng, {64, 128});
  n.heads = pick(rng, {16, 32});
  n.kv_heads = pick(rng, {n.heads, n.heads / 4, 8, 2});
  n.hidden = pick(rng, {1.0, 2.0}) * n.heads * n.head_dim;
  n.ffn = 64 * static_cast<double>(pick(rng, {24, 40, 96}));
  n.vocab = 32000;
  model::Architecture a;
  switch (rng.below(6)) {
    case 0:
      a = llama(n);
      break;
    case 1:
      a = gpt(n, 4096);
      break;
    case 2:
      a = mixtral(n, 16, pick(rng, {1, 2, 4}));
      if (toss(rng)) std::get<layer::MoeSpec>(a.blocks[0].feed_forward).shared_ffn = n.ffn;
      break;
    case 3:
      a = paired_hybrid(rng, n);
      break;
    case 4:
      a = stacked_hybrid(rng, n);
      break;
    default:
      a = deepseek_v2_lite(2, 6);
      if (toss(rng)) {
        for (layer::BlockSpec& block : a.blocks) {
          std::get<layer::MlaSpec>(block.mixer).q_lora_rank = 768;
        }
      }
      a.mtp_layers = static_cast<int>(rng.below(2));
  }
  const int streams = rng.below(4) == 0 ? 4 : 1;
  for (layer::BlockSpec& block : a.blocks) {
    if (auto* attention = std::get_if<layer::AttentionSpec>(&block.mixer)) {
      attention->qk_norm = toss(rng);
    }
    if (streams > 1 && !block.parallel) block.streams = streams;
    if (auto* moe = std::get_if<layer::MoeSpec>(&block.feed_forward)) {
      moe->shared_gate = moe->shared_ffn > 0 && toss(rng);
    }
  }
  return a;
}

inline framework::FrameworkProfile random_profile(Rng& rng) {
  framework::FrameworkProfile p = fused_profile();
  auto& f = p.fusions;
  for (bool* flag : {&f.norm, &f.activation, &f.rotary, &f.softmax, &f.residual, &f.qkv, &f.gate_up,
                     &f.router, &f.permute, &f.grouped_gemm}) {
    *flag = toss(rng);
  }
  p.saved.eager_norm_square = toss(rng);
  p.saved.moe_probs_in_activation = toss(rng);
  p.saved.gathered_input = toss(rng);
  p.saved.value_in_joined_qkv = toss(rng);
  p.loss.keeps_logits = toss(rng);
  p.loss.gradient_in_place = toss(rng);
  p.loss.gathers_logits = toss(rng);
  p.loss.fused_in_pieces = toss(rng);
  p.state.wgrad_fused_accumulation = toss(rng);
  return p;
}

// Degrees 1 on a cluster of one; cut it with random_cut().
inline job::JobSpec random_whole_job(Rng& rng) {
  job::JobSpec spec = job_of(random_model(rng), 1, {pick(rng, {1, 2}), 64, 2048});
  spec.framework = random_profile(rng);
  spec.precision = pick(rng, {job::Recipe::bf16, job::Recipe::fp32, job::Recipe::fp8_delayed,
                              job::Recipe::fp8_current});
  spec.attention = toss(rng) ? layer::AttentionKernel::flash : layer::AttentionKernel::unfused;
  spec.loss_fused = toss(rng);
  if (toss(rng)) spec.hidden_dropout = 0.1;
  if (toss(rng)) spec.attention_dropout = 0.1;
  return spec;
}

// Recomputation of a random kind.
inline void random_recompute(Rng& rng, job::JobSpec& spec) {
  auto& r = spec.recompute;
  r.granularity = pick(rng, {job::Granularity::none, job::Granularity::selective,
                             job::Granularity::selective, job::Granularity::full});
  r.method = toss(rng) ? job::RecomputeMethod::block : job::RecomputeMethod::uniform;
  r.layers = r.method == job::RecomputeMethod::block ? static_cast<int>(rng.below(4)) : 1;
  if (r.granularity == job::Granularity::full && toss(rng)) r.layer_ids = {1, 4};
  for (const ops::Module m :
       {ops::Module::norm, ops::Module::qkv, ops::Module::mla_down, ops::Module::mla_up,
        ops::Module::rotary, ops::Module::core_attention, ops::Module::mlp_in,
        ops::Module::activation, ops::Module::router, ops::Module::dispatch, ops::Module::expert_in,
        ops::Module::expert_activation, ops::Module::shared_expert, ops::Module::mixer_in,
        ops::Module::convolution, ops::Module::scan, ops::Module::latent}) {
    if (rng.below(3) == 0) r.modules.set(static_cast<std::size_t>(m));
  }
}

// A random legal way to run `whole` over several ranks.
inline job::JobSpec random_cut(Rng& rng, const job::JobSpec& whole) {
  job::JobSpec spec = whole;
  const bool moe = model::is_moe(spec.model);
  auto& p = spec.parallel;
  p.tp = pick(rng, {1, 2, 4, 8});
  p.cp = pick(rng, {1, 2, 4});
  p.pp = pick(rng, {1, 2, 4});
  p.vpp = p.pp > 1 ? pick(rng, {1, 2}) : 1;
  p.sequence_parallel = p.tp > 1 && (moe || toss(rng));
  p.cp_kind =
      pick(rng, {parallel::CpKind::p2p, parallel::CpKind::all_gather, parallel::CpKind::a2a});
  // Heads are traded for positions only where every rank gets whole ones.
  for (const layer::BlockSpec& block : spec.model.blocks) {
    if (const auto* a = std::get_if<layer::AttentionSpec>(&block.mixer)) {
      if (a->kv_heads % (p.tp * p.cp) != 0) p.cp_kind = parallel::CpKind::p2p;
    } else if (std::holds_alternative<layer::MlaSpec>(block.mixer) && 16 % (p.tp * p.cp) != 0) {
      p.cp_kind = parallel::CpKind::p2p;
    }
  }
  const int dp = pick(rng, {1, 2, 4});
  p.sharding =
      pick(rng, {parallel::Sharding::none, parallel::Sharding::zero1, parallel::Sharding::zero2,
                 parallel::Sharding::zero3, parallel::Sharding::hsdp});
  if (p.sharding == parallel::Sharding::hsdp) p.hsdp_group = dp * p.cp;
  if (moe) {
    const int room = p.tp * p.cp * dp;
    do {
      p.ep = pick(rng, {1, 2, 4, 8});
      p.etp = pick(rng, {1, 1, 2});
    } while (p.ep * p.etp > room);
  }
  spec.cluster = cluster_of(p.tp * p.cp * p.pp * dp);
  return spec;
}

}  // namespace eratos::judges
