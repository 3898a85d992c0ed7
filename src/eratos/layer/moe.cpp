#include "eratos/layer/moe.h"

#include <cmath>

namespace eratos::layer {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using parallel::Axis;

namespace {

struct Sizes {
  double tokens;  // routed by this rank
  double sent;    // rows it sends: tokens * top_k
  double rows;    // rows its experts compute
  double local_experts;
  double width;  // of one expert on this rank
};

Sizes sizes_of(const MoeSpec& spec, const LayerContext& c) {
  const double tokens = c.shard_tokens();
  const double sent = tokens * spec.top_k;
  return {tokens, sent, sent * c.etp, static_cast<double>(spec.experts) / c.ep, spec.ffn / c.etp};
}

MlpSpec shared_mlp(const MoeSpec& spec) {
  return {spec.hidden, spec.shared_ffn, spec.gated, spec.bias, spec.activation};
}

constexpr MlpModules kShared{Module::shared_expert, Module::shared_expert, Module::shared_expert};

// Elements a rank exchanges with the other expert ranks. With de-duplication a token goes once to
// each distinct rank: E[d] = e * (1 - (1 - 1/e)^k) of its k copies.
// Source: docs/model/collectives.md, expected distinct destinations.
double exchanged(const MoeSpec& spec, const LayerContext& c, const Sizes& size) {
  if (!c.deduplicated_dispatch || c.ep <= 1) return size.sent * spec.hidden;
  const double e = c.ep;
  const double distinct = e * (1.0 - std::pow(1.0 - 1.0 / e, spec.top_k));
  return size.tokens * distinct * spec.hidden;
}

void expert_gemm(Builder& b, Pass pass, Module module, const Sizes& size, double n, double k,
                 Builder::Ids reads, Builder::Ids writes) {
  // One grouped launch in fused stacks, one product an expert in eager ones.
  const bool grouped = b.profile().fusions.grouped_gemm;
  b.gemm(pass, module, {size.rows, n, k, size.local_experts, b.context().activation,
                        pass == Pass::wgrad && b.profile().state.wgrad_fused_accumulation},
         reads, writes)
      .kernels = static_cast<std::uint16_t>(grouped ? 1 : size.local_experts);
}

// The weight gradient of all local experts.
void expert_wgrad(Builder& b, Module module, const Sizes& size, double out, double in, TensorId x,
                  TensorId dy) {
  const auto& state = b.profile().state;
  const ops::Gemm work{out * size.local_experts, in, size.rows / size.local_experts,
                       size.local_experts, b.context().activation, state.wgrad_fused_accumulation};
  if (state.wgrad_fused_accumulation) {
    b.gemm(Pass::wgrad, module, work, {x, dy}, {});
    return;
  }
  const double weights = size.local_experts * out * in;
  const TensorId dw = b.tensor("expert_weight_gradient", weights, module);
  b.gemm(Pass::wgrad, module, work, {x, dy}, {dw});
  b.elementwise(Pass::wgrad, module, ElementwiseClass::streaming, {dw}, {},
                2.0 * bytes_of(weights, state.gradient));
}

void route(const MoeSpec& spec, Builder& b, const Sizes& size, TensorId x, MoeState& s) {
  const Module m = Module::router;
  const auto& fusions = b.profile().fusions;
  b.parameter("router", spec.hidden * spec.experts, m, true);
  if (spec.router_bias) b.vector_parameter("router_bias", spec.experts, m);
  const TensorId logits = b.tensor("router_logits", size.tokens * spec.experts, DType::fp32, m);
  b.gemm(Pass::forward, m, {size.tokens, static_cast<double>(spec.experts), spec.hidden, 1,
                            b.context().activation},
         {x}, {logits});
  b.save_gemm_input(x);
  s.probs = b.tensor("router_probabilities", size.tokens * spec.experts, DType::fp32, m);
  b.save(s.probs);
  if (fusions.router) {
    s.row_probs = b.tensor("row_probabilities", size.sent, DType::fp32, m);
    s.row_map = b.tensor("row_map", size.sent, DType::int32, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {logits},
                  {s.probs, s.row_probs, s.row_map})
        .kernels = 2;
  } else {
    // Softmax, top-k (index and value), renormalisation, then the map of rows: sort and counts.
    const TensorId index = b.tensor("top_k_index", size.sent, DType::int64, m);
    const TensorId value = b.tensor("top_k_value", size.sent, DType::fp32, m);
    const TensorId sum = b.tensor("top_k_sum", size.tokens, DType::fp32, m);
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {logits}, {s.probs});
    b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {s.probs}, {index, value}).kernels = 2;
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

void all_to_all(const MoeSpec& spec, Builder& b, Pass pass, Module m, const Sizes& size, TensorId from,
                TensorId to) {
  const LayerContext& c = b.context();
  b.collective(pass, m, CollectiveKind::all_to_all, Axis::ep, exchanged(spec, c, size),
               c.activation, {from}, {to});
}

}  // namespace

void check_moe(const MoeSpec& spec, const parallel::ParallelSpec& p, Diagnostics& out) {
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
    reject(out, "model", "top_k=" + number(spec.top_k) + " exceeds the " + number(spec.experts) + " experts",
           "choose top_k of at most " + number(spec.experts));
  }
  if (static_cast<long long>(spec.ffn) % p.etp != 0) {
    reject(out, "parallel.etp",
           "etp=" + number(p.etp) + " does not divide the expert width " + number(spec.ffn),
           "choose an etp that divides " + number(spec.ffn));
  }
  if (spec.shared_ffn > 0 && static_cast<long long>(spec.shared_ffn) % p.tp != 0) {
    reject(out, "parallel.tp",
           "tp=" + number(p.tp) + " does not divide the shared expert width " + number(spec.shared_ffn),
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
  const Sizes size = sizes_of(spec, c);
  const double h = spec.hidden;
  const double in_width = size.width * (spec.gated ? 2 : 1);
  const auto& profile = b.profile();
  s.input = x;
  route(spec, b, size, x, s);

  // Rows in expert order, exchanged, and (several experts a rank) sorted again by expert.
  const TensorId permuted = b.tensor("permuted_rows", size.sent * h, Module::dispatch);
  b.elementwise(Pass::forward, Module::dispatch, ElementwiseClass::permute, {x, s.row_map}, {permuted});
  TensorId rows = permuted;
  if (c.ep > 1) {
    const TensorId received = b.tensor("received_rows", size.sent * h, Module::dispatch);
    all_to_all(spec, b, Pass::forward, Module::dispatch, size, permuted, received);
    rows = received;
  }
  if (c.etp > 1) {
    const TensorId gathered = b.tensor("gathered_rows", size.rows * h, Module::dispatch);
    b.collective(Pass::forward, Module::dispatch, CollectiveKind::all_gather, Axis::etp,
                 size.rows * h, c.activation, {rows}, {gathered});
    rows = gathered;
  }
  if (c.ep > 1 && size.local_experts > 1) {
    const TensorId sorted = b.tensor("sorted_rows", size.rows * h, Module::dispatch);
    b.elementwise(Pass::forward, Module::dispatch, ElementwiseClass::permute, {rows}, {sorted});
    rows = sorted;
  }
  s.rows = rows;
  b.save_gemm_input(rows);

  b.expert_parameter("expert_in", size.local_experts * h * in_width, size.local_experts,
                     Module::expert_in);
  if (spec.bias) {
    b.expert_vector_parameter("expert_in_bias", size.local_experts * in_width, size.local_experts,
                              Module::expert_in);
  }
  const TensorId up = b.tensor("expert_up", size.rows * in_width, Module::expert_in);
  expert_gemm(b, Pass::forward, Module::expert_in, size, in_width, h, {rows}, {up});
  s.activation = activation_forward(b, spec.gated, up, size.rows, size.width,
                                    Module::expert_activation);
  b.save_gemm_input(s.activation.out);
  b.expert_parameter("expert_out", size.local_experts * size.width * h, size.local_experts,
                     Module::expert_out);
  if (spec.bias) {
    b.expert_vector_parameter("expert_out_bias", size.local_experts * h, size.local_experts,
                              Module::expert_out);
  }
  TensorId out = b.tensor("expert_output", size.rows * h, Module::expert_out);
  expert_gemm(b, Pass::forward, Module::expert_out, size, h, size.width, {s.activation.out}, {out});
  if (!profile.saved.moe_probs_in_activation) {
    s.expert_out = out;
    b.save(out);
    if (!profile.fusions.permute) {
      s.scaled = b.tensor("scaled_rows", size.rows * h, Module::combine);
      b.elementwise(Pass::forward, Module::combine, ElementwiseClass::streaming, {out, s.row_probs},
                    {s.scaled});
      b.save(s.scaled);
      out = s.scaled;
    }
  }

  if (c.ep > 1 && size.local_experts > 1) {
    const TensorId unsorted = b.tensor("unsorted_rows", size.rows * h, Module::combine);
    b.elementwise(Pass::forward, Module::combine, ElementwiseClass::permute, {out}, {unsorted});
    out = unsorted;
  }
  if (c.etp > 1) {
    const TensorId reduced = b.tensor("reduced_rows", size.sent * h, Module::combine);
    b.collective(Pass::forward, Module::combine, CollectiveKind::reduce_scatter, Axis::etp,
                 size.rows * h, c.activation, {out}, {reduced});
    out = reduced;
  }
  if (c.ep > 1) {
    const TensorId back = b.tensor("returned_rows", size.sent * h, Module::combine);
    all_to_all(spec, b, Pass::forward, Module::combine, size, out, back);
    out = back;
  }
  TensorId y = b.tensor("moe_output", size.tokens * h, Module::combine);
  b.elementwise(Pass::forward, Module::combine, ElementwiseClass::permute, {out, s.row_map}, {y});

  if (spec.shared_ffn > 0) {
    TensorId shared = mlp_forward(shared_mlp(spec), b, x, s.shared, kShared);
    if (spec.shared_gate) {
      // sigmoid(x . w) scales the shared expert's row; the product keeps both of its factors.
      const Module m = Module::shared_expert;
      b.vector_parameter("shared_gate", h, m);
      s.shared_out = shared;
      s.shared_gate = b.tensor("shared_gate_value", size.tokens, m);
      b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {x}, {s.shared_gate});
      shared = b.tensor("gated_shared_output", size.tokens * h, m);
      b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {s.shared_out, s.shared_gate},
                    {shared});
      b.save(s.shared_out);
      b.save(s.shared_gate);
    }
    const TensorId sum = b.tensor("moe_sum", size.tokens * h, Module::combine);
    b.elementwise(Pass::forward, Module::combine, ElementwiseClass::streaming, {y, shared}, {sum});
    y = sum;
  }
  return y;
}

