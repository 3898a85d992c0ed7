#include "eratos/model/block.h"

#include <variant>

#include "eratos/layer/embedding.h"
#include "eratos/layer/hyper_connection.h"
#include "eratos/layer/mixers.h"
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
  layer::NormState mixer_post_norm;
  layer::NormState feed_forward_post_norm;
  layer::MixerState mixer;
  layer::HyperState mixer_streams;
  layer::HyperState feed_forward_streams;
  layer::MlpState mlp;
  layer::MoeState moe;
  TensorId mask_mixer = ops::kNoTensor;
  TensorId mask_feed_forward = ops::kNoTensor;
};

TensorId feed_forward_forward(const layer::BlockSpec& block, Builder& b, TensorId x,
                              BlockState& s) {
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
  const TensorId d =
      b.tensor("branch_gradient", b.context().shard_tokens() * hidden, Module::residual);
  b.elementwise(Pass::dgrad, Module::residual, ElementwiseClass::streaming, {dy, mask}, {d});
  return d;
}

TensorId sum_gradients(Builder& b, TensorId a, TensorId c, double hidden) {
  const TensorId d =
      b.tensor("stream_gradient", b.context().shard_tokens() * hidden, Module::residual);
  b.elementwise(Pass::dgrad, Module::residual, ElementwiseClass::streaming, {a, c}, {d});
  return d;
}

// What a branch reads of the stream, and what it adds to it.
TensorId enter(const layer::BlockSpec& block, Builder& b, double hidden, TensorId stream,
               layer::NormState& s) {
  if (!block.pre_norm) return stream;
  s = layer::norm_forward(block.norm, b, stream, b.context().shard_tokens(), hidden, Module::norm);
  return s.output;
}
TensorId leave(const layer::BlockSpec& block, Builder& b, double hidden, TensorId branch,
               layer::NormState& s) {
  if (!block.post_norm) return branch;
  s = layer::norm_forward(block.norm, b, branch, b.context().shard_tokens(), hidden, Module::norm);
  return s.output;
}
TensorId enter_backward(const layer::BlockSpec& block, Builder& b, const layer::NormState& s,
                        TensorId dy) {
  return block.pre_norm ? layer::norm_backward(block.norm, b, s, dy, Module::norm) : dy;
}
TensorId leave_backward(const layer::BlockSpec& block, Builder& b, const layer::NormState& s,
                        TensorId dy) {
  return block.post_norm ? layer::norm_backward(block.norm, b, s, dy, Module::norm) : dy;
}

// One branch of the stream by itself: enter, work, leave, residual. A layer that lacks the branch
// hands the stream on.
TensorId mixer_branch(const layer::BlockSpec& block, Builder& b, double hidden, TensorId x,
                      BlockState& s) {
  if (!layer::has_mixer(block)) return x;
  if (block.streams > 1) {
    const TensorId read = layer::collapse_forward(b, hidden, block.streams, x, s.mixer_streams);
    const TensorId input = enter(block, b, hidden, read, s.mixer_norm);
    const TensorId mixed = leave(
        block, b, hidden, layer::mixer_forward(block.mixer, b, input, s.mixer), s.mixer_post_norm);
    return layer::spread_forward(b, hidden, block.streams, mixed, s.mixer_streams);
  }
  const TensorId input = enter(block, b, hidden, x, s.mixer_norm);
  const TensorId mixed = leave(
      block, b, hidden, layer::mixer_forward(block.mixer, b, input, s.mixer), s.mixer_post_norm);
  return add_residual(b, mixed, x, hidden, s.mask_mixer);
}
TensorId feed_forward_branch(const layer::BlockSpec& block, Builder& b, double hidden, TensorId x,
                             BlockState& s) {
  if (!layer::has_feed_forward(block)) return x;
  if (block.streams > 1) {
    const TensorId read =
        layer::collapse_forward(b, hidden, block.streams, x, s.feed_forward_streams);
    const TensorId input = enter(block, b, hidden, read, s.feed_forward_norm);
    const TensorId fed =
        leave(block, b, hidden, feed_forward_forward(block, b, input, s), s.feed_forward_post_norm);
    return layer::spread_forward(b, hidden, block.streams, fed, s.feed_forward_streams);
  }
  const TensorId input = enter(block, b, hidden, x, s.feed_forward_norm);
  const TensorId fed =
      leave(block, b, hidden, feed_forward_forward(block, b, input, s), s.feed_forward_post_norm);
  return add_residual(b, fed, x, hidden, s.mask_feed_forward);
}
TensorId mixer_branch_backward(const layer::BlockSpec& block, Builder& b, double hidden,
                               TensorId dy, const BlockState& s) {
  if (!layer::has_mixer(block)) return dy;
  if (block.streams > 1) {
    const auto g = layer::spread_backward(b, hidden, block.streams, s.mixer_streams, dy);
    const TensorId d = leave_backward(block, b, s.mixer_post_norm, g.branch);
    const TensorId dx =
        enter_backward(block, b, s.mixer_norm, layer::mixer_backward(block.mixer, b, s.mixer, d));
    return layer::collapse_backward(b, hidden, block.streams, s.mixer_streams, g, dx);
  }
  const TensorId d =
      leave_backward(block, b, s.mixer_post_norm, branch_gradient(b, dy, s.mask_mixer, hidden));
  const TensorId dx =
      enter_backward(block, b, s.mixer_norm, layer::mixer_backward(block.mixer, b, s.mixer, d));
  return sum_gradients(b, dx, dy, hidden);
}
TensorId feed_forward_branch_backward(const layer::BlockSpec& block, Builder& b, double hidden,
                                      TensorId dy, const BlockState& s) {
  if (!layer::has_feed_forward(block)) return dy;
  if (block.streams > 1) {
    const auto g = layer::spread_backward(b, hidden, block.streams, s.feed_forward_streams, dy);
    const TensorId d = leave_backward(block, b, s.feed_forward_post_norm, g.branch);
    const TensorId dx =
        enter_backward(block, b, s.feed_forward_norm, feed_forward_backward(block, b, s, d));
    return layer::collapse_backward(b, hidden, block.streams, s.feed_forward_streams, g, dx);
  }
  const TensorId d = leave_backward(block, b, s.feed_forward_post_norm,
                                    branch_gradient(b, dy, s.mask_feed_forward, hidden));
  const TensorId dx =
      enter_backward(block, b, s.feed_forward_norm, feed_forward_backward(block, b, s, d));
  return sum_gradients(b, dx, dy, hidden);
}

