#include "eratos/layer/moe.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "eratos/layer/dispatch.h"

namespace eratos::layer {

using ops::ElementwiseClass;

namespace {

MlpSpec shared_mlp(const MoeSpec& spec) {
  return {spec.hidden, spec.shared_ffn, spec.gated, spec.bias, spec.activation};
}

LinearSpec latent_down(const MoeSpec& s) {
  return {"latent_down", s.hidden, s.latent, Split::replicated, Module::latent, false, 1};
}
LinearSpec latent_up(const MoeSpec& s) {
  return {"latent_up", s.latent, s.hidden, Split::replicated, Module::latent, false, 1};
}

constexpr MlpModules kShared{Module::shared_expert, Module::shared_expert, Module::shared_expert};

constexpr NormSpec kOwnNorm{NormKind::rmsnorm, false};

// Without one launch for all experts, each of them launches every kernel of its own.
void launch_per_expert(Builder& b, std::vector<ops::Op>& list, std::size_t from, double experts) {
  if (b.profile().fusions.grouped_gemm) return;
  constexpr double kMost = 65535;
  for (std::size_t i = from; i < list.size(); ++i) {
    list[i].kernels = static_cast<std::uint16_t>(std::min(kMost, list[i].kernels * experts));
  }
}

double expert_weights(const MoeSpec& spec, const RouteSizes& size) {
  return size.local_experts * size.width * size.expert_width * (spec.gated ? 3 : 2);
}

// One buffer of all local experts' weights for the grouped products, where the framework makes one.
void stack_weights(const MoeSpec& spec, Builder& b, const RouteSizes& size, MoeState& s) {
  if (!b.profile().saved.stacked_expert_weights) return;
  const double weights = expert_weights(spec, size);
  s.stacked = b.tensor("stacked_expert_weights", weights, Module::expert_in);
  b.elementwise(Pass::forward, Module::expert_in, ElementwiseClass::streaming, {}, {s.stacked},
                bytes_of(weights, b.context().activation))
      .kernels = 2;
  b.save(s.stacked);
}

// Its gradient, taken apart again.
void unstack_gradient(const MoeSpec& spec, Builder& b, const RouteSizes& size) {
  if (!b.profile().saved.stacked_expert_weights || b.context().frozen) return;
  b.elementwise(Pass::wgrad, Module::expert_in, ElementwiseClass::streaming, {}, {},
                bytes_of(2 * expert_weights(spec, size), b.context().activation))
      .kernels = 2;
}

// Launches of one grouped product: a library that enqueues each group by itself needs one for each.
std::uint16_t launches(const Builder& b, const RouteSizes& size) {
  const bool each = b.profile().kernel.per_group.value > 0 && b.profile().fusions.grouped_gemm;
  return static_cast<std::uint16_t>(each ? std::min(65535.0, size.local_experts) : 1.0);
}

void expert_gemm(Builder& b, Pass pass, Module module, const RouteSizes& size, double n, double k,
                 Builder::Ids reads, Builder::Ids writes) {
  b.gemm(pass, module,
         {size.rows, n, k, size.local_experts, b.context().activation, false, true, size.strided},
         reads, writes)
      .kernels = launches(b, size);
}

// The weight gradient of all local experts.
void expert_wgrad(Builder& b, Module module, const RouteSizes& size, double out, double in,
                  TensorId x, TensorId dy) {
  const auto& state = b.profile().state;
  const ops::Gemm work{out * size.local_experts,
                       in,
                       size.rows / size.local_experts,
                       size.local_experts,
                       b.context().activation,
                       state.wgrad_fused_accumulation,
                       true,
                       size.strided};
  if (state.wgrad_fused_accumulation) {
    b.gemm(Pass::wgrad, module, work, {x, dy}, {}).kernels = launches(b, size);
    return;
  }
  const double weights = size.local_experts * out * in;
  const TensorId dw = b.tensor("expert_weight_gradient", weights, module);
  b.gemm(Pass::wgrad, module, work, {x, dy}, {dw}).kernels = launches(b, size);
  b.elementwise(Pass::wgrad, module, ElementwiseClass::streaming, {dw}, {},
                2.0 * bytes_of(weights, state.gradient));
}

void route(const MoeSpec& spec, Builder& b, const RouteSizes& size, TensorId x, MoeState& s) {
  const Module m = Module::router;
  const auto& fusions = b.profile().fusions;
  b.parameter("router", spec.hidden * spec.experts, m, true);
  if (spec.router_bias) b.vector_parameter("router_bias", spec.experts, m);
  const TensorId logits = b.tensor("router_logits", size.tokens * spec.experts, DType::fp32, m);
  b.gemm(Pass::forward, m,
         {size.tokens, static_cast<double>(spec.experts), spec.hidden, 1, b.context().activation},
         {x}, {logits});
  b.save_gemm_input(x);
  s.probs = b.tensor("router_probabilities", size.tokens * spec.experts, DType::fp32, m);
  b.save(s.probs);
  if (b.context().dispatcher == Dispatcher::einsum) {
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {logits}, {s.probs}).kernels = 4;
    s.row_map = routing_masks(spec, b, s.probs);
    b.save(s.row_map);
    return;
  }
  if (fusions.router) {
    s.row_probs = b.tensor("row_probabilities", size.sent, DType::fp32, m);
    s.row_map = b.tensor("row_map", size.sent, DType::int32, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {logits},
                  {s.probs, s.row_probs, s.row_map})
        .kernels = 2;
  } else {
    // Softmax, top-k (index and value), renormalisation, then the map of rows: sort and counts.
    const TensorId index = b.tensor("top_k_index", size.chosen, DType::int64, m);
    const TensorId value = b.tensor("top_k_value", size.chosen, DType::fp32, m);
    const TensorId sum = b.tensor("top_k_sum", size.tokens, DType::fp32, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {logits}, {s.probs});
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {s.probs}, {index, value})
        .kernels = 2;
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {value}, {sum});
    b.save(index);
    b.save(value);
    b.save(sum);
    s.top_index = index;
    s.top_value = value;
    s.top_sum = sum;
    s.row_probs = b.tensor("row_probabilities", size.sent, m);
    // Token of each row, and its place in the sorted order.
    s.row_map = b.tensor("row_map", 2 * size.sent, DType::int64, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {value, sum, index},
                  {s.row_probs, s.row_map})
        .kernels = 6;
  }
  b.save(s.row_probs);
  b.save(s.row_map);
}

