#include "eratos/model/block.h"

#include <variant>

#include "eratos/layer/attention.h"
#include "eratos/layer/embedding.h"
#include "eratos/layer/mla.h"
#include "eratos/layer/mlp.h"
#include "eratos/layer/moe.h"
#include "eratos/layer/output.h"

namespace eratos::model {

namespace {

using layer::Builder;
using ops::CollectiveKind;
using ops::ElementwiseClass;
using ops::Module;
using ops::Pass;
using ops::TensorId;
using parallel::Axis;

struct BlockState {
  layer::NormState mixer_norm;
  layer::NormState feed_forward_norm;
  layer::AttentionState attention;
  layer::MlaState mla;
  layer::MlpState mlp;
  layer::MoeState moe;
  TensorId mask_mixer = ops::kNoTensor;
  TensorId mask_feed_forward = ops::kNoTensor;
};

TensorId mixer_forward(const layer::BlockSpec& block, Builder& b, TensorId x, BlockState& s) {
  if (const auto* a = std::get_if<layer::AttentionSpec>(&block.mixer)) {
    return layer::attention_forward(*a, b, x, s.attention);
  }
  return layer::mla_forward(*std::get_if<layer::MlaSpec>(&block.mixer), b, x, s.mla);
}

TensorId mixer_backward(const layer::BlockSpec& block, Builder& b, const BlockState& s, TensorId dy) {
  if (const auto* a = std::get_if<layer::AttentionSpec>(&block.mixer)) {
    return layer::attention_backward(*a, b, s.attention, dy);
  }
  return layer::mla_backward(*std::get_if<layer::MlaSpec>(&block.mixer), b, s.mla, dy);
}

TensorId feed_forward_forward(const layer::BlockSpec& block, Builder& b, TensorId x, BlockState& s) {
  if (const auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward)) {
    return layer::mlp_forward(*m, b, x, s.mlp);
  }
  return layer::moe_forward(*std::get_if<layer::MoeSpec>(&block.feed_forward), b, x, s.moe);
}

TensorId feed_forward_backward(const layer::BlockSpec& block, Builder& b, const BlockState& s,
                               TensorId dy) {
  if (const auto* m = std::get_if<layer::MlpSpec>(&block.feed_forward)) {
    return layer::mlp_backward(*m, b, s.mlp, dy);
  }
  return layer::moe_backward(*std::get_if<layer::MoeSpec>(&block.feed_forward), b, s.moe, dy);
}

TensorId add_residual(Builder& b, TensorId branch, TensorId stream, double hidden, TensorId& mask) {
  const layer::LayerContext& c = b.context();
  const double elements = c.shard_tokens() * hidden;
  const TensorId y = b.tensor("residual", elements, Module::residual);
  if (c.hidden_dropout > 0) {
    mask = b.tensor("dropout_mask", elements, DType::bool8, Module::residual);
    b.save(mask);
  }
  ops::Op& op = b.elementwise(Pass::forward, Module::residual, ElementwiseClass::streaming,
                              {branch, stream}, {y, mask});
  if (!b.profile().fusions.residual && c.hidden_dropout > 0) op.kernels = 2;
  return y;
}

// The gradient that enters a branch: the stream's, through the dropout mask.
TensorId branch_gradient(Builder& b, TensorId dy, TensorId mask, double hidden) {
  if (mask == ops::kNoTensor) return dy;
  const TensorId d = b.tensor("branch_gradient", b.context().shard_tokens() * hidden, Module::residual);
  b.elementwise(Pass::dgrad, Module::residual, ElementwiseClass::streaming, {dy, mask}, {d});
  return d;
}

TensorId sum_gradients(Builder& b, TensorId a, TensorId c, double hidden) {
  const TensorId d = b.tensor("stream_gradient", b.context().shard_tokens() * hidden, Module::residual);
  b.elementwise(Pass::dgrad, Module::residual, ElementwiseClass::streaming, {a, c}, {d});
  return d;
}

TensorId block_forward(const layer::BlockSpec& block, Builder& b, double hidden, TensorId x,
                       BlockState& s) {
  const double tokens = b.context().shard_tokens();
  s.mixer_norm = layer::norm_forward(block.norm, b, x, tokens, hidden, Module::norm);
  const TensorId mixed = mixer_forward(block, b, s.mixer_norm.output, s);
  if (block.parallel) {
    const TensorId fed = feed_forward_forward(block, b, s.mixer_norm.output, s);
    const TensorId both = add_residual(b, mixed, fed, hidden, s.mask_mixer);
    return add_residual(b, both, x, hidden, s.mask_feed_forward);
  }
  const TensorId middle = add_residual(b, mixed, x, hidden, s.mask_mixer);
  s.feed_forward_norm = layer::norm_forward(block.norm, b, middle, tokens, hidden, Module::norm);
  const TensorId fed = feed_forward_forward(block, b, s.feed_forward_norm.output, s);
  return add_residual(b, fed, middle, hidden, s.mask_feed_forward);
}

TensorId block_backward(const layer::BlockSpec& block, Builder& b, double hidden, TensorId dy,
                        const BlockState& s) {
  const TensorId d_fed = branch_gradient(b, dy, s.mask_feed_forward, hidden);
  if (block.parallel) {
    const TensorId d_a = feed_forward_backward(block, b, s, d_fed);
    const TensorId d_b = mixer_backward(block, b, s, branch_gradient(b, d_fed, s.mask_mixer, hidden));
    const TensorId d_norm = sum_gradients(b, d_a, d_b, hidden);
    const TensorId dx = layer::norm_backward(block.norm, b, s.mixer_norm, d_norm, Module::norm);
    return sum_gradients(b, dx, dy, hidden);
  }
  const TensorId d_normed = feed_forward_backward(block, b, s, d_fed);
  const TensorId d_middle_branch =
      layer::norm_backward(block.norm, b, s.feed_forward_norm, d_normed, Module::norm);
  const TensorId d_middle = sum_gradients(b, d_middle_branch, dy, hidden);
  const TensorId d_mixed =
      mixer_backward(block, b, s, branch_gradient(b, d_middle, s.mask_mixer, hidden));
  const TensorId dx = layer::norm_backward(block.norm, b, s.mixer_norm, d_mixed, Module::norm);
  return sum_gradients(b, dx, d_middle, hidden);
}

TensorId incoming(Builder& b, double hidden) {
  return b.tensor("block_input", b.context().shard_tokens() * hidden, Module::residual);
}

TensorId incoming_gradient(Builder& b, double hidden) {
  return b.tensor("output_gradient", b.context().shard_tokens() * hidden, Module::residual);
}

}  // namespace

