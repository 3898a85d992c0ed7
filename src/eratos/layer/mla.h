// Multi-head latent attention: queries and keys rebuilt from small latent vectors.
//
// Letters: r_q, r_kv latent ranks, d_n and d_r head sizes without and with rotary, d_v of values,
// H heads. The down projections are held whole on every tensor-parallel rank and see the rank's
// shard of the tokens; the up projections are column-parallel over heads.
// Keys are the up-projected part joined with one rotary part that all heads share, so attention
// keeps H*(d_n + d_r) a token for Q and for K and H*d_v for the output. Values and the latent are
// views: the whole up projection, H*(d_n + d_v), and the whole down projection, r_kv + d_r, stay.
// Source: arXiv 2405.04434 section 2.1; Megatron-LM core/transformer/multi_latent_attention.py.
// Worked example: DeepSeek-V3 (H 128, r_q 1536, r_kv 512, 128/64/128): weights of one layer
//   7168*1536 + 1536*128*192 + 7168*576 + 512*128*256 + 128*128*7168 = 187,105,280, norms apart.
#pragma once

#include "eratos/layer/attention.h"

namespace eratos::layer {

struct MlaState {
  LinearState q_down;
  LinearState q_up;
  LinearState kv_down;
  LinearState kv_up;
  LinearState out;
  NormState q_norm;
  NormState kv_norm;
  CoreState core;
};

inline constexpr MixerNames kMlaNames = kAttentionNames;

double mla_parameters(const MlaSpec& spec);
MixerWork mla_work(const MlaSpec& spec, double sequence, bool causal);

void check_mla(const MlaSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out);
TensorId mla_forward(const MlaSpec& spec, Builder& b, TensorId x, MlaState& s);
TensorId mla_backward(const MlaSpec& spec, Builder& b, const MlaState& s, TensorId dy);

}  // namespace eratos::layer
