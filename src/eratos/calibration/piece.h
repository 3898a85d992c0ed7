// One piece of work that a device can be asked to run by itself, and its name.
//
// Answers "are these two the same work?". A piece says all that its time depends on, at the shapes
// of one rank, so that two pieces of one id take the same time on one device. Its fields are listed
// once, in each_field(): the id, a line of a plan, a row of MEASURED.json and what a reader asks
// for are made of the same list, and cannot disagree.
//
// Letters: m n k of C[m,n] = A[m,k] B[k,n], m over all groups; T tokens of the rank's micro-batch.
// Worked example: the first product of a feed-forward layer with 4096 tokens, 4096 wide, 11008 out,
// in bf16, forward, is `gemm/forward/m4096/n11008/k4096/bf16`: what is as usual (one group, no
// accumulation) is left out of an id.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "eratos/base/dtype.h"
#include "eratos/base/units.h"
#include "eratos/ops/ops.h"

namespace eratos::calibration {

enum class PiecePass : std::uint8_t { forward, dgrad, wgrad, backward, step };
inline constexpr std::string_view kPiecePasses[] = {"forward", "dgrad", "wgrad", "backward",
                                                    "step"};

// A matrix product as a linear layer has it: forward X W^T, dgrad dY W, wgrad dY^T X.
struct GemmPiece {
  PiecePass pass = PiecePass::forward;
  double m = 0;
  double n = 0;
  double k = 0;
  double groups = 1;
  bool accumulate = false;   // adds into an fp32 buffer
  bool experts = false;      // a group is an expert
  bool strided = false;      // groups of one size at even strides
  std::vector<double> rows;  // of each group; empty: m / groups each

  friend bool operator==(const GemmPiece&, const GemmPiece&) = default;
};

struct AttentionPiece {
  PiecePass pass = PiecePass::forward;  // forward or backward
  double batch = 0;
  double seq_q = 0;
  double seq_kv = 0;
  double heads = 0;
  double kv_heads = 0;
  double head_dim = 0;
  double v_head_dim = 0;
  bool causal = true;
  double window = 0;
  bool sinks = false;

  friend bool operator==(const AttentionPiece&, const AttentionPiece&) = default;
};

// What a memory-bound kernel does. `other`: nothing that a device program knows; it is modelled.
enum class ElementwiseWhat : std::uint8_t {
  norm,
  swiglu,  // gated activation
  gelu,    // activation without a gate
  rotary,
  residual,
  router,
  permute,
  cross_entropy,
  optimizer,
  copy,
  other,
};
inline constexpr std::string_view kElementwiseWhats[] = {
    "norm",    "swiglu",        "gelu",      "rotary", "residual", "router",
    "permute", "cross_entropy", "optimizer", "copy",   "other"};

struct ElementwisePiece {
  ElementwiseWhat what = ElementwiseWhat::copy;
  PiecePass pass = PiecePass::forward;
  double bytes = 0;  // least traffic, read and written
  double rows = 0;   // of the tensor that it is about
  double width = 0;
  double launches = 1;  // kernels one after another

  friend bool operator==(const ElementwisePiece&, const ElementwisePiece&) = default;
};

enum class BlockWhat : std::uint8_t { layer, attention, mlp, moe, embedding, head };
inline constexpr std::string_view kBlockWhats[] = {"layer", "attention", "mlp",
                                                   "moe",   "embedding", "head"};

// A whole module under autograd, at the rank's shapes: heads, widths and experts are local,
// collectives are left out. Forward and backward are two pieces of one run.
struct BlockPiece {
  BlockWhat what = BlockWhat::layer;
  PiecePass pass = PiecePass::forward;  // forward or backward
  double tokens = 0;                    // T
  double shard_tokens = 0;              // that norms and residuals see (sequence parallelism); 0: T
  double sequence = 0;                  // of one sample on this rank: T / sequence samples
  double hidden = 0;
  double heads = 0;
  double kv_heads = 0;
  double head_dim = 0;
  double window = 0;
  double ffn = 0;          // width of the dense feed-forward, or of one expert
  double experts = 0;      // local ones; 0: dense
  double all_experts = 0;  // that the router chooses among
  double top_k = 0;
  double expert_rows = 0;  // rows that all local experts receive together
  double shared_ffn = 0;
  bool gated = true;
  bool qkv_bias = false;
  bool qk_norm = false;
  double vocab = 0;        // local rows of the table, of an embedding or head
  std::string norm;        // rmsnorm | layernorm
  std::string activation;  // silu | gelu | relu | squared_relu
  std::string position;    // none | rotary | learned | alibi
  std::string attention;   // flash | unfused
  std::string recompute;   // none | full: of the backward, forward included
  double tp = 1;           // degrees that the shapes are cut for; told, not run
  double ep = 1;