void check_groups(const MoeSpec& spec, Diagnostics& out) {
  const auto limit = [&] {
    return number(spec.top_groups) + " of " + number(spec.groups) + " groups of experts";
  };
  if (spec.groups < 1 || spec.top_groups < 1 || spec.top_groups > spec.groups) {
    reject(out, "model", limit(), "let a token visit at least one group and at most all of them");
    return;
  }
  if (spec.experts % spec.groups != 0) {
    reject(out, "model",
           number(spec.groups) + " groups do not divide the " + number(spec.experts) + " experts",
           "choose a number of groups that divides " + number(spec.experts));
    return;
  }
  const int open = spec.experts / spec.groups * spec.top_groups;
  if (open < spec.top_k && spec.top_k <= spec.experts) {
    reject(out, "model",
           limit() + " hold " + number(open) + " experts, fewer than top_k=" + number(spec.top_k),
           "let a token visit more groups, or choose a smaller top_k");
  }
}

}  // namespace

void check_moe(const MoeSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out) {
  if (spec.ffn < 1) {
    reject(out, "model", "an expert width of " + number(spec.ffn), "give a width of at least 1");
  }
  if (spec.experts < 1 || spec.top_k < 1) {
    reject(out, "model",
           number(spec.experts) + " experts of which a token visits " + number(spec.top_k),
           "give at least one of each");
    return;
  }
  if (spec.experts % p.ep != 0) {
    reject(out, "parallel.ep",
           "ep=" + number(p.ep) + " does not divide the " + number(spec.experts) + " experts",
           "choose an ep that divides " + number(spec.experts));
  }
  if (spec.top_k > spec.experts) {
    reject(out, "model",
           "top_k=" + number(spec.top_k) + " exceeds the " + number(spec.experts) + " experts",
           "choose top_k of at most " + number(spec.experts));
  }
  check_groups(spec, out);
  if (static_cast<long long>(spec.ffn) % p.etp != 0) {
    reject(out, "parallel.etp",
           "etp=" + number(p.etp) + " does not divide the expert width " + number(spec.ffn),
           "choose an etp that divides " + number(spec.ffn));
  }
  if (spec.shared_ffn > 0 && static_cast<long long>(spec.shared_ffn) % p.tp != 0) {
    reject(out, "parallel.tp",
           "tp=" + number(p.tp) + " does not divide the shared expert width " +
               number(spec.shared_ffn),
           "choose a tp that divides " + number(spec.shared_ffn));
  }
  if (p.tp > 1 && !p.sequence_parallel) {
    reject(out, "parallel.sequence_parallel",
           "experts with tensor parallelism (tp=" + number(p.tp) + ") need sequence parallelism",
           "set parallel.sequence_parallel: true (Megatron-LM refuses the job otherwise)");
  }
}