TensorId moe_backward(const MoeSpec& spec, Builder& b, const MoeState& s, TensorId dy) {
  const LayerContext& c = b.context();
  const Sizes size = sizes_of(spec, c);
  const double h = spec.hidden;
  const double in_width = size.width * (spec.gated ? 2 : 1);
  const bool sorts = c.ep > 1 && size.local_experts > 1;

  TensorId dx_shared = ops::kNoTensor;
  if (spec.shared_ffn > 0) {
    TensorId d_shared = dy;
    if (spec.shared_gate) {
      const Module m = Module::shared_expert;
      d_shared = b.tensor("shared_output_gradient", size.tokens * h, m);
      b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming,
                    {dy, s.shared_out, s.shared_gate, s.input}, {d_shared});
    }
    dx_shared = mlp_backward(shared_mlp(spec), b, s.shared, d_shared, kShared);
  }
  TensorId d = b.tensor("row_gradient", size.sent * h, Module::combine);
  b.elementwise(Pass::dgrad, Module::combine, ElementwiseClass::permute, {dy, s.row_map}, {d});
  if (c.ep > 1) {
    const TensorId received = b.tensor("received_gradient", size.sent * h, Module::combine);
    all_to_all(spec, b, Pass::dgrad, Module::combine, size, d, received);
    d = received;
  }
  if (c.etp > 1) {
    const TensorId gathered = b.tensor("gathered_row_gradient", size.rows * h, Module::combine);
    b.collective(Pass::dgrad, Module::combine, CollectiveKind::all_gather, Axis::etp, size.rows * h,
                 c.activation, {d}, {gathered});
    d = gathered;
  }
  if (sorts) {
    const TensorId sorted = b.tensor("sorted_gradient", size.rows * h, Module::combine);
    b.elementwise(Pass::dgrad, Module::combine, ElementwiseClass::permute, {d}, {sorted});
    d = sorted;
  }
  if (s.expert_out != ops::kNoTensor) {
    const TensorId unscaled = b.tensor("unscaled_gradient", size.rows * h, Module::combine);
    b.elementwise(Pass::dgrad, Module::combine, ElementwiseClass::streaming,
                  {d, s.expert_out, s.scaled, s.row_probs}, {unscaled});
    d = unscaled;
  }

  const TensorId d_act = b.tensor("expert_activation_gradient", size.rows * size.width, Module::expert_out);
  expert_gemm(b, Pass::dgrad, Module::expert_out, size, size.width, h, {d}, {d_act});
  expert_wgrad(b, Module::expert_out, size, h, size.width, s.activation.out, d);
  const TensorId d_up = activation_backward(b, spec.gated, s.activation, d_act, size.rows, size.width,
                                            Module::expert_activation);
  TensorId d_rows = b.tensor("expert_input_gradient", size.rows * h, Module::expert_in);
  expert_gemm(b, Pass::dgrad, Module::expert_in, size, h, in_width, {d_up}, {d_rows});
  expert_wgrad(b, Module::expert_in, size, in_width, h, s.rows, d_up);

  if (sorts) {
    const TensorId unsorted = b.tensor("unsorted_gradient", size.rows * h, Module::dispatch);
    b.elementwise(Pass::dgrad, Module::dispatch, ElementwiseClass::permute, {d_rows}, {unsorted});
    d_rows = unsorted;
  }
  if (c.etp > 1) {
    const TensorId reduced = b.tensor("reduced_row_gradient", size.sent * h, Module::dispatch);
    b.collective(Pass::dgrad, Module::dispatch, CollectiveKind::reduce_scatter, Axis::etp,
                 size.rows * h, c.activation, {d_rows}, {reduced});
    d_rows = reduced;
  }
  if (c.ep > 1) {
    const TensorId back = b.tensor("returned_gradient", size.sent * h, Module::dispatch);
    all_to_all(spec, b, Pass::dgrad, Module::dispatch, size, d_rows, back);
    d_rows = back;
  }
  const TensorId dx_rows = b.tensor("moe_input_gradient", size.tokens * h, Module::dispatch);
  b.elementwise(Pass::dgrad, Module::dispatch, ElementwiseClass::permute, {d_rows, s.row_map}, {dx_rows});

  const Module m = Module::router;
  const TensorId d_logits = b.tensor("router_logits_gradient", size.tokens * spec.experts, DType::fp32, m);
  b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming,
                {s.probs, s.row_probs, s.row_map, s.top_index, s.top_value, s.top_sum}, {d_logits})
      .kernels = b.profile().fusions.router ? 2 : 6;
  const TensorId dx_router = b.tensor("router_input_gradient", size.tokens * h, m);
  const double experts = spec.experts;
  b.gemm(Pass::dgrad, m, {size.tokens, h, experts, 1, c.activation}, {d_logits}, {dx_router});
  b.gemm(Pass::wgrad, m, {experts, h, size.tokens, 1, c.activation}, {s.input, d_logits}, {});
  const TensorId dx = b.tensor("moe_gradient_sum", size.tokens * h, Module::dispatch);
  b.elementwise(Pass::dgrad, Module::dispatch, ElementwiseClass::streaming,
                {dx_rows, dx_router, dx_shared}, {dx});
  return dx;
}

}  // namespace eratos::layer
