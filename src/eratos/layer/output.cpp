#include "eratos/layer/output.h"

#include <algorithm>

namespace eratos::layer {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using parallel::Axis;

namespace {

LinearSpec output_linear(const OutputSpec& spec) {
  return {"output_weight", spec.hidden, spec.vocab, Split::column, Module::output_layer, false, 1};
}

// Share of the loss's traffic that falls in forward: a fused loss computes and writes the gradient
// there and only scales it in backward. Assumes: two thirds forward fused, half unfused.
constexpr double kFusedForwardShare = 2.0 / 3.0;
constexpr double kUnfusedForwardShare = 0.5;

}  // namespace

void check_output(const OutputSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out) {
  if (static_cast<long long>(spec.vocab) % p.tp != 0) {
    reject(out, "parallel.tp",
           "tp=" + number(p.tp) + " does not divide the vocabulary " + number(spec.vocab),
           "pad the vocabulary to a multiple of " + number(p.tp));
  }
}

void output_forward(const OutputSpec& spec, Builder& b, TensorId x, OutputState& s, bool own_weight) {
  const LayerContext& c = b.context();
  const auto& loss = b.profile().loss;
  s.norm = norm_forward(spec.final_norm, b, x, c.shard_tokens(), spec.hidden, Module::norm);
  const LinearSpec linear = output_linear(spec);
  ops::Program& p = b.program();
  const std::size_t before = p.parameters.size();
  s.logits = linear_forward(linear, b, s.norm.output, s.linear);
  if (own_weight) {
    p.parameters[before].embedding = true;
  } else {
    p.parameters.resize(before);
  }
  const double logits = b.elements(s.logits);
  const double live = c.loss_fused ? loss.fused_bytes_per_logit : loss.unfused_bytes_per_logit;
  const double traffic = c.loss_fused ? loss.fused_traffic_per_logit : loss.unfused_traffic_per_logit;
  const double share = c.loss_fused ? kFusedForwardShare : kUnfusedForwardShare;
  const double element = bytes_per_element(c.activation);
  // Everything beyond the logits themselves, as fp32 elements.
  s.loss_buffer = b.tensor("loss_buffer", logits * std::max(0.0, live - element) / 4.0, DType::fp32,
                           Module::loss);
  ops::Op& op = b.elementwise(Pass::forward, Module::loss, ElementwiseClass::cross_entropy,
                              {s.logits}, {s.loss_buffer});
  op.work = ops::Elementwise{Bytes{logits * traffic * share}, ElementwiseClass::cross_entropy};
  op.kernels = c.loss_fused ? 2 : 8;
  if (loss.keeps_logits) b.save(s.logits);
  b.save(s.loss_buffer);
  // Maximum, sum and target logit of each token.
  b.collective(Pass::forward, Module::loss, CollectiveKind::all_reduce, Axis::tp, 3.0 * c.tokens(),
               DType::fp32, {s.loss_buffer}, {s.loss_buffer});
}

TensorId output_backward(const OutputSpec& spec, Builder& b, const OutputState& s) {
  const LayerContext& c = b.context();
  const auto& loss = b.profile().loss;
  const double logits = b.elements(s.logits);
  const double traffic = c.loss_fused ? loss.fused_traffic_per_logit : loss.unfused_traffic_per_logit;
  const double share = c.loss_fused ? kFusedForwardShare : kUnfusedForwardShare;
  TensorId d_logits = s.loss_buffer;
  if (!loss.gradient_in_place) d_logits = b.tensor("logits_gradient", logits, Module::loss);
  ops::Op& op = b.elementwise(Pass::dgrad, Module::loss, ElementwiseClass::cross_entropy,
                              {loss.keeps_logits ? s.logits : s.loss_buffer, s.loss_buffer},
                              {d_logits});
  op.work = ops::Elementwise{Bytes{logits * traffic * (1.0 - share)}, ElementwiseClass::cross_entropy};
  op.kernels = c.loss_fused ? 1 : 5;
  const TensorId d_normed = linear_backward(output_linear(spec), b, s.linear, d_logits);
  return norm_backward(spec.final_norm, b, s.norm, d_normed, Module::norm);
}

}  // namespace eratos::layer