  friend bool operator==(const BlockPiece&, const BlockPiece&) = default;
};

// bytes as ops::Collective counts them. The piece's format is fp32, whatever travels: links count
// bytes.
struct CollectivePiece {
  ops::CollectiveKind what = ops::CollectiveKind::all_reduce;
  double ranks = 2;
  double bytes = 0;

  friend bool operator==(const CollectivePiece&, const CollectivePiece&) = default;
};

enum class MemoryPhase : std::uint8_t { parameters, forward, backward, optimizer };
inline constexpr std::string_view kMemoryPhases[] = {"parameters", "forward", "backward",
                                                     "optimizer"};

// Peak of a phase of a reduced job: an embedding, `layers` layers as `layer` says, a head; its pass
// is of no meaning.
struct MemoryPiece {
  MemoryPhase phase = MemoryPhase::forward;
  BlockPiece layer;
  double layers = 1;
  double micro_batches = 1;

  friend bool operator==(const MemoryPiece&, const MemoryPiece&) = default;
};

// In the order of PieceKind.
using PieceWork = std::variant<GemmPiece, AttentionPiece, ElementwisePiece, BlockPiece,
                               CollectivePiece, MemoryPiece>;
enum class PieceKind : std::uint8_t { gemm, attention, elementwise, block, collective, memory };
inline constexpr std::string_view kPieceKinds[] = {"gemm",  "attention",  "elementwise",
                                                   "block", "collective", "memory"};

struct Piece {
  PieceWork work;
  DType dtype = DType::bf16;

