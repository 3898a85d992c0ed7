#include "eratos/layer/mlp.h"

namespace eratos::layer {

using ops::ElementwiseClass;

ActivationState activation_forward(Builder& b, bool gated, TensorId in, double rows, double width,
                                   Module module) {
  ActivationState s;
  s.in = in;
  if (b.profile().fusions.activation || !gated) {
    s.out = b.tensor("activation", rows * width, module);
    b.elementwise(Pass::forward, module, ElementwiseClass::streaming, {in}, {s.out});
    b.save(in);
    return s;
  }
  s.gate = b.tensor("gate", rows * width, module);
  s.up = b.tensor("up", rows * width, module);
  b.slice(module, in, {s.gate, s.up});
  s.silu = b.tensor("silu_gate", rows * width, module);
  b.elementwise(Pass::forward, module, ElementwiseClass::streaming, {s.gate}, {s.silu});
  s.out = b.tensor("activation", rows * width, module);
  b.elementwise(Pass::forward, module, ElementwiseClass::streaming, {s.silu, s.up}, {s.out});
  b.save(s.gate);
  b.save(s.up);
  b.save(s.silu);
  return s;
}

TensorId activation_backward(Builder& b, bool gated, const ActivationState& s, TensorId dy,
                             double rows, double width, Module module) {
  const TensorId dx = b.tensor("activation_input_gradient", rows * width * (gated ? 2 : 1), module);
  if (b.profile().fusions.activation || !gated) {
    b.elementwise(Pass::dgrad, module, ElementwiseClass::streaming, {s.in, dy}, {dx});
    return dx;
  }
  const TensorId d_silu = b.tensor("silu_gradient", rows * width, module);
  b.elementwise(Pass::dgrad, module, ElementwiseClass::streaming, {dy, s.up}, {d_silu});
  b.elementwise(Pass::dgrad, module, ElementwiseClass::streaming, {dy, s.silu, d_silu, s.gate},
                {dx});
  return dx;
}

namespace {

LinearSpec in_linear(const MlpSpec& spec, const Builder& b, Module module) {
  return {"mlp_in",
          spec.hidden,
          spec.ffn * (spec.gated ? 2 : 1),
          Split::column,
          module,
          spec.bias,
          spec.gated && !b.profile().fusions.gate_up ? 2 : 1};
}
LinearSpec out_linear(const MlpSpec& spec, Module module) {
  return {"mlp_out", spec.ffn, spec.hidden, Split::row, module, spec.bias, 1};
}

}  // namespace

void check_mlp(const MlpSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out) {
  if (spec.ffn < 1) {
    reject(out, "model", "a feed-forward width of " + number(spec.ffn),
           "give a width of at least 1");
  } else if (static_cast<long long>(spec.ffn) % p.tp != 0) {
    reject(out, "parallel.tp",
           "tp=" + number(p.tp) + " does not divide the feed-forward width " + number(spec.ffn),
           "choose a tp that divides " + number(spec.ffn));
  }
}

TensorId mlp_forward(const MlpSpec& spec, Builder& b, TensorId x, MlpState& s, MlpModules modules) {
  const LayerContext& c = b.context();
  const TensorId in = linear_forward(in_linear(spec, b, modules.in), b, x, s.in);
  s.activation =
      activation_forward(b, spec.gated, in, c.tokens(), spec.ffn / c.tp, modules.activation);
  return linear_forward(out_linear(spec, modules.out), b, s.activation.out, s.out);
}

TensorId mlp_backward(const MlpSpec& spec, Builder& b, const MlpState& s, TensorId dy,
                      MlpModules modules) {
  const LayerContext& c = b.context();
  const TensorId d_act = linear_backward(out_linear(spec, modules.out), b, s.out, dy);
  const TensorId d_in = activation_backward(b, spec.gated, s.activation, d_act, c.tokens(),
                                            spec.ffn / c.tp, modules.activation);
  return linear_backward(in_linear(spec, b, modules.in), b, s.in, d_in);
}

}  // namespace eratos::layer
