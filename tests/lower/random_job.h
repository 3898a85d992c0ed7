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
  switch (rng.below(4)) {
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
    default:
      a = deepseek_v2_lite(2, 6);
      if (toss(rng)) {
        for (layer::BlockSpec& block : a.blocks) {
          std::get<layer::MlaSpec>(block.mixer).q_lora_rank = 768;
        }
      }
      a.mtp_layers = static_cast<int>(rng.below(2));
  }
  for (layer::BlockSpec& block : a.blocks) {
    if (auto* attention = std::get_if<layer::AttentionSpec>(&block.mixer)) {
      attention->qk_norm = toss(rng);
    }
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
  p.saved.attention_extra_tensors = static_cast<double>(rng.below(3));
  p.loss.keeps_logits = toss(rng);
  p.loss.gradient_in_place = toss(rng);
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
        ops::Module::expert_activation, ops::Module::shared_expert}) {
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
  p.cp_kind = pick(rng, {parallel::CpKind::p2p, parallel::CpKind::all_gather, parallel::CpKind::a2a});
  // Heads are traded for positions only where every rank gets whole ones.
  if (const auto* a = std::get_if<layer::AttentionSpec>(&spec.model.blocks[0].mixer)) {
    if (a->kv_heads % (p.tp * p.cp) != 0) p.cp_kind = parallel::CpKind::p2p;
  } else if (16 % (p.tp * p.cp) != 0) {
    p.cp_kind = parallel::CpKind::p2p;
  }
  const int dp = pick(rng, {1, 2, 4});
  p.sharding = pick(rng, {parallel::Sharding::none, parallel::Sharding::zero1,
                          parallel::Sharding::zero2, parallel::Sharding::zero3,
                          parallel::Sharding::hsdp});
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