TensorId block_forward(const layer::BlockSpec& block, Builder& b, double hidden, TensorId x,
                       BlockState& s) {
  if (!block.parallel) {
    return feed_forward_branch(block, b, hidden, mixer_branch(block, b, hidden, x, s), s);
  }
  const TensorId mixer_input = enter(block, b, hidden, x, s.mixer_norm);
  const TensorId mixed =
      leave(block, b, hidden, layer::mixer_forward(block.mixer, b, mixer_input, s.mixer),
            s.mixer_post_norm);
  const TensorId input =
      block.norm_per_branch ? enter(block, b, hidden, x, s.feed_forward_norm) : mixer_input;
  const TensorId fed =
      leave(block, b, hidden, feed_forward_forward(block, b, input, s), s.feed_forward_post_norm);
  const TensorId both = add_residual(b, mixed, fed, hidden, s.mask_mixer);
  return add_residual(b, both, x, hidden, s.mask_feed_forward);
}

TensorId block_backward(const layer::BlockSpec& block, Builder& b, double hidden, TensorId dy,
                        const BlockState& s) {
  if (!block.parallel) {
    return mixer_branch_backward(block, b, hidden,
                                 feed_forward_branch_backward(block, b, hidden, dy, s), s);
  }
  const TensorId d_added = branch_gradient(b, dy, s.mask_feed_forward, hidden);
  const TensorId d_fed = leave_backward(block, b, s.feed_forward_post_norm, d_added);
  TensorId d_input = feed_forward_backward(block, b, s, d_fed);
  const TensorId d_mixed = leave_backward(block, b, s.mixer_post_norm,
                                          branch_gradient(b, d_added, s.mask_mixer, hidden));
  if (block.norm_per_branch) d_input = enter_backward(block, b, s.feed_forward_norm, d_input);
  TensorId d_both = layer::mixer_backward(block.mixer, b, s.mixer, d_mixed);
  if (block.norm_per_branch) d_both = enter_backward(block, b, s.mixer_norm, d_both);
  d_both = sum_gradients(b, d_input, d_both, hidden);
  if (!block.norm_per_branch) d_both = enter_backward(block, b, s.mixer_norm, d_both);
  return sum_gradients(b, d_both, dy, hidden);
}

// One row as every stream, and the sum of the streams.
TensorId repeat_stream(Builder& b, double hidden, int streams, TensorId x) {
  if (streams == 1) return x;
  const TensorId y =
      b.tensor("streams", b.context().shard_tokens() * streams * hidden, Module::residual);
  b.elementwise(Pass::forward, Module::residual, ElementwiseClass::streaming, {x}, {y});
  return y;
}
TensorId add_streams(Builder& b, Pass pass, double hidden, int streams, TensorId x) {
  if (streams == 1) return x;
  const TensorId y = b.tensor("stream_sum", b.context().shard_tokens() * hidden, Module::residual);
  b.elementwise(pass, Module::residual, ElementwiseClass::streaming, {x}, {y});
  return y;
}

