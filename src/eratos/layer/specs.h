// The architectural components a model is built from: their sizes, nothing about how they run.
//
// Letters: h hidden, q = heads*head_dim, f feed-forward width, E experts, k experts a token visits.
// Each struct has a file of its own in this folder with its legality, parameters and ops.
#pragma once

#include <cstdint>
#include <variant>

namespace eratos::layer {

enum class Position : std::uint8_t { none, rotary, learned, alibi };
enum class NormKind : std::uint8_t { rmsnorm, layernorm };
enum class ActivationKind : std::uint8_t { silu, gelu, relu, squared_relu };

struct NormSpec {
  NormKind kind = NormKind::rmsnorm;
  bool bias = false;  // layernorm's additive weight
};

// MHA (kv_heads == heads), GQA, MQA (kv_heads == 1).
struct AttentionSpec {
  double hidden = 0;
  int heads = 1;
  int kv_heads = 1;
  int head_dim = 128;
  bool qkv_bias = false;
  bool out_bias = false;
  bool qk_norm = false;         // RMSNorm over head_dim of Q and of K, one weight each
  bool qk_norm_full = false;    // the norm spans all heads (OLMo 2) instead of one head
  Position position = Position::rotary;
};

// Multi-head latent attention. Source: arXiv 2405.04434, section 2.1.
struct MlaSpec {
  double hidden = 0;
  int heads = 1;
  int q_lora_rank = 0;  // 0: queries straight from hidden
  int kv_lora_rank = 512;
  int qk_nope_head_dim = 128;
  int qk_rope_head_dim = 64;
  int v_head_dim = 128;
};

struct MlpSpec {
  double hidden = 0;
  double ffn = 0;  // one matrix's width
  bool gated = true;
  bool bias = false;
  ActivationKind activation = ActivationKind::silu;
};

struct MoeSpec {
  double hidden = 0;
  int experts = 8;
  int top_k = 2;
  double ffn = 0;         // of one expert
  double shared_ffn = 0;  // total width of the shared experts, 0 without
  bool shared_gate = false;
  bool gated = true;
  bool bias = false;
  bool router_bias = false;  // one learned or adjusted bias an expert (DeepSeek-V3)
  ActivationKind activation = ActivationKind::silu;
};

struct EmbeddingSpec {
  double hidden = 0;
  double vocab = 0;         // padded as the framework pads it
  double positions = 0;     // learned position embeddings, 0 without
  bool norm = false;        // layer norm behind the embedding (BLOOM)
  NormSpec norm_spec;
};

struct OutputSpec {
  double hidden = 0;
  double vocab = 0;  // padded
  bool tied = false;  // shares the embedding's weight
  NormSpec final_norm;
};

using Mixer = std::variant<AttentionSpec, MlaSpec>;
using FeedForward = std::variant<MlpSpec, MoeSpec>;

// One transformer layer: norm, mixer, residual, norm, feed-forward, residual.
struct BlockSpec {
  Mixer mixer;
  FeedForward feed_forward;
  NormSpec norm;
  bool parallel = false;  // both branches read one norm's output (GPT-J, Falcon)
};

}  // namespace eratos::layer
