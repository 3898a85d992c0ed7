#include "eratos/layer/dispatch.h"

#include <algorithm>
#include <cmath>

#include "eratos/ops/fanout.h"

namespace eratos::layer {

using ops::CollectiveKind;
using ops::ElementwiseClass;
using parallel::Axis;

namespace {

// Rows of one expert from one rank, `mean` on average, rounded up to a multiple: sum over j of a P(N > a j),
// N normal with the variance of so many chances. Whole multiples far below the mean are certain.
// Source: NVIDIA/Megatron-LM core/transformer/moe/moe_utils.py, pad_routing_map.
// Worked example: 176 rows, multiples of 32: 191.9; of 128: 256 (128 and 256 are 3.6 and 6 deviations off).
double rounded_rows(double mean, double multiple) {
  constexpr double kCertain = 6;
  const double spread = std::sqrt(mean);
  double rows = multiple * std::max(0.0, std::floor((mean - kCertain * spread) / multiple));
  for (double edge = rows; edge < mean + kCertain * spread; edge += multiple) {
    rows += multiple * 0.5 * std::erfc((edge - mean) / (spread * std::sqrt(2.0)));
  }
  return rows;
}

double rows_sent(const MoeSpec& spec, const LayerContext& c, double chosen) {
  if (c.capacity_factor <= 0 && c.row_multiple > 1 && c.dispatcher != Dispatcher::einsum) {
    return spec.experts * rounded_rows(chosen / spec.experts, c.row_multiple);
  }
  if (c.capacity_factor <= 0) return chosen;
  const double capacity = spec.experts * std::ceil(chosen * c.capacity_factor / spec.experts);
  const bool padded = c.pad_to_capacity || c.dispatcher == Dispatcher::einsum;
  return padded ? capacity : std::min(chosen, capacity);
}

ops::Fanout fanout_of(const MoeSpec& spec) {
  return {spec.experts, spec.top_k, spec.groups, spec.top_groups};
}

bool once_a_rank(const LayerContext& c) {
  return c.dispatcher == Dispatcher::deepep || c.dispatcher == Dispatcher::hybridep;
}

// What the exchange across nodes needs to know: nothing where every copy travels by itself.
ops::Fanout once_a_node(const MoeSpec& spec, const LayerContext& c) {
  return once_a_rank(c) ? fanout_of(spec) : ops::Fanout{};
}

// Shapes are fixed when the program is compiled, and no row is dropped: buffers hold whatever may come.
bool holds_the_worst(const LayerContext& c) {
  return c.profile->saved.worst_case_rows && c.ep > 1 && c.capacity_factor <= 0 &&
         c.dispatcher != Dispatcher::einsum;
}

// Rows that stand on this rank between the exchange and the experts' order.
double rows_received(const MoeSpec& spec, const LayerContext& c, const RouteSizes& size) {
  if (!once_a_rank(c) || c.ep <= 1) return size.received;
  return c.load * std::min(size.sent, size.tokens * ops::distinct_places(fanout_of(spec), c.ep));
}

// Rows of the buffer that the exchange fills: a token once, where it goes once to each rank.
double rows_arrived(const MoeSpec& spec, const LayerContext& c, const RouteSizes& size) {
  if (holds_the_worst(c)) return once_a_rank(c) ? size.tokens * c.ep : size.chosen * c.ep;
  return c.dispatcher == Dispatcher::hybridep ? size.received : rows_received(spec, c, size);
}

// Where the rows change order beside the exchange.
struct Sorts {
  bool before = false;
  bool behind = false;
};
Sorts sorts_of(const LayerContext& c, const RouteSizes& size) {
  if (c.dispatcher == Dispatcher::einsum) return {false, false};
  if (c.ep <= 1) return {true, false};
  switch (c.dispatcher) {
    case Dispatcher::alltoall:
      return {true, size.local_experts > 1};
    case Dispatcher::deepep:
      return {false, true};
    case Dispatcher::hybridep:
    case Dispatcher::allgather:
    case Dispatcher::einsum:
      break;
  }
  return {false, false};
}

Module module_of(Pass pass, bool scatter) {
  return (pass == Pass::forward) == scatter ? Module::dispatch : Module::combine;
}

// One step of the way, in whichever pass: a new tensor of `elements` made from `from`.
struct Way {
  Builder& b;
  Pass pass;
  Module module;
  TensorId at;

