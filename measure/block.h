// A whole module under autograd: attention, a feed-forward (dense or of experts), both as a layer,
// the embedding, the head with its loss.
//
// What is measured in one run: forward of x [tokens, hidden], and backward from a gradient of the
// result, weights' gradients added to those that are there, as with several micro-batches. With
// recompute the forward keeps x alone and backward runs it again.
//
// Shapes are a rank's: heads, feed-forward width, experts already divided; collectives left out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formulas.h"
#include "torch_device.h"

namespace eratos::device {

struct BlockShape {
  bool attention = false;
  bool mlp = false;
  bool embedding = false;
  bool head = false;
  std::int64_t tokens = 0;
  std::int64_t sequence = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t experts = 0;      // of this rank; 0: a dense feed-forward
  std::int64_t all_experts = 0;  // that the router chooses among
  std::int64_t top_k = 0;
  std::int64_t expert_rows = 0;  // that come to this rank's experts
  std::int64_t shared_ffn = 0;   // width of the expert that every token passes; 0: none
  std::int64_t vocab = 0;
  std::int64_t window = 0;
  // Rows that norms and residual sums see under sequence parallelism. The products see all: rows
  // are repeated and cut where the gather and the scatter are left out.
  std::int64_t shard_tokens = 0;
  bool gated = true;
  Activation activation = Activation::silu;
  bool qkv_bias = false;
  bool qk_norm = false;
  bool fused = true;  // attention as one kernel, where there is one
  bool layer_norm = false;
  bool rotary = true;
  bool recompute = false;
  at::ScalarType type = at::kFloat;
};

// `what`: layer attention mlp moe embedding head. Errors: CannotMeasure where the piece's keys make
// no block of these.
BlockShape block_shape(const Piece& piece, const std::string& what);
// The same block, small enough for a reference in double precision.
BlockShape small_block(const BlockShape& shape);
// Bytes of weights, and of what one forward keeps (about: for how many copies to rotate).
double weight_bytes(const BlockShape& shape);
double kept_bytes(const BlockShape& shape);

class Block {
 public:
  Block(const Place& place, const BlockShape& shape);

  // x [shard_tokens, hidden], or tokens' numbers for an embedding, to the result: of the same
  // shape, or the mean loss of a head.
  at::Tensor forward(const Formulas& formulas, const at::Tensor& x) const;
  // A fresh input and a gradient of the result.
  at::Tensor input() const;
  at::Tensor output_gradient() const;
  // The same weights in double.
  Block in_double() const;

  std::vector<at::Tensor> weights() const;
  const BlockShape& shape() const { return shape_; }

 private:
  at::Tensor attend(const Formulas& formulas, const at::Tensor& x) const;
  at::Tensor feed(const Formulas& formulas, const at::Tensor& x) const;
  at::Tensor experts(const Formulas& formulas, const at::Tensor& x) const;
  at::Tensor dense(const Formulas& formulas, const at::Tensor& x, const at::Tensor& up,
                   const at::Tensor& down) const;
  at::Tensor all_rows(const at::Tensor& shard) const;
  at::Tensor own_rows(const at::Tensor& all) const;
  at::Tensor ones(std::int64_t width) const;
  at::Tensor weight(std::int64_t out, std::int64_t in) const;

  Place place_;
  BlockShape shape_;
  at::Tensor norm1_, qkv_, bias_, q_norm_, k_norm_, out_, angles_;
  at::Tensor norm2_, router_, shared_up_, shared_down_;
  std::vector<at::Tensor> up_, down_;  // one, or one an expert
  at::Tensor table_, targets_;         // of the embedding or the head
  // Balanced routing: which token each row of the experts is, in expert order, and its slot there.
  at::Tensor row_token_, row_slot_;
  std::vector<std::int64_t> expert_rows_;
};

}  // namespace eratos::device
