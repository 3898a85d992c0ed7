#include "eratos/layer/embedding.h"

namespace eratos::layer {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using parallel::Axis;

namespace {
constexpr Module kModule = Module::embedding;
}

TensorId embedding_forward(const EmbeddingSpec& spec, Builder& b, EmbeddingState& s) {
  const LayerContext& c = b.context();
  const double table = spec.vocab / c.tp * spec.hidden;
  b.embedding_parameter("word_embedding", table, kModule);
  if (spec.positions > 0)
    b.vector_parameter("position_embedding", spec.positions * spec.hidden, kModule);
  s.ids = b.tensor("token_ids", c.tokens(), DType::int64, kModule);
  b.save(s.ids);
  TensorId y = b.tensor("embedding_rows", c.tokens() * spec.hidden, kModule);
  // Rows are gathered: one read and one write of T*h (the write is counted with the tensor).
  b.elementwise(Pass::forward, kModule, ElementwiseClass::permute, {}, {s.ids, y},
                bytes_of(c.tokens() * spec.hidden, c.activation));
  if (c.tp > 1) {
    if (c.sequence_parallel) {
      const TensorId shard = b.tensor("embedding_shard", c.shard_tokens() * spec.hidden, kModule);
      b.collective(Pass::forward, kModule, CollectiveKind::reduce_scatter, Axis::tp,
                   c.tokens() * spec.hidden, c.activation, {y}, {shard});
      y = shard;
    } else {
      b.collective(Pass::forward, kModule, CollectiveKind::all_reduce, Axis::tp,
                   c.tokens() * spec.hidden, c.activation, {y}, {y});
    }
  }
  if (spec.scale) {
    const TensorId scaled = b.tensor("embedding_scaled", c.shard_tokens() * spec.hidden, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {y}, {scaled});
    y = scaled;
  }
  if (spec.positions > 0) {
    const TensorId sum = b.tensor("embedding_sum", c.shard_tokens() * spec.hidden, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {y}, {sum});
    y = sum;
  }
  if (c.hidden_dropout > 0) {
    s.mask =
        b.tensor("embedding_dropout_mask", c.shard_tokens() * spec.hidden, DType::bool8, kModule);
    const TensorId dropped = b.tensor("embedding_dropped", c.shard_tokens() * spec.hidden, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {y}, {dropped, s.mask});
    b.save(s.mask);
    y = dropped;
  }
  if (spec.norm) {
    s.norm = norm_forward(spec.norm_spec, b, y, c.shard_tokens(), spec.hidden, kModule);
    y = s.norm.output;
  }
  return y;
}

void embedding_backward(const EmbeddingSpec& spec, Builder& b, const EmbeddingState& s,
                        TensorId dy) {
  const LayerContext& c = b.context();
  if (spec.norm) dy = norm_backward(spec.norm_spec, b, s.norm, dy, kModule);
  const double shard = c.shard_tokens() * spec.hidden;
  if (s.mask != ops::kNoTensor) {
    const TensorId undropped = b.tensor("embedding_undropped_gradient", shard, kModule);
    b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming, {dy, s.mask}, {undropped});
    dy = undropped;
  }
  if (spec.positions > 0) {
    // The rows of a position add up over the sequences, into the main gradient.
    b.elementwise(Pass::wgrad, kModule, ElementwiseClass::streaming, {dy}, {},
                  2.0 * bytes_of(spec.positions * spec.hidden, b.profile().state.gradient));
  }
  if (spec.scale) {
    const TensorId scaled = b.tensor("embedding_scaled_gradient", shard, kModule);
    b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming, {dy}, {scaled});
    dy = scaled;
  }
  if (c.tp > 1 && c.sequence_parallel) {
    const TensorId whole = b.tensor("embedding_gradient_rows", c.tokens() * spec.hidden, kModule);
    b.collective(Pass::dgrad, kModule, CollectiveKind::all_gather, Axis::tp,
                 c.tokens() * spec.hidden, c.activation, {dy}, {whole});
    dy = whole;
  }
  const double table = spec.vocab / c.tp * spec.hidden;
  const TensorId dw = b.tensor("embedding_gradient", table, kModule);
  b.elementwise(Pass::wgrad, kModule, ElementwiseClass::permute, {s.ids, dy}, {dw});
  // The dense gradient is added into the main gradient: read both, write one.
  b.elementwise(Pass::wgrad, kModule, ElementwiseClass::streaming, {dw}, {},
                2.0 * bytes_of(table, b.profile().state.gradient));
}

}  // namespace eratos::layer
