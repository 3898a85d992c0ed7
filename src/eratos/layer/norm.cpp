#include "eratos/layer/norm.h"

namespace eratos::layer {

using ops::ElementwiseClass;

double norm_parameters(const NormSpec& spec, double width) {
  if (!spec.weight) return 0;
  return spec.kind == NormKind::layernorm && spec.bias ? 2 * width : width;
}

namespace {

// LayerNorm is one operator even in eager PyTorch; RMSNorm written out is not.
bool one_kernel(const NormSpec& spec, const Builder& b) {
  return b.profile().fusions.norm || spec.kind == NormKind::layernorm;
}

}  // namespace

NormState norm_forward(const NormSpec& spec, Builder& b, TensorId x, double tokens, double width,
                       Module module, bool replicated) {
  NormState s;
  s.input = x;
  s.tokens = tokens;
  s.width = width;
  if (spec.weight)
    b.vector_parameter("norm_weight", norm_parameters(spec, width), module, replicated);
  const double statistics = spec.kind == NormKind::layernorm ? 2 : 1;
  s.statistic = b.tensor("norm_statistic", tokens * statistics, DType::fp32, module);
  if (one_kernel(spec, b)) {
    s.output = b.tensor("norm_output", tokens * width, module);
    b.elementwise(Pass::forward, module, ElementwiseClass::norm_forward, {x},
                  {s.output, s.statistic});
    b.save(x);
    b.save(s.statistic);
    return s;
  }
  const bool narrow = b.context().activation != DType::fp32;
  TensorId wide = x;
  if (narrow) {
    wide = b.tensor("norm_input_fp32", tokens * width, DType::fp32, module);
    b.elementwise(Pass::forward, module, ElementwiseClass::streaming, {x}, {wide});
  }
  s.wide = wide;
  const TensorId square = b.tensor("norm_square", tokens * width, DType::fp32, module);
  b.elementwise(Pass::forward, module, ElementwiseClass::streaming, {wide}, {square});
  b.elementwise(Pass::forward, module, ElementwiseClass::streaming, {square}, {s.statistic});
  s.normalized = b.tensor("norm_normalized", tokens * width, DType::fp32, module);
  b.elementwise(Pass::forward, module, ElementwiseClass::streaming, {wide, s.statistic},
                {s.normalized});
  TensorId scaled = s.normalized;
  if (narrow) {
    s.cast = b.tensor("norm_cast", tokens * width, module);
    b.elementwise(Pass::forward, module, ElementwiseClass::streaming, {s.normalized}, {s.cast});
    scaled = s.cast;
  }
  s.output = scaled;
  if (spec.weight) {
    s.output = b.tensor("norm_output", tokens * width, module);
    b.elementwise(Pass::forward, module, ElementwiseClass::streaming, {scaled}, {s.output});
    if (!b.context().frozen) b.save(scaled);
  }
  b.save(wide);
  b.save(s.statistic);
  if (b.profile().saved.eager_norm_square) {
    b.save(square);
    s.square = square;
  }
  return s;
}

TensorId norm_backward(const NormSpec& spec, Builder& b, const NormState& s, TensorId dy,
                       Module module) {
  const TensorId dx = b.tensor("norm_input_gradient", s.tokens * s.width, module);
  if (one_kernel(spec, b)) {
    b.elementwise(Pass::dgrad, module, ElementwiseClass::norm_backward, {s.input, s.statistic, dy},
                  {dx});
    return dx;
  }
  TensorId scaled = s.cast == ops::kNoTensor ? s.normalized : s.cast;
  if (!spec.weight || b.context().frozen) scaled = ops::kNoTensor;
  const TensorId d_normalized =
      b.tensor("norm_normalized_gradient", s.tokens * s.width, DType::fp32, module);
  b.elementwise(Pass::dgrad, module, ElementwiseClass::norm_backward, {dy, scaled}, {d_normalized});
  const TensorId d_wide =
      b.tensor("norm_input_gradient_fp32", s.tokens * s.width, DType::fp32, module);
  b.elementwise(Pass::dgrad, module, ElementwiseClass::streaming,
                {d_normalized, s.wide, s.statistic, s.square}, {d_wide});
  b.elementwise(Pass::dgrad, module, ElementwiseClass::streaming, {d_wide, s.wide}, {dx});
  return dx;
}

}  // namespace eratos::layer
