#include "eratos/layer/hyper_connection.h"

namespace eratos::layer {

using ops::ElementwiseClass;

namespace {

constexpr Module kModule = Module::residual;

double numbers(int streams) { return (2.0 + streams) * streams; }

// A norm written out in fp32, bytes an element beyond its operands and results: the square (4 + 4)
// and its mean (4); backward both factors' gradients (4 + 4, 8 + 4, 4), the square's (4 + 4), their
// sum (8 + 4) and its cast (4 + 2), of which 16 are counted.
constexpr double kEagerForward = 12;
constexpr double kEagerBackward = 50 - 16;

// The numbers of the mixture: `count` a token.
void mix(Builder& b, double hidden, int streams, double count, TensorId x, HyperState& s) {
  const double tokens = b.context().shard_tokens();
  const double wide = streams * hidden;
  s.streams = x;
  b.save(x);
  s.normed = b.tensor("normalised_streams", tokens * wide, DType::fp32, kModule);
  if (b.profile().fusions.unweighted_norm) {
    b.elementwise(Pass::forward, kModule, ElementwiseClass::norm_forward, {x}, {s.normed});
  } else {
    s.cast = b.tensor("cast_streams", tokens * wide, DType::fp32, kModule);
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {x}, {s.cast});
    b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {s.cast}, {s.normed},
                  Bytes{tokens * wide * kEagerForward})
        .kernels = 4;
    b.save(s.cast);
  }
  b.save(s.normed);
  b.parameter("stream_mixer", wide * count, kModule, true);
  s.mixture = b.tensor("stream_mixture", tokens * count, DType::fp32, kModule);
  b.gemm(Pass::forward, kModule, {tokens, count, wide, 1, DType::fp32}, {s.normed}, {s.mixture});
  b.save(s.mixture);
}

TensorId mix_backward(Builder& b, double hidden, int streams, double count, const HyperState& s,
                      TensorId d_mixture, TensorId d_streams) {
  const double tokens = b.context().shard_tokens();
  const double wide = streams * hidden;
  const TensorId d_normed =
      b.tensor("normalised_stream_gradient", tokens * wide, DType::fp32, kModule);
  b.gemm(Pass::dgrad, kModule, {tokens, wide, count, 1, DType::fp32}, {d_mixture}, {d_normed});
  b.gemm(Pass::wgrad, kModule, {count, wide, tokens, 1, DType::fp32}, {s.normed, d_mixture}, {});
  const TensorId dx = b.tensor("stream_gradient", tokens * wide, kModule);
  const bool fused = b.profile().fusions.unweighted_norm;
  b.elementwise(Pass::dgrad, kModule,
                fused ? ElementwiseClass::norm_backward : ElementwiseClass::streaming,
                {d_normed, s.normed, s.cast, d_streams}, {dx},
                fused ? Bytes{} : Bytes{tokens * wide * kEagerBackward})
      .kernels = fused ? 1 : 8;
  return dx;
}

}  // namespace

double hyper_parameters(double hidden, int streams) {
  return streams > 1 ? streams * hidden * numbers(streams) + numbers(streams) + 3 : 0;
}

double hyper_head_parameters(double hidden, int streams) {
  return streams > 1 ? streams * hidden * streams + streams + 1 : 0;
}

TensorId collapse_forward(Builder& b, double hidden, int streams, TensorId x, HyperState& s) {
  mix(b, hidden, streams, numbers(streams), x, s);
  b.vector_parameter("stream_bias", numbers(streams) + 3, kModule);
  const TensorId y = b.tensor("collapsed", b.context().shard_tokens() * hidden, kModule);
  b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {x, s.mixture}, {y}).kernels =
      3;
  return y;
}

TensorId spread_forward(Builder& b, double hidden, int streams, TensorId branch, HyperState& s) {
  s.branch = branch;
  b.save(branch);
  const TensorId y = b.tensor("residual", b.context().shard_tokens() * streams * hidden, kModule);
  b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {branch, s.streams, s.mixture},
                {y});
  return y;
}

SpreadGradients spread_backward(Builder& b, double hidden, int streams, const HyperState& s,
                                TensorId dy) {
  const double tokens = b.context().shard_tokens();
  SpreadGradients g;
  g.branch = b.tensor("branch_gradient", tokens * hidden, kModule);
  g.streams = b.tensor("spread_gradient", tokens * streams * hidden, kModule);
  g.mixture = b.tensor("mixture_gradient", tokens * numbers(streams), DType::fp32, kModule);
  b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming,
                {dy, s.branch, s.streams, s.mixture}, {g.branch, g.streams, g.mixture});
  return g;
}

TensorId collapse_backward(Builder& b, double hidden, int streams, const HyperState& s,
                           const SpreadGradients& g, TensorId d_collapsed) {
  b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming,
                {d_collapsed, s.streams, s.mixture, g.streams}, {g.streams, g.mixture})
      .kernels = 3;
  return mix_backward(b, hidden, streams, numbers(streams), s, g.mixture, g.streams);
}

TensorId hyper_head_forward(Builder& b, double hidden, int streams, TensorId x, HyperState& s) {
  mix(b, hidden, streams, streams, x, s);
  b.vector_parameter("stream_bias", streams + 1, kModule);
  const TensorId y = b.tensor("collapsed", b.context().shard_tokens() * hidden, kModule);
  b.elementwise(Pass::forward, kModule, ElementwiseClass::streaming, {x, s.mixture}, {y});
  return y;
}

TensorId hyper_head_backward(Builder& b, double hidden, int streams, const HyperState& s,
                             TensorId dy) {
  const double tokens = b.context().shard_tokens();
  const TensorId d_streams = b.tensor("spread_gradient", tokens * streams * hidden, kModule);
  const TensorId d_mixture = b.tensor("mixture_gradient", tokens * streams, DType::fp32, kModule);
  b.elementwise(Pass::dgrad, kModule, ElementwiseClass::streaming, {dy, s.streams, s.mixture},
                {d_streams, d_mixture});
  return mix_backward(b, hidden, streams, streams, s, d_mixture, d_streams);
}

}  // namespace eratos::layer
