#include "eratos/layer/output.h"

#include <algorithm>

namespace eratos::layer {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using parallel::Axis;

namespace {

LinearSpec output_linear(const OutputSpec& spec) {
  return {"output_weight",      spec.hidden, spec.vocab, Split::column,
          Module::output_layer, spec.bias,   1,          true};
}

// Share of the loss's traffic that falls in forward: a fused loss computes and writes the gradient
// there and only scales it in backward. Assumes: two thirds forward fused, half unfused.
constexpr double kFusedForwardShare = 2.0 / 3.0;
constexpr double kUnfusedForwardShare = 0.5;

bool keeps_logits(const framework::LossBuffers& loss, const OutputState& s) {
  return loss.keeps_logits || s.loss_buffer == ops::kNoTensor;
}

// Source: linkedin/Liger-Kernel ops/fused_linear_cross_entropy.py: as many chunks of tokens as the
// vocabulary is larger than the hidden size.
double pieces_of(const OutputSpec& spec, const framework::LossBuffers& loss, bool fused) {
  return fused && loss.fused_in_pieces ? std::max(1.0, spec.vocab / spec.hidden) : 1.0;
}

// A loss in pieces takes the weight's gradient in forward: the sum is kept until backward, and each
// piece's product stands beside its fp32 copy before it is added.
// Source: linkedin/Liger-Kernel ops/fused_linear_cross_entropy.py, grad_weight.
void sum_in_pieces(Builder& b, double weight, OutputState& s, ops::Op& op) {
  s.weight_sum = b.tensor("summed_weight_gradient", weight, Module::output_layer);
  b.save(s.weight_sum);
  op.writes.push_back(s.weight_sum);
  op.writes.push_back(b.tensor("piece_of_weight_gradient", weight, Module::output_layer));
  op.writes.push_back(b.tensor("piece_in_fp32", weight, DType::fp32, Module::output_layer));
}

// A loss whose gradient has a buffer of its own keeps the log-probabilities, in fp32; the rest of
// the bytes a logit are alive only while its backward runs. Source: pytorch
// tools/autograd/derivatives.yaml (_log_softmax saves its result, and so does nll_loss).
constexpr double kLogProbabilityBytes = 4.0;

// Cut over tensor-parallel ranks, torch's loss is written out: zeros that take the labels, their sum
// with the exponential, and its product with the incoming gradient stand beside the log-probabilities,
// a buffer of fp32 more than the kernels of a whole vocabulary need.
// Source: pytorch torch/distributed/tensor/parallel/loss.py, _nll_loss_and_log_softmax_backward.
constexpr double kParallelLossBytes = 4.0;

}  // namespace

void check_output(const OutputSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out) {
  if (static_cast<long long>(spec.vocab) % p.tp != 0) {
    reject(out, "parallel.tp",
           "tp=" + number(p.tp) + " does not divide the vocabulary " + number(spec.vocab),
           "pad the vocabulary to a multiple of " + number(p.tp));
  }
}

void output_forward(const OutputSpec& spec, Builder& b, TensorId x, OutputState& s,
                    bool own_weight) {
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
  const double pieces = pieces_of(spec, loss, c.loss_fused);
  p.tensors[s.logits].elements /= pieces;
  if (loss.gathers_logits && c.tp > 1) {
    s.part = s.logits;
    s.logits = b.tensor("gathered_logits", b.elements(s.part) * c.tp, Module::loss);
    b.collective(Pass::forward, Module::loss, CollectiveKind::all_gather, Axis::tp,
                 b.elements(s.logits), c.activation, {s.part}, {s.logits});
  }
  if (spec.soft_cap > 0) {
    // Divide, tanh, multiply.
    const double elements = b.elements(s.logits);
    const std::uint16_t kernels = b.profile().fusions.activation ? 1 : 3;
    s.capped = b.tensor("capped_logits", elements, Module::loss);
    const TensorId scaled = b.tensor("rescaled_logits", elements, Module::loss);
    b.elementwise(Pass::forward, Module::loss, ElementwiseClass::streaming, {s.logits},
                  {s.capped, scaled})
        .kernels = kernels;
    b.save(s.capped);
    s.logits = scaled;
  }
  const double logits = b.elements(s.logits);
  const double live = c.loss_fused ? loss.fused_bytes_per_logit : loss.unfused_bytes_per_logit;
  const double traffic =
      c.loss_fused ? loss.fused_traffic_per_logit : loss.unfused_traffic_per_logit;
  const double share = c.loss_fused ? kFusedForwardShare : kUnfusedForwardShare;
  const double element = bytes_per_element(c.activation);
  // Beyond the logits themselves; a loss that writes its gradient over them has nothing.
  const double kept = loss.gradient_in_place ? live - element : kLogProbabilityBytes;
  if (kept > 0)
    s.loss_buffer = b.tensor("loss_buffer", logits * kept / 4.0, DType::fp32, Module::loss);
  ops::Op& op = b.elementwise(Pass::forward, Module::loss, ElementwiseClass::cross_entropy,
                              {s.logits}, {s.loss_buffer});
  op.work =
      ops::Elementwise{Bytes{pieces * logits * traffic * share}, ElementwiseClass::cross_entropy};
  op.kernels = c.loss_fused ? 2 : 8;
  if (pieces > 1 && !c.frozen) sum_in_pieces(b, spec.hidden * spec.vocab / c.tp, s, op);
  if (keeps_logits(loss, s)) b.save(s.logits);
  b.save(s.loss_buffer);
  if (s.part != ops::kNoTensor) return;
  // Maximum, sum and target logit of each token.
  b.collective(Pass::forward, Module::loss, CollectiveKind::all_reduce, Axis::tp, 3.0 * c.tokens(),
               DType::fp32, {s.logits}, {s.loss_buffer});
}

TensorId output_backward(const OutputSpec& spec, Builder& b, const OutputState& s) {
  const LayerContext& c = b.context();
  const auto& loss = b.profile().loss;
  const double logits = b.elements(s.logits);
  const double traffic =
      c.loss_fused ? loss.fused_traffic_per_logit : loss.unfused_traffic_per_logit;
  const double share = c.loss_fused ? kFusedForwardShare : kUnfusedForwardShare;
  const TensorId kept = keeps_logits(loss, s) ? s.logits : ops::kNoTensor;
  TensorId d_logits = s.loss_buffer == ops::kNoTensor ? s.logits : s.loss_buffer;
  TensorId working = ops::kNoTensor;
  if (!loss.gradient_in_place) {
    const double live = c.loss_fused ? loss.fused_bytes_per_logit : loss.unfused_bytes_per_logit;
    const double element = bytes_per_element(c.activation);
    const bool written_out = !c.loss_fused && c.tp > 1 && s.part == ops::kNoTensor;
    const double rest = live + (written_out ? kParallelLossBytes : 0.0) - kLogProbabilityBytes -
                        element * (loss.keeps_logits ? 2.0 : 1.0);
    working =
        b.tensor("loss_working_set", logits * std::max(0.0, rest) / 4.0, DType::fp32, Module::loss);
    d_logits = b.tensor("logits_gradient", logits, Module::loss);
  }
  ops::Op& op = b.elementwise(Pass::dgrad, Module::loss, ElementwiseClass::cross_entropy,
                              {kept, s.loss_buffer}, {d_logits, working});
  op.work = ops::Elementwise{
      Bytes{pieces_of(spec, loss, c.loss_fused) * logits * traffic * (1.0 - share)},
      ElementwiseClass::cross_entropy};
  op.kernels = c.loss_fused ? 1 : 5;
  if (s.capped != ops::kNoTensor) {
    b.elementwise(Pass::dgrad, Module::loss, ElementwiseClass::streaming, {d_logits, s.capped},
                  {d_logits})
        .kernels = b.profile().fusions.activation ? 1 : 3;
  }
  if (s.part != ops::kNoTensor) {
    // Each rank takes its columns of the gradient.
    const TensorId columns =
        b.tensor("logits_gradient_columns", b.elements(s.part), Module::loss);
    b.elementwise(Pass::dgrad, Module::loss, ElementwiseClass::streaming, {d_logits}, {columns},
                  bytes_of(b.elements(s.part), c.activation) - b.program().tensors[d_logits].bytes());
    d_logits = columns;
  }
  const TensorId d_normed = linear_backward(output_linear(spec), b, s.linear, d_logits);
  // Assumes: a loss that works in place holds all its bytes a logit until the head's weight
  // gradient is done (so counted, 37 published Megatron peaks agree within 0.1 %).
  if (loss.gradient_in_place) {
    if (kept != ops::kNoTensor) b.release(Module::loss, kept);
    if (s.loss_buffer != ops::kNoTensor) b.release(Module::loss, s.loss_buffer);
  }
  if (s.weight_sum != ops::kNoTensor) b.release(Module::output_layer, s.weight_sum);
  return norm_backward(spec.final_norm, b, s.norm, d_normed, Module::norm);
}

}  // namespace eratos::layer