TensorId incoming(Builder& b, double hidden) {
  return b.tensor("block_input", b.context().shard_tokens() * hidden, Module::residual);
}

TensorId incoming_gradient(Builder& b, double hidden) {
  return b.tensor("output_gradient", b.context().shard_tokens() * hidden, Module::residual);
}

}  // namespace

const char* kind_of(const layer::BlockSpec& block) {
  const bool moe = std::holds_alternative<layer::MoeSpec>(block.feed_forward);
  const layer::MixerNames names = layer::mixer_names(block.mixer);
  return !layer::has_feed_forward(block) ? names.alone : moe ? names.moe : names.dense;
}

void lower_block(const layer::BlockSpec& block, const layer::LayerContext& context, double hidden,
                 ops::Program& out) {
  out.name = kind_of(block);
  Builder b(out, context);
  BlockState s;
  const double wide = block.streams * hidden;
  out.input = incoming(b, wide);
  out.output = block_forward(block, b, hidden, out.input, s);
  block_backward(block, b, hidden, incoming_gradient(b, wide), s);
}

void lower_embedding(const layer::EmbeddingSpec& spec, const layer::LayerContext& context,
                     ops::Program& out) {
  out.name = "embedding";
  Builder b(out, context);
  layer::EmbeddingState s;
  out.output = repeat_stream(b, spec.hidden, spec.streams, layer::embedding_forward(spec, b, s));
  const TensorId dy = incoming_gradient(b, spec.streams * spec.hidden);
  layer::embedding_backward(spec, b, s, add_streams(b, Pass::dgrad, spec.hidden, spec.streams, dy));
}

void lower_output(const layer::OutputSpec& spec, const layer::LayerContext& context,
                  bool own_weight, ops::Program& out) {
  out.name = "output";
  Builder b(out, context);
  layer::OutputState s;
  out.input = incoming(b, spec.streams * spec.hidden);
  layer::HyperState mixed;
  TensorId x = out.input;
  if (spec.streams > 1) x = layer::hyper_head_forward(b, spec.hidden, spec.streams, x, mixed);
  layer::output_forward(spec, b, x, s, own_weight);
  const TensorId dx = layer::output_backward(spec, b, s);
  if (spec.streams > 1) layer::hyper_head_backward(b, spec.hidden, spec.streams, mixed, dx);
}

void lower_mtp(const layer::BlockSpec& block, const layer::OutputSpec& head,
               const layer::LayerContext& context, double hidden, ops::Program& out) {
  out.name = "mtp";
  Builder b(out, context);
  const double tokens = context.shard_tokens();
  out.input = incoming(b, block.streams * hidden);
  // Assumes: a prediction module joins the sum of the residual streams with the embedding.
  const TensorId trunk = add_streams(b, Pass::forward, hidden, block.streams, out.input);
  const TensorId embedded = b.tensor("mtp_embedding", tokens * hidden, Module::mtp);
  b.elementwise(Pass::forward, Module::mtp, ElementwiseClass::permute, {trunk}, {embedded});
  const layer::NormState norm_h =
      layer::norm_forward(block.norm, b, trunk, tokens, hidden, Module::mtp);
  const layer::NormState norm_e =
      layer::norm_forward(block.norm, b, embedded, tokens, hidden, Module::mtp);
  const TensorId joined = b.tensor("mtp_joined", 2 * tokens * hidden, Module::mtp);
  b.elementwise(Pass::forward, Module::mtp, ElementwiseClass::streaming,
                {norm_h.output, norm_e.output}, {joined});
  const layer::LinearSpec join{"mtp_projection", 2 * hidden, hidden, layer::Split::column,
                               Module::mtp,      false,      1};
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
  const int n = block.streams;
  const TensorId y = block_forward(block, b, hidden, repeat_stream(b, hidden, n, x), s);
  layer::OutputState o;
  layer::HyperState mixed;
  const TensorId read = n > 1 ? layer::hyper_head_forward(b, hidden, n, y, mixed) : y;
  layer::output_forward(head, b, read, o, false);
  out.output = y;
  TensorId dx = layer::output_backward(head, b, o);
  if (n > 1) dx = layer::hyper_head_backward(b, hidden, n, mixed, dx);
  dx = add_streams(b, Pass::dgrad, hidden, n, block_backward(block, b, hidden, dx, s));
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