TensorId moe_forward(const MoeSpec& spec, Builder& b, TensorId x, MoeState& s) {
  const LayerContext& c = b.context();
  const RouteSizes size = route_sizes(spec, c);
  const double h = spec.hidden;
  const double in_width = size.expert_width * (spec.gated ? 2 : 1);
  const auto& profile = b.profile();
  s.input = x;
  s.router_input = x;
  if (spec.own_norms) {
    s.router_norm = norm_forward(kOwnNorm, b, x, size.tokens, h, Module::router);
    s.router_input = s.router_norm.output;
    b.vector_parameter("expert_scale", spec.experts, Module::router);
  }
  route(spec, b, size, s.router_input, s);

  TensorId own = x;
  if (spec.own_norms) {
    s.norm = norm_forward(kOwnNorm, b, x, size.tokens, h, Module::norm);
    own = s.norm.output;
  }
  if (spec.latent > 0) own = linear_forward(latent_down(spec), b, own, s.latent_down);
  const TensorId rows = scatter_rows(spec, b, Pass::forward, own, s.row_map);
  s.rows = rows;
  b.save_gemm_input(rows);

  stack_weights(spec, b, size, s);
  const std::size_t begin = b.program().forward.size();
  b.expert_parameter("expert_in", size.local_experts * size.width * in_width, size.local_experts,
                     Module::expert_in);
  if (spec.bias) {
    b.expert_vector_parameter("expert_in_bias", size.local_experts * in_width, size.local_experts,
                              Module::expert_in);
  }
  const TensorId up = b.tensor("expert_up", size.held * in_width, Module::expert_in);
  expert_gemm(b, Pass::forward, Module::expert_in, size, in_width, size.width, {rows}, {up});
  s.activation = activation_forward(b, spec.gated, up, size.held, size.expert_width,
                                    Module::expert_activation);
  b.save_gemm_input(s.activation.out);
  b.expert_parameter("expert_out", size.local_experts * size.expert_width * size.width,
                     size.local_experts, Module::expert_out);
  if (spec.bias) {
    b.expert_vector_parameter("expert_out_bias", size.local_experts * size.width,
                              size.local_experts, Module::expert_out);
  }
  TensorId out = b.tensor("expert_output", size.held * size.width, Module::expert_out);
  expert_gemm(b, Pass::forward, Module::expert_out, size, size.width, size.expert_width,
              {s.activation.out}, {out});
  launch_per_expert(b, b.program().forward, begin, size.local_experts);
  if (!profile.saved.moe_probs_in_activation) {
    s.expert_out = out;
    b.save(out);
    if (!profile.fusions.permute) {
      s.scaled = b.tensor("scaled_rows", size.held * size.width, Module::combine);
      b.elementwise(Pass::forward, Module::combine, ElementwiseClass::streaming, {out, s.row_probs},
                    {s.scaled});
      b.save(s.scaled);
      out = s.scaled;
    }
  }
  TensorId y = gather_rows(spec, b, Pass::forward, out, s.row_map, &s.returned);
  if (b.context().dispatcher == Dispatcher::einsum) b.save(s.returned);
  if (spec.latent > 0) y = linear_forward(latent_up(spec), b, y, s.latent_up);
  if (spec.own_norms) {
    s.post_norm = norm_forward(kOwnNorm, b, y, size.tokens, h, Module::norm);
    y = s.post_norm.output;
  }

  if (spec.shared_ffn > 0) {
    TensorId shared = mlp_forward(shared_mlp(spec), b, x, s.shared, kShared);
    if (spec.own_norms) {
      s.shared_norm = norm_forward(kOwnNorm, b, shared, size.tokens, h, Module::norm);
      shared = s.shared_norm.output;
    }
    if (spec.shared_gate) {
      // sigmoid(x . w) scales the shared expert's row; the product keeps both of its factors.
      const Module m = Module::shared_expert;
      b.vector_parameter("shared_gate", spec.hidden, m);
      s.shared_out = shared;
      s.shared_gate = b.tensor("shared_gate_value", size.tokens, m);
      b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {x}, {s.shared_gate});
      shared = b.tensor("gated_shared_output", size.tokens * spec.hidden, m);
      b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {s.shared_out, s.shared_gate},
                    {shared});
      b.save(s.shared_out);
      b.save(s.shared_gate);
    }
    const TensorId sum = b.tensor("moe_sum", size.tokens * spec.hidden, Module::combine);
    b.elementwise(Pass::forward, Module::combine, ElementwiseClass::streaming, {y, shared}, {sum});
    y = sum;
  }
  return y;
}

namespace {

// Gradient of the shared expert's input.
TensorId shared_backward(const MoeSpec& spec, Builder& b, const RouteSizes& size, const MoeState& s,
                         TensorId dy) {
  TensorId d_shared = dy;
  if (spec.shared_gate) {
    const Module m = Module::shared_expert;
    d_shared = b.tensor("shared_output_gradient", size.tokens * spec.hidden, m);
    b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming,
                  {dy, s.shared_out, s.shared_gate, s.input}, {d_shared});
  }
  if (spec.own_norms) d_shared = norm_backward(kOwnNorm, b, s.shared_norm, d_shared, Module::norm);
  return mlp_backward(shared_mlp(spec), b, s.shared, d_shared, kShared);
}