void lower_block(const layer::BlockSpec& block, const layer::LayerContext& context, double hidden,
                 ops::Program& out) {
  out.name = std::holds_alternative<layer::MoeSpec>(block.feed_forward) ? "moe layer" : "dense layer";
  Builder b(out, context);
  BlockState s;
  out.input = incoming(b, hidden);
  out.output = block_forward(block, b, hidden, out.input, s);
  block_backward(block, b, hidden, incoming_gradient(b, hidden), s);
}

void lower_embedding(const layer::EmbeddingSpec& spec, const layer::LayerContext& context,
                     ops::Program& out) {
  out.name = "embedding";
  Builder b(out, context);
  layer::EmbeddingState s;
  out.output = layer::embedding_forward(spec, b, s);
  layer::embedding_backward(spec, b, s, incoming_gradient(b, spec.hidden));
}

void lower_output(const layer::OutputSpec& spec, const layer::LayerContext& context, bool own_weight,
                  ops::Program& out) {
  out.name = "output";
  Builder b(out, context);
  layer::OutputState s;
  out.input = incoming(b, spec.hidden);
  layer::output_forward(spec, b, out.input, s, own_weight);
  layer::output_backward(spec, b, s);
}

void lower_mtp(const layer::BlockSpec& block, const layer::OutputSpec& head,
               const layer::LayerContext& context, double hidden, ops::Program& out) {
  out.name = "mtp";
  Builder b(out, context);
  const double tokens = context.shard_tokens();
  out.input = incoming(b, hidden);
  const TensorId embedded = b.tensor("mtp_embedding", tokens * hidden, Module::mtp);
  b.elementwise(Pass::forward, Module::mtp, ElementwiseClass::permute, {out.input}, {embedded});
  const layer::NormState norm_h = layer::norm_forward(block.norm, b, out.input, tokens, hidden, Module::mtp);
  const layer::NormState norm_e = layer::norm_forward(block.norm, b, embedded, tokens, hidden, Module::mtp);
  const TensorId joined = b.tensor("mtp_joined", 2 * tokens * hidden, Module::mtp);
  b.elementwise(Pass::forward, Module::mtp, ElementwiseClass::streaming,
                {norm_h.output, norm_e.output}, {joined});
  const layer::LinearSpec join{"mtp_projection", 2 * hidden, hidden, layer::Split::column,
                               Module::mtp, false, 1};
  layer::LinearState join_state;
  TensorId x = layer::linear_forward(join, b, joined, join_state);
  const double whole = context.tokens() * hidden;
  if (context.tp > 1) {
    const TensorId columns = b.tensor("mtp_gathered", whole, Module::mtp);
    b.collective(Pass::forward, Module::mtp, CollectiveKind::all_gather, Axis::tp, whole,
                 context.activation, {x}, {columns});
    x = columns;
  }
  if (context.sequence_parallel) {
    const TensorId rows = b.tensor("mtp_shard", tokens * hidden, Module::mtp);
    b.slice(Module::mtp, x, {rows});
    x = rows;
  }
  BlockState s;
  const TensorId y = block_forward(block, b, hidden, x, s);
  layer::OutputState o;
  layer::output_forward(head, b, y, o, false);
  out.output = y;
  const TensorId dy = layer::output_backward(head, b, o);
  TensorId dx = block_backward(block, b, hidden, dy, s);
  if (context.sequence_parallel) {
    const TensorId rows = b.tensor("mtp_gradient_gathered", whole, Module::mtp);
    b.collective(Pass::dgrad, Module::mtp, CollectiveKind::all_gather, Axis::tp, whole,
                 context.activation, {dx}, {rows});
    dx = rows;
  }
  const TensorId d_joined = layer::linear_backward(join, b, join_state, dx);
  const TensorId d_e = layer::norm_backward(block.norm, b, norm_e, d_joined, Module::mtp);
  const TensorId d_h = layer::norm_backward(block.norm, b, norm_h, d_joined, Module::mtp);
  sum_gradients(b, d_e, d_h, hidden);
}

}  // namespace eratos::model