  void permute(const char* name, double elements, TensorId map = ops::kNoTensor) {
    const TensorId to = b.tensor(name, elements, module);
    b.elementwise(pass, module, ElementwiseClass::permute, {at, map}, {to});
    at = to;
  }
  // Copies of a token are added up. Without a fused kernel atomics do it, which read and write back
  // more than they add.
  void add_up(const char* name, double elements, TensorId map) {
    const auto& profile = b.profile();
    const double more = profile.fusions.permute ? 0.0 : profile.kernel.scatter_add - 1;
    const Bytes extra = bytes_of(2 * more * b.elements(at), b.context().activation);
    const TensorId to = b.tensor(name, elements, module);
    b.elementwise(pass, module, ElementwiseClass::permute, {at, map}, {to}, extra);
    at = to;
  }
  void product(const char* name, double elements, const ops::Gemm& work, TensorId masks) {
    const TensorId to = b.tensor(name, elements, module);
    b.gemm(pass, module, work, {at, masks}, {to});
    at = to;
  }
  // Zeros, where nothing may come.
  void clear(double elements) {
    b.elementwise(pass, module, ElementwiseClass::streaming, {}, {},
                  bytes_of(elements, b.context().activation));
  }
  // Rows in expert order from (or to) `elements` of the exchange's own buffer.
  void copy(double elements) {
    b.elementwise(pass, module, ElementwiseClass::permute, {at}, {},
                  bytes_of(elements, b.context().activation));
  }
  void exchange(const char* name, CollectiveKind kind, Axis axis, double moved, double elements,
                ops::Fanout fanout = {}) {
    const TensorId to = b.tensor(name, elements, module);
    b.collective(pass, module, kind, axis, moved, b.context().activation, {at}, {to}, 0, fanout);
    at = to;
  }
};

// Places of all experts that one sequence's tokens may take.
double places(const RouteSizes& size, const LayerContext& c) { return size.sent / c.sequences; }

// One product with the masks: m rows of width n from k, each sequence by itself.
ops::Gemm masked(const LayerContext& c, double m, double n, double k) {
  return {m, n, k, c.sequences, c.activation, false, false, true};
}

TensorId scatter_from_all(Way way, const LayerContext& c, const RouteSizes& size, TensorId map) {
  double all = size.tokens * size.width;
  if (c.ep > 1) {
    all *= c.ep;
    way.exchange("gathered_tokens", CollectiveKind::all_gather, Axis::ep, all, all);
  }
  if (c.etp > 1) {
    all *= c.etp;
    way.exchange("gathered_etp_tokens", CollectiveKind::all_gather, Axis::etp, all, all);
  }
  way.permute("picked_rows", size.rows * size.width, map);
  return way.at;
}

TensorId gather_to_all(Way way, const LayerContext& c, const RouteSizes& size, TensorId map) {
  double all = size.tokens * size.width * c.ep * c.etp;
  way.permute("partial_tokens", all, map);
  if (c.etp > 1) {
    way.exchange("reduced_etp_tokens", CollectiveKind::reduce_scatter, Axis::etp, all, all / c.etp);
    all /= c.etp;
  }
  if (c.ep > 1) {
    way.exchange("reduced_tokens", CollectiveKind::reduce_scatter, Axis::ep, all, all / c.ep);
  }
  return way.at;
}

}  // namespace

RouteSizes route_sizes(const MoeSpec& spec, const LayerContext& c) {
  RouteSizes size;
  size.tokens = c.shard_tokens();
  size.chosen = size.tokens * spec.top_k;
  size.sent = rows_sent(spec, c, size.chosen);
  size.received = size.sent * c.load;
  size.rows = size.received * c.etp;
  // Every row of every rank of the group may come to one of them.
  size.held = holds_the_worst(c) ? size.chosen * c.ep * c.etp : size.rows;
  size.strided = c.dispatcher == Dispatcher::einsum;
  size.local_experts = static_cast<double>(spec.experts) / c.ep;
  size.width = spec.latent > 0 ? spec.latent : spec.hidden;
  size.expert_width = spec.ffn / c.etp;
  return size;
}

TensorId scatter_rows(const MoeSpec& spec, Builder& b, Pass pass, TensorId tokens, TensorId map) {
  const LayerContext& c = b.context();
  const RouteSizes size = route_sizes(spec, c);
  Way way{b, pass, module_of(pass, true), tokens};
  if (c.dispatcher == Dispatcher::allgather) return scatter_from_all(way, c, size, map);
  const Sorts sorts = sorts_of(c, size);
  const double received = rows_received(spec, c, size) * size.width;
  const double arrived = rows_arrived(spec, c, size) * size.width;
  const bool forward = pass == Pass::forward;
  if (c.dispatcher == Dispatcher::einsum) {
    way.product(forward ? "placed_rows" : "placed_gradient", size.sent * size.width,
                masked(c, size.sent, size.width, size.tokens / c.sequences), map);
  }
  if (sorts.before) {
    way.permute(forward ? "permuted_rows" : "row_gradient", size.sent * size.width, map);
  }
  double here = sorts.before ? size.sent * size.width : arrived;
  if (c.ep > 1) {
    if (holds_the_worst(c)) way.clear(arrived);
    way.exchange(forward ? "received_rows" : "received_gradient", CollectiveKind::all_to_all,
                 Axis::ep, received, arrived, once_a_node(spec, c));
    here = arrived;
    if (c.dispatcher == Dispatcher::hybridep) way.copy(received);
  }
  if (c.etp > 1) {
    way.exchange(forward ? "gathered_rows" : "gathered_row_gradient", CollectiveKind::all_gather,
                 Axis::etp, here * c.etp, here * c.etp);
  }
  if (sorts.behind) {
    way.permute(forward ? "sorted_rows" : "sorted_gradient", size.held * size.width,
                sorts.before ? ops::kNoTensor : map);
  }
  return way.at;
}

TensorId gather_rows(const MoeSpec& spec, Builder& b, Pass pass, TensorId rows, TensorId map,
                     TensorId* returned_rows) {
  const LayerContext& c = b.context();
  const RouteSizes size = route_sizes(spec, c);
  Way way{b, pass, module_of(pass, false), rows};
  if (c.dispatcher == Dispatcher::allgather) return gather_to_all(way, c, size, map);
  const Sorts sorts = sorts_of(c, size);
  const double received = rows_received(spec, c, size) * size.width;
  const double here = c.dispatcher == Dispatcher::einsum ? size.sent * size.width
                      : holds_the_worst(c)               ? rows_arrived(spec, c, size) * size.width
                      : c.dispatcher == Dispatcher::hybridep || sorts.before
                          ? size.received * size.width
                          : received;
  const bool by_masks = c.dispatcher == Dispatcher::einsum;
  const double returned =
      sorts.before || by_masks ? size.sent * size.width : size.tokens * size.width;
  const bool forward = pass == Pass::forward;
  if (sorts.behind && sorts.before) {
    way.permute(forward ? "unsorted_rows" : "unsorted_gradient", here * c.etp);
  } else if (sorts.behind) {
    way.add_up(forward ? "unsorted_rows" : "unsorted_gradient", here * c.etp, map);
  }
  if (c.etp > 1) {
    way.exchange(forward ? "reduced_rows" : "reduced_row_gradient", CollectiveKind::reduce_scatter,
                 Axis::etp, here * c.etp, here);
  }
  if (c.ep > 1) {
    if (c.dispatcher == Dispatcher::hybridep) way.copy(received);
    way.exchange(forward ? "returned_rows" : "returned_gradient", CollectiveKind::all_to_all,
                 Axis::ep, received, returned, once_a_node(spec, c));
  }
  if (returned_rows != nullptr) *returned_rows = way.at;
  if (by_masks) {
    way.product(forward ? "moe_output" : "moe_input_gradient", size.tokens * size.width,
                masked(c, size.tokens, size.width, places(size, c)), map);
  }
  if (sorts.before) {
    way.add_up(forward ? "moe_output" : "moe_input_gradient", size.tokens * size.width, map);
  }
  return way.at;
}

TensorId routing_masks(const MoeSpec& spec, Builder& b, TensorId probs) {
  const LayerContext& c = b.context();
  const RouteSizes size = route_sizes(spec, c);
  const TensorId masks =
      b.tensor("routing_masks", 2 * size.tokens * places(size, c), Module::router);
  b.elementwise(Pass::forward, Module::router, ElementwiseClass::streaming, {probs}, {masks})
      .kernels = 4;
  return masks;
}

TensorId mask_gradient(const MoeSpec& spec, Builder& b, TensorId dy, TensorId returned) {
  const LayerContext& c = b.context();
  const RouteSizes size = route_sizes(spec, c);
  const TensorId d_masks =
      b.tensor("mask_gradient", size.tokens * places(size, c), Module::combine);
  b.gemm(Pass::dgrad, Module::combine, masked(c, size.tokens, places(size, c), size.width),
         {dy, returned}, {d_masks});
  return d_masks;
}

}  // namespace eratos::layer
