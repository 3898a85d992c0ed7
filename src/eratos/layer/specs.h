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
  bool bias = false;   // layernorm's additive weight
  bool weight = true;  // false: only normalises (OLMo 1, Gemma 4's values)

  friend bool operator==(const NormSpec&, const NormSpec&) = default;
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
  double rotary_share = 1;      // of head_dim that is rotated
  int window = 0;               // keys a query sees, itself included; 0: all before it
  int chunk = 0;                // sees the keys of its own chunk of positions only (Llama 4); 0: all
  bool sinks = false;           // one learned logit a head that takes weight from every key
  double soft_cap = 0;          // scores are cap * tanh(score / cap) (Gemma 2); 0: as they are
  bool shared_kv = false;       // the key projection's output serves as values too (Gemma 4)
  bool value_norm = false;      // weightless RMSNorm over head_dim of V
  bool qk_norm_weight = true;   // false: the norms of Q and K have no weights (Llama 4)
  bool output_gate = false;     // sigmoid gate on the result, as wide as Q (Qwen3-Next)

  friend bool operator==(const AttentionSpec&, const AttentionSpec&) = default;
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

  friend bool operator==(const MlaSpec&, const MlaSpec&) = default;
};

// Mamba-2: a selective state space, scanned in chunks. Inner width heads * head_dim.
// Source: arXiv 2405.21060, sections 6 and 7.
struct MambaSpec {
  double hidden = 0;
  int heads = 1;
  int head_dim = 64;
  int state = 128;
  int groups = 1;       // heads that share one B and C
  int conv = 4;         // taps of the causal convolution before the scan
  bool conv_bias = true;
  int chunk = 256;      // positions scanned as one matrix product

  friend bool operator==(const MambaSpec&, const MambaSpec&) = default;
};

// Linear attention by the delta rule: one gate a head (Gated DeltaNet) or a gate for each channel
// of the keys (Kimi Delta Attention), whose gates come through low-rank projections.
// Source: arXiv 2412.06464, section 3; arXiv 2510.26692, sections 3 and 4.
enum class DeltaRule : std::uint8_t { gated, kimi };
struct DeltaNetSpec {
  double hidden = 0;
  DeltaRule rule = DeltaRule::gated;
  int key_heads = 1;    // of queries and keys
  int value_heads = 1;  // a multiple of key_heads
  int key_dim = 128;
  int value_dim = 128;
  int conv = 4;
  int chunk = 64;

  friend bool operator==(const DeltaNetSpec&, const DeltaNetSpec&) = default;
};

// DeepSeek-V4: one latent is key and value of every head, read through a window and, where `ratio` is
// positive, through a pool of positions compressed by it; at ratio 4 an indexer chooses among those.
struct CompressedAttentionSpec {
  double hidden = 0;
  int heads = 1;
  int head_dim = 512;
  int q_lora_rank = 1024;
  int o_lora_rank = 1024;
  int o_groups = 8;
  int window = 128;
  bool sinks = true;
  int ratio = 0;
  int index_heads = 64;
  int index_dim = 128;
  int index_top = 512;

  friend bool operator==(const CompressedAttentionSpec&, const CompressedAttentionSpec&) = default;
};

struct MlpSpec {
  double hidden = 0;
  double ffn = 0;  // one matrix's width
  bool gated = true;
  bool bias = false;
  ActivationKind activation = ActivationKind::silu;

  friend bool operator==(const MlpSpec&, const MlpSpec&) = default;
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
  // Group-limited routing: experts in equal groups, of which a token visits `top_groups`.
  // Source: arXiv 2412.19437, section 2.1.2; Megatron-LM --moe-router-num-groups and -group-topk.
  int groups = 1;
  int top_groups = 1;
  ActivationKind activation = ActivationKind::silu;
  // Routed experts work in this width, between a down and an up projection that every token
  // passes; 0: in the hidden width. Router and shared experts read the hidden width.
  // Source: Megatron-LM core/transformer/transformer_config.py, moe_latent_size.
  double latent = 0;
  // Routed and shared experts have a norm of their own before (routed) and behind (both) them, and
  // the router scales its input and each expert's weight (Gemma 4).
  bool own_norms = false;

  friend bool operator==(const MoeSpec&, const MoeSpec&) = default;
};

struct EmbeddingSpec {
  double hidden = 0;
  double vocab = 0;         // padded as the framework pads it
  double positions = 0;     // learned position embeddings, 0 without
  bool norm = false;        // layer norm behind the embedding (BLOOM)
  NormSpec norm_spec;
  bool scale = false;       // rows are multiplied by sqrt(hidden) (Gemma)
  int streams = 1;          // residual streams it is copied to
};

struct OutputSpec {
  double hidden = 0;
  double vocab = 0;  // padded
  bool tied = false;  // shares the embedding's weight
  NormSpec final_norm;
  double soft_cap = 0;  // logits are cap * tanh(logit / cap) (Gemma 2, Grok-1); 0: as they are
  bool bias = false;    // of the output layer (Phi-2)
  int streams = 1;      // residual streams that it mixes into one
};

// std::monostate: the layer has no such half (hybrid stacks count mixers and feed-forwards apart).
using Mixer = std::variant<AttentionSpec, MlaSpec, MambaSpec, DeltaNetSpec, CompressedAttentionSpec,
                           std::monostate>;
using FeedForward = std::variant<MlpSpec, MoeSpec, std::monostate>;

// One transformer layer: norm, mixer, residual, norm, feed-forward, residual; or one half of it.
struct BlockSpec {
  Mixer mixer;
  FeedForward feed_forward;
  NormSpec norm;
  int streams = 1;        // residual streams (hyper-connections); 1: the plain one
  bool parallel = false;  // both branches read one norm's output (GPT-J, Falcon)
  bool pre_norm = true;          // false: a branch reads the stream as it is (OLMo 2)
  bool post_norm = false;        // a norm behind each branch, before it is added (Gemma 2, OLMo 2)
  bool norm_per_branch = false;  // a parallel block with a norm for each branch (GPT-NeoX)

  friend bool operator==(const BlockSpec&, const BlockSpec&) = default;
};

constexpr bool has_mixer(const BlockSpec& block) {
  return !std::holds_alternative<std::monostate>(block.mixer);
}
constexpr bool has_feed_forward(const BlockSpec& block) {
  return !std::holds_alternative<std::monostate>(block.feed_forward);
}

}  // namespace eratos::layer