// Gradient of the rows that the experts read.
TensorId experts_backward(const MoeSpec& spec, Builder& b, const RouteSizes& size,
                          const MoeState& s, TensorId d) {
  const double in_width = size.expert_width * (spec.gated ? 2 : 1);
  const std::size_t begin = b.program().backward.size();
  const TensorId d_act =
      b.tensor("expert_activation_gradient", size.held * size.expert_width, Module::expert_out);
  expert_gemm(b, Pass::dgrad, Module::expert_out, size, size.expert_width, size.width, {d},
              {d_act});
  expert_wgrad(b, Module::expert_out, size, size.width, size.expert_width, s.activation.out, d);
  const TensorId d_up = activation_backward(b, spec.gated, s.activation, d_act, size.held,
                                            size.expert_width, Module::expert_activation);
  const TensorId d_rows =
      b.tensor("expert_input_gradient", size.held * size.width, Module::expert_in);
  expert_gemm(b, Pass::dgrad, Module::expert_in, size, size.width, in_width, {d_up, s.stacked},
              {d_rows});
  expert_wgrad(b, Module::expert_in, size, in_width, size.width, s.rows, d_up);
  launch_per_expert(b, b.program().backward, begin, size.local_experts);
  unstack_gradient(spec, b, size);
  return d_rows;
}

// `d_weights`: the gradient of the masks, where rows are picked by products with them.
TensorId router_backward(const MoeSpec& spec, Builder& b, const RouteSizes& size, const MoeState& s,
                         TensorId d_weights) {
  const Module m = Module::router;
  const double experts = spec.experts;
  const TensorId d_logits =
      b.tensor("router_logits_gradient", size.tokens * experts, DType::fp32, m);
  b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming,
                {s.probs, s.row_probs, d_weights == ops::kNoTensor ? s.row_map : d_weights,
                 s.top_index, s.top_value, s.top_sum},
                {d_logits})
      .kernels = b.profile().fusions.router ? 2 : 6;
  const TensorId dx = b.tensor("router_input_gradient", size.tokens * spec.hidden, m);
  const DType format = b.context().activation;
  b.gemm(Pass::dgrad, m, {size.tokens, spec.hidden, experts, 1, format}, {d_logits}, {dx});
  b.gemm(Pass::wgrad, m, {experts, spec.hidden, size.tokens, 1, format}, {s.router_input, d_logits},
         {});
  return spec.own_norms ? norm_backward(kOwnNorm, b, s.router_norm, dx, m) : dx;
}

}  // namespace

TensorId moe_backward(const MoeSpec& spec, Builder& b, const MoeState& s, TensorId dy) {
  const RouteSizes size = route_sizes(spec, b.context());
  const TensorId dx_shared =
      spec.shared_ffn > 0 ? shared_backward(spec, b, size, s, dy) : ops::kNoTensor;
  TensorId d = dy;
  if (spec.own_norms) d = norm_backward(kOwnNorm, b, s.post_norm, d, Module::norm);
  if (spec.latent > 0) d = linear_backward(latent_up(spec), b, s.latent_up, d);
  TensorId d_weights = ops::kNoTensor;
  if (b.context().dispatcher == Dispatcher::einsum) {
    d_weights = mask_gradient(spec, b, d, s.returned);
  }
  d = scatter_rows(spec, b, Pass::dgrad, d, s.row_map);
  if (s.expert_out != ops::kNoTensor) {
    const TensorId unscaled =
        b.tensor("unscaled_gradient", size.held * size.width, Module::combine);
    b.elementwise(Pass::dgrad, Module::combine, ElementwiseClass::streaming,
                  {d, s.expert_out, s.scaled, s.row_probs}, {unscaled});
    d = unscaled;
  }
  const TensorId d_rows = experts_backward(spec, b, size, s, d);
  TensorId dx_rows = gather_rows(spec, b, Pass::dgrad, d_rows, s.row_map);
  if (spec.latent > 0) dx_rows = linear_backward(latent_down(spec), b, s.latent_down, dx_rows);
  if (spec.own_norms) dx_rows = norm_backward(kOwnNorm, b, s.norm, dx_rows, Module::norm);
  const TensorId dx_router = router_backward(spec, b, size, s, d_weights);
  const TensorId dx = b.tensor("moe_gradient_sum", size.tokens * spec.hidden, Module::dispatch);
  b.elementwise(Pass::dgrad, Module::dispatch, ElementwiseClass::streaming,
                {dx_rows, dx_router, dx_shared}, {dx});
  return dx;
}

}  // namespace eratos::layer
