#include "eratos/layer/linear.h"

namespace eratos::layer {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using parallel::Axis;

namespace {

struct Local {
  double tokens;  // rows of the product
  double in;
  double out;
};

Local local_sizes(const LinearSpec& spec, const LayerContext& c) {
  switch (spec.split) {
    case Split::column:
      return {c.tokens(), spec.in, spec.out / c.tp};
    case Split::row:
      return {c.tokens(), spec.in / c.tp, spec.out};
    case Split::replicated:
      return {c.shard_tokens(), spec.in, spec.out};
  }
  return {};
}

// The weight gradient as a tensor of its own, where the product does not add into the main
// gradient; then one more pass adds it.
void weight_gradient(const LinearSpec& spec, Builder& b, const Local& size, TensorId x,
                     TensorId dy) {
  const auto& state = b.profile().state;
  const ops::Gemm work{
      size.out, size.in, size.tokens, 1, b.context().activation, state.wgrad_fused_accumulation};
  if (state.wgrad_fused_accumulation) {
    TensorId placeholder = ops::kNoTensor;
    if (spec.fresh_placeholder && state.gradient_placeholders) {
      placeholder = b.tensor("weight_placeholder", size.out * size.in, spec.module);
    }
    b.gemm(Pass::wgrad, spec.module, work, {x, dy}, {placeholder});
  } else {
    const TensorId dw = b.tensor("weight_gradient", size.out * size.in, spec.module);
    b.gemm(Pass::wgrad, spec.module, work, {x, dy}, {dw}).kernels =
        static_cast<std::uint16_t>(spec.products);
    const Bytes main = 2.0 * bytes_of(size.out * size.in, state.gradient);
    b.elementwise(Pass::wgrad, spec.module, ElementwiseClass::streaming, {dw}, {}, main);
  }
  if (spec.bias) {
    b.elementwise(Pass::wgrad, spec.module, ElementwiseClass::streaming, {dy}, {});
  }
}

}  // namespace

double linear_weight(const LinearSpec& spec, int tp) {
  return spec.split == Split::replicated ? spec.in * spec.out : spec.in * spec.out / tp;
}

void linear_parameters(const LinearSpec& spec, Builder& b) {
  b.parameter(spec.name, linear_weight(spec, b.context().tp), spec.module,
              spec.split == Split::replicated);
  if (spec.bias) {
    const double width = spec.split == Split::column ? spec.out / b.context().tp : spec.out;
    b.vector_parameter("bias", width, spec.module, spec.split != Split::column);
  }
}

TensorId linear_forward(const LinearSpec& spec, Builder& b, TensorId x, LinearState& s,
                        TensorId shared_gather) {
  const LayerContext& c = b.context();
  const Local size = local_sizes(spec, c);
  linear_parameters(spec, b);
  s.input = x;
  TensorId operand = x;
  if (spec.split == Split::column && c.sequence_parallel && c.tp > 1) {
    operand = shared_gather;
    if (operand == ops::kNoTensor) {
      operand = b.tensor("gathered_input", size.tokens * size.in, spec.module);
      b.collective(Pass::forward, spec.module, CollectiveKind::all_gather, Axis::tp,
                   size.tokens * size.in, c.activation, {x}, {operand});
    }
    if (b.profile().saved.gathered_input) s.gathered = operand;
  }
  b.save_gemm_input(s.gathered != ops::kNoTensor ? s.gathered : x);
  TensorId y = b.tensor("linear_output", size.tokens * size.out, spec.module);
  b.gemm(Pass::forward, spec.module, {size.tokens, size.out, size.in, 1, c.activation}, {operand},
         {y})
      .kernels = static_cast<std::uint16_t>(spec.products);
  if (spec.split == Split::row && c.tp > 1) {
    if (c.sequence_parallel) {
      const TensorId shard = b.tensor("reduced_output", c.shard_tokens() * size.out, spec.module);
      b.collective(Pass::forward, spec.module, CollectiveKind::reduce_scatter, Axis::tp,
                   size.tokens * size.out, c.activation, {y}, {shard});
      y = shard;
    } else {
      b.collective(Pass::forward, spec.module, CollectiveKind::all_reduce, Axis::tp,
                   size.tokens * size.out, c.activation, {y}, {y});
    }
  }
  return y;
}

TensorId linear_backward(const LinearSpec& spec, Builder& b, const LinearState& s, TensorId dy) {
  const LayerContext& c = b.context();
  const Local size = local_sizes(spec, c);
  const bool scattered = c.sequence_parallel && c.tp > 1;
  const double beside = b.profile().overlap.tp_backward_share;
  TensorId x = s.input;
  if (spec.split == Split::column && scattered) {
    x = s.gathered;
    if (x == ops::kNoTensor) {
      x = b.tensor("regathered_input", size.tokens * size.in, spec.module);
      b.collective(Pass::dgrad, spec.module, CollectiveKind::all_gather, Axis::tp,
                   size.tokens * size.in, c.activation, {s.input}, {x}, beside);
    }
  }
  if (spec.split == Split::row && scattered) {
    const TensorId whole = b.tensor("gathered_gradient", size.tokens * size.out, spec.module);
    b.collective(Pass::dgrad, spec.module, CollectiveKind::all_gather, Axis::tp,
                 size.tokens * size.out, c.activation, {dy}, {whole});
    dy = whole;
  }
  TensorId dx = b.tensor("linear_input_gradient", size.tokens * size.in, spec.module);
  const TensorId whole_dx = dx;
  b.gemm(Pass::dgrad, spec.module, {size.tokens, size.in, size.out, 1, c.activation}, {dy}, {dx})
      .kernels = static_cast<std::uint16_t>(spec.products);
  if (spec.split == Split::column && c.tp > 1) {
    if (scattered) {
      const TensorId shard =
          b.tensor("scattered_gradient", c.shard_tokens() * size.in, spec.module);
      b.collective(Pass::dgrad, spec.module, CollectiveKind::reduce_scatter, Axis::tp,
                   size.tokens * size.in, c.activation, {dx}, {shard}, beside);
      dx = shard;
    } else {
      b.collective(Pass::dgrad, spec.module, CollectiveKind::all_reduce, Axis::tp,
                   size.tokens * size.in, c.activation, {dx}, {dx}, beside);
    }
  }
  weight_gradient(spec, b, size, x, dy);
  // The scatter runs beside the weight gradient, so what it sends lives until both are done.
  // Source: Megatron-LM core/tensor_parallel/layers.py,
  // LinearWithGradAccumulationAndAsyncCommunication.
  if (dx != whole_dx) b.release(spec.module, whole_dx);
  return dx;
}

}  // namespace eratos::layer