  PieceKind kind() const { return static_cast<PieceKind>(work.index()); }
  friend bool operator==(const Piece&, const Piece&) = default;
};

// How a field stands in an id: its letters before the number ("m4096"), a word by itself
// ("causal"), or a word of a list.
struct FieldName {
  std::string_view key;      // in a plan and in MEASURED.json
  std::string_view letters;  // in an id
};

// Calls `see` for every field of a piece, in the order of its id:
//   see.number(FieldName, double&, double usual)        left out of an id where it is the usual
//   see.flag(FieldName, bool&, bool usual)              likewise; letters are the word when it is
//   not see.word(FieldName, E&, const std::string_view (&names)[N]) see.text(FieldName,
//   std::string&) see.list(FieldName, std::vector<double>&)           left out where empty
// With const pieces the references are const.
template <class P, class See>
void each_gemm_field(P& p, See&& see) {
  see.word({"pass", ""}, p.pass, kPiecePasses);
  see.number({"m", "m"}, p.m, 0);
  see.number({"n", "n"}, p.n, 0);
  see.number({"k", "k"}, p.k, 0);
  see.number({"groups", "g"}, p.groups, 1);
  see.flag({"accumulate", "accumulate"}, p.accumulate, false);
  see.flag({"experts", "experts"}, p.experts, false);
  see.flag({"strided", "strided"}, p.strided, false);
  see.list({"rows", "rows"}, p.rows);
}

template <class P, class See>
void each_attention_field(P& p, See&& see) {
  see.word({"pass", ""}, p.pass, kPiecePasses);
  see.number({"batch", "b"}, p.batch, 0);
  see.number({"seq_q", "q"}, p.seq_q, 0);
  see.number({"seq_kv", "kv"}, p.seq_kv, 0);
  see.number({"heads", "h"}, p.heads, 0);
  see.number({"kv_heads", "g"}, p.kv_heads, 0);
  see.number({"head_dim", "d"}, p.head_dim, 0);
  see.number({"v_head_dim", "v"}, p.v_head_dim, 0);
  see.flag({"causal", "full"}, p.causal, true);
  see.number({"window", "w"}, p.window, 0);
  see.flag({"sinks", "sinks"}, p.sinks, false);
}

template <class P, class See>
void each_elementwise_field(P& p, See&& see) {
  see.word({"what", ""}, p.what, kElementwiseWhats);
  see.word({"pass", ""}, p.pass, kPiecePasses);
  see.number({"bytes", "b"}, p.bytes, 0);
  see.number({"rows", "r"}, p.rows, 0);
  see.number({"width", "w"}, p.width, 0);
  see.number({"launches", "l"}, p.launches, 1);
}

template <class P, class See>
void each_shape_field(P& p, See&& see) {
  see.number({"tokens", "t"}, p.tokens, 0);
  see.number({"shard_tokens", "u"}, p.shard_tokens, 0);
  see.number({"sequence", "s"}, p.sequence, 0);
  see.number({"hidden", "h"}, p.hidden, 0);
  see.number({"heads", "a"}, p.heads, 0);
  see.number({"kv_heads", "g"}, p.kv_heads, 0);
  see.number({"head_dim", "d"}, p.head_dim, 0);
  see.number({"window", "w"}, p.window, 0);
  see.number({"ffn", "f"}, p.ffn, 0);
  see.number({"experts", "e"}, p.experts, 0);
  see.number({"all_experts", "of"}, p.all_experts, 0);
  see.number({"top_k", "top"}, p.top_k, 0);
  see.number({"expert_rows", "rows"}, p.expert_rows, 0);
  see.number({"shared_ffn", "shared"}, p.shared_ffn, 0);
  see.flag({"gated", "plain"}, p.gated, true);
  see.flag({"qkv_bias", "qkv_bias"}, p.qkv_bias, false);
  see.flag({"qk_norm", "qk_norm"}, p.qk_norm, false);
  see.number({"vocab", "v"}, p.vocab, 0);
  see.text({"norm", ""}, p.norm);
  see.text({"activation", ""}, p.activation);
  see.text({"position", ""}, p.position);
  see.text({"attention", ""}, p.attention);
  see.text({"recompute", "recompute_"}, p.recompute);
  see.number({"tp", "tp"}, p.tp, 1);
  see.number({"ep", "ep"}, p.ep, 1);
}

template <class P, class See>
void each_block_field(P& p, See&& see) {
  see.word({"what", ""}, p.what, kBlockWhats);
  see.word({"pass", ""}, p.pass, kPiecePasses);
  each_shape_field(p, see);
}

inline constexpr std::string_view kCollectiveWords[] = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv"};

template <class P, class See>
void each_collective_field(P& p, See&& see) {
  see.word({"what", ""}, p.what, kCollectiveWords);
  see.number({"ranks", "n"}, p.ranks, 0);
  see.number({"bytes", "b"}, p.bytes, 0);
}

template <class P, class See>
void each_memory_field(P& p, See&& see) {
  see.word({"phase", ""}, p.phase, kMemoryPhases);
  see.number({"layers", "layers"}, p.layers, 0);
  see.number({"micro_batches", "m"}, p.micro_batches, 1);
  each_shape_field(p.layer, see);
}

template <class Work, class See>
void each_field(Work& work, See&& see) {
  switch (static_cast<PieceKind>(work.index())) {
    case PieceKind::gemm:
      return each_gemm_field(*std::get_if<GemmPiece>(&work), see);
    case PieceKind::attention:
      return each_attention_field(*std::get_if<AttentionPiece>(&work), see);
    case PieceKind::elementwise:
      return each_elementwise_field(*std::get_if<ElementwisePiece>(&work), see);
    case PieceKind::block:
      return each_block_field(*std::get_if<BlockPiece>(&work), see);
    case PieceKind::collective:
      return each_collective_field(*std::get_if<CollectivePiece>(&work), see);
    case PieceKind::memory:
      return each_memory_field(*std::get_if<MemoryPiece>(&work), see);
  }
}

// "gemm/forward/m4096/n11008/k4096/bf16". Pieces are equal exactly where their ids are.
std::string id_of(const Piece& piece);

// A piece of that kind with nothing said of it.
PieceWork empty_work(PieceKind kind);

// A number as ids, plans and files hold it: whole ones as such, others so that they read back the
// same.
std::string number_text(double value);

}  // namespace eratos::calibration
