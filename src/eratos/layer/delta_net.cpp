#include "eratos/layer/delta_net.h"

#include <algorithm>

namespace eratos::layer {

using ops::ElementwiseClass;

namespace {

const NormSpec kHeadNorm{NormKind::rmsnorm, false};

bool is_kimi(const DeltaNetSpec& s) { return s.rule == DeltaRule::kimi; }
double keys(const DeltaNetSpec& s) { return static_cast<double>(s.key_heads) * s.key_dim; }
double values(const DeltaNetSpec& s) { return static_cast<double>(s.value_heads) * s.value_dim; }
double channels(const DeltaNetSpec& s) { return 2 * keys(s) + values(s); }
double projected(const DeltaNetSpec& s) {
  return channels(s) + (is_kimi(s) ? s.value_heads : values(s) + 2.0 * s.value_heads);
}

LinearSpec in_linear(const DeltaNetSpec& s) {
  return {"mixer_in", s.hidden, projected(s), Split::column, Module::mixer_in, false, 1};
}
// Both low-rank gates read hidden in one product.
LinearSpec gate_down(const DeltaNetSpec& s) {
  return {"gate_down", s.hidden, 2.0 * s.value_dim, Split::replicated, Module::mixer_gate,
          false,       1};
}
LinearSpec decay_up(const DeltaNetSpec& s) {
  return {
      "decay_up", static_cast<double>(s.value_dim), keys(s), Split::column, Module::mixer_in, false,
      1};
}
LinearSpec gate_up(const DeltaNetSpec& s) {
  return {"gate_up",
          static_cast<double>(s.value_dim),
          values(s),
          Split::column,
          Module::mixer_in,
          false,
          1};
}
LinearSpec out_linear(const DeltaNetSpec& s) {
  return {"mixer_out", values(s), s.hidden, Split::row, Module::mixer_out, false, 1};
}

struct Local {
  double tokens;
  double keys;    // columns of q or k before they are copied to the value heads
  double copied;  // after
  double values;
  double heads;
  ScanSizes scan;
};

Local local_sizes(const DeltaNetSpec& s, const LayerContext& c) {
  const double heads = static_cast<double>(s.value_heads) / c.tp;
  return {c.tokens(),       keys(s) / c.tp, heads * s.key_dim,
          values(s) / c.tp, heads,          scan_sizes(c, heads, s.chunk)};
}

void parameters(const DeltaNetSpec& s, Builder& b) {
  const double tp = b.context().tp;
  b.vector_parameter("convolution", channels(s) * s.conv / tp, Module::convolution, false);
  const double decays = s.value_heads + (is_kimi(s) ? keys(s) : s.value_heads);
  b.vector_parameter("decay", decays / tp, Module::scan, false);
}

// What the recurrence makes of its inputs, chunk by chunk.
struct Chunks {
  TensorId w = ops::kNoTensor;
  TensorId u = ops::kNoTensor;
  TensorId states = ops::kNoTensor;
  TensorId fresh = ops::kNoTensor;  // new values
};

Chunks chunk_states(const DeltaNetSpec& spec, Builder& b, Pass pass, const DeltaNetState& s) {
  const Local size = local_sizes(spec, b.context());
  const double k = spec.key_dim;
  const double v = spec.value_dim;
  const Module m = Module::scan;
  Chunks out;
  out.w = b.tensor("chunk_w", size.tokens * size.copied, m);
  out.u = b.tensor("chunk_u", size.tokens * size.values, m);
  b.gemm(pass, m, chunk_product(size.scan, k, size.scan.chunk), {s.inverse, s.key, s.decay},
         {out.w});
  b.gemm(pass, m, chunk_product(size.scan, v, size.scan.chunk), {s.inverse, s.value}, {out.u});
  out.states = b.tensor("chunk_states", size.scan.chunks() * k * v, m);
  out.fresh = b.tensor("chunk_new_values", size.tokens * size.values, m);
  b.gemm(pass, m, chunk_product(size.scan, v, k), {out.w, out.u}, {out.fresh, out.states});
  b.gemm(pass, m, state_product(size.scan, v, k), {s.key, s.decay, out.fresh}, {out.states});
  return out;
}

void project_gates(const DeltaNetSpec& spec, Builder& b, TensorId x, DeltaNetState& s) {
  const LayerContext& c = b.context();
  const TensorId narrow = linear_forward(gate_down(spec), b, x, s.gate_down);
  const double half = c.shard_tokens() * spec.value_dim;
  const TensorId for_decay = b.tensor("decay_latent", half, Module::mixer_gate);
  const TensorId for_gate = b.tensor("gate_latent", half, Module::mixer_gate);
  b.slice(Module::mixer_gate, narrow, {for_decay, for_gate});
  s.decay_raw = linear_forward(decay_up(spec), b, for_decay, s.decay_up);
  s.gate = linear_forward(gate_up(spec), b, for_gate, s.gate_up);
  s.decay_raw = trade_positions(b, Pass::forward, Module::mixer_in, "traded_decay", s.decay_raw);
  b.save(s.decay_raw);
}

TensorId gates_backward(const DeltaNetSpec& spec, Builder& b, const DeltaNetState& s,
                        TensorId d_decay, TensorId d_gate) {
  const LayerContext& c = b.context();
  d_decay = trade_positions(b, Pass::dgrad, Module::mixer_in, "returned_decay_gradient", d_decay);
  const TensorId a = linear_backward(decay_up(spec), b, s.decay_up, d_decay);
  const TensorId g = linear_backward(gate_up(spec), b, s.gate_up, d_gate);
  const TensorId joint =
      b.tensor("gate_latent_gradient", 2 * c.shard_tokens() * spec.value_dim, Module::mixer_gate);
  b.elementwise(Pass::dgrad, Module::mixer_gate, ElementwiseClass::streaming, {a, g}, {joint});
  return linear_backward(gate_down(spec), b, s.gate_down, joint);
}

}  // namespace

double delta_net_parameters(const DeltaNetSpec& s) {
  const double decays = s.value_heads + (is_kimi(s) ? keys(s) : s.value_heads);
  return delta_net_projections(s) + channels(s) * s.conv + decays +
         norm_parameters(kHeadNorm, s.value_dim);
}

double delta_net_projections(const DeltaNetSpec& s) {
  const double gates = is_kimi(s) ? s.value_dim * (2 * s.hidden + keys(s) + values(s)) : 0.0;
  return s.hidden * projected(s) + gates + values(s) * s.hidden;
}

double delta_net_scan_flops(const DeltaNetSpec& s, double sequence) {
  const double chunk = std::min(static_cast<double>(s.chunk), sequence);
  const double k = s.key_dim;
  const double v = s.value_dim;
  return 2.0 * s.value_heads * (chunk * (3 * k + 2 * v) + 3 * k * v);
}

void check_delta_net(const DeltaNetSpec& s, const parallel::ParallelSpec& p, Diagnostics& out) {
  if (s.key_heads < 1 || s.value_heads < 1 || s.key_dim < 1 || s.value_dim < 1 ||
      s.value_heads % s.key_heads != 0) {
    reject(out, "model",
           number(s.key_heads) + " key heads of size " + number(s.key_dim) + " and " +
               number(s.value_heads) + " value heads of size " + number(s.value_dim),
           "give positive numbers, value heads a multiple of key heads");
    return;
  }
  check_cut_twice(s.key_heads, "linear-attention key heads", p, out);
}

TensorId delta_net_forward(const DeltaNetSpec& spec, Builder& b, TensorId x, DeltaNetState& s) {
  const LayerContext& c = b.context();
  const Local size = local_sizes(spec, c);
  const Module m = Module::scan;
  const TensorId projection = linear_forward(in_linear(spec), b, x, s.in);
  parameters(spec, b);
  if (is_kimi(spec)) project_gates(spec, b, x, s);
  s.mixed = trade_positions(b, Pass::forward, Module::mixer_in, "traded_projection", projection);
  b.save(s.mixed);

  const double convolved = size.tokens * (2 * size.keys + size.values);
  const TensorId qkv = b.tensor("convolved", convolved, Module::convolution);
  b.elementwise(Pass::forward, Module::convolution, ElementwiseClass::streaming, {s.mixed}, {qkv},
                bytes_of(convolved - b.elements(s.mixed), c.activation));
  s.query = b.tensor("query", size.tokens * size.copied, m);
  s.key = b.tensor("key", size.tokens * size.copied, m);
  s.value = b.tensor("value", size.tokens * size.values, m);
  b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {qkv}, {s.query, s.key, s.value})
      .kernels = 3;
  s.decay =
      b.tensor("decay", size.tokens * (is_kimi(spec) ? size.copied : size.heads), DType::fp32, m);
  b.elementwise(Pass::forward, m, ElementwiseClass::streaming,
                {is_kimi(spec) ? s.decay_raw : s.mixed}, {s.decay},
                is_kimi(spec)
                    ? Bytes{0}
                    : bytes_of(size.tokens * size.heads - b.elements(s.mixed), c.activation))
      .kernels = 2;

  s.inverse = b.tensor("chunk_inverse", size.scan.rows * size.scan.chunk, m);
  b.gemm(Pass::forward, m, chunk_product(size.scan, size.scan.chunk, spec.key_dim),
         {s.key, s.decay, s.mixed}, {s.inverse})
      .kernels = 2;
  const Chunks chunks = chunk_states(spec, b, Pass::forward, s);
  const TensorId scores = b.tensor("chunk_scores", size.scan.rows * size.scan.chunk, m);
  b.gemm(Pass::forward, m, chunk_product(size.scan, size.scan.chunk, spec.key_dim),
         {s.query, s.key, s.decay}, {scores});
  TensorId out = b.tensor("scanned", size.tokens * size.values, m);
  b.gemm(Pass::forward, m, chunk_product(size.scan, spec.value_dim, spec.key_dim + size.scan.chunk),
         {s.query, scores, chunks.states, chunks.fresh}, {out});
  for (const TensorId id : {s.query, s.key, s.value, s.decay, s.inverse}) b.save(id);
  if (is_kimi(spec)) {
    s.scores = scores;
    b.save(scores);
  }

  out = trade_positions(b, Pass::forward, m, "returned_scan", out);
  s.norm = norm_forward(kHeadNorm, b, out, size.tokens * size.heads, spec.value_dim, m);
  if (!is_kimi(spec)) {
    // The gate went along with q, k, v; it stays with the positions of the rank.
    s.gate = b.tensor("gate", size.tokens * size.values, m);
    b.slice(m, projection, {s.gate});
  }
  b.save(s.gate);
  s.normed = s.norm.output;
  const TensorId gated = b.tensor("gated_scan", size.tokens * size.values, m);
  // One kernel with the norm where norms are fused: the normalised rows are then not kept.
  b.elementwise(Pass::forward, m, ElementwiseClass::streaming, {s.normed, s.gate}, {gated});
  if (!b.profile().fusions.norm) b.save(s.normed);
  return linear_forward(out_linear(spec), b, gated, s.out);
}

TensorId delta_net_backward(const DeltaNetSpec& spec, Builder& b, const DeltaNetState& s,
                            TensorId dy) {
  const LayerContext& c = b.context();
  const Local size = local_sizes(spec, c);
  const Module m = Module::scan;
  const double k = spec.key_dim;
  const double v = spec.value_dim;
  const double chunk = size.scan.chunk;
  const TensorId d_gated = linear_backward(out_linear(spec), b, s.out, dy);
  const TensorId d_normed = b.tensor("normed_gradient", size.tokens * size.values, m);
  TensorId d_gate = b.tensor("gate_gradient", size.tokens * size.values, m);
  b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming,
                {d_gated, s.gate, b.profile().fusions.norm ? s.norm.input : s.normed},
                {d_normed, d_gate});
  TensorId d_out = norm_backward(kHeadNorm, b, s.norm, d_normed, m);
  d_out = trade_positions(b, Pass::dgrad, m, "traded_gradient", d_out);

  const Chunks chunks = chunk_states(spec, b, Pass::dgrad, s);
  TensorId scores = s.scores;
  if (scores == ops::kNoTensor) {
    scores = b.tensor("chunk_scores", size.scan.rows * chunk, m);
    b.gemm(Pass::dgrad, m, chunk_product(size.scan, chunk, k), {s.query, s.key, s.decay}, {scores});
  }
  // New values: from the outputs inside the chunk, and through the state.
  const TensorId d_fresh = b.tensor("chunk_new_value_gradient", size.tokens * size.values, m);
  const TensorId d_states = b.tensor("chunk_state_gradient", size.scan.chunks() * k * v, m);
  b.gemm(Pass::dgrad, m, chunk_product(size.scan, v, chunk), {scores, d_out}, {d_fresh});
  b.gemm(Pass::dgrad, m, state_product(size.scan, v, k, 2), {s.query, d_out, chunks.w}, {d_states});
  b.gemm(Pass::dgrad, m, chunk_product(size.scan, v, k), {s.key, d_states, d_fresh}, {d_fresh});
  const TensorId d_query = b.tensor("query_gradient", size.tokens * size.copied, m);
  const TensorId d_key = b.tensor("key_gradient", size.tokens * size.copied, m);
  const TensorId d_w = b.tensor("chunk_w_gradient", size.tokens * size.copied, m);
  const TensorId d_scores = b.tensor("chunk_score_gradient", size.scan.rows * chunk, m);
  b.gemm(Pass::dgrad, m, chunk_product(size.scan, chunk, v), {d_out, chunks.fresh}, {d_scores});
  b.gemm(Pass::dgrad, m, chunk_product(size.scan, k, v, 3),
         {d_out, chunks.states, chunks.fresh, d_states, d_fresh}, {d_query, d_key, d_w});
  b.gemm(Pass::dgrad, m, chunk_product(size.scan, k, chunk, 2), {d_scores, s.query, s.key},
         {d_query, d_key});
  // Through w, u and the inverse.
  const TensorId d_inverse = b.tensor("chunk_inverse_gradient", size.scan.rows * chunk, m);
  const TensorId d_value = b.tensor("value_gradient", size.tokens * size.values, m);
  b.gemm(Pass::dgrad, m, chunk_product(size.scan, chunk, k + v), {d_w, s.key, d_fresh, s.value},
         {d_inverse});
  b.gemm(Pass::dgrad, m, chunk_product(size.scan, v, chunk), {s.inverse, d_fresh}, {d_value});
  b.gemm(Pass::dgrad, m, chunk_product(size.scan, k, chunk), {s.inverse, d_w}, {d_key});
  b.gemm(Pass::dgrad, m, chunk_product(size.scan, k, chunk), {d_inverse, s.inverse, s.key},
         {d_key});

  const TensorId d_decay =
      b.tensor("decay_gradient", size.tokens * (is_kimi(spec) ? size.keys : size.heads), m);
  b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming,
                {s.decay, is_kimi(spec) ? s.decay_raw : ops::kNoTensor, d_key, d_query}, {d_decay})
      .kernels = 2;
  const double convolved = size.tokens * (2 * size.keys + size.values);
  const TensorId d_qkv = b.tensor("convolved_gradient", convolved, Module::convolution);
  b.elementwise(Pass::dgrad, m, ElementwiseClass::streaming, {d_query, d_key, d_value}, {d_qkv})
      .kernels = 3;
  const TensorId d_mixed =
      b.tensor("projection_gradient", b.elements(s.mixed), Module::convolution);
  b.elementwise(Pass::dgrad, Module::convolution, ElementwiseClass::streaming,
                {d_qkv, s.mixed, is_kimi(spec) ? ops::kNoTensor : d_decay}, {d_mixed},
                bytes_of(2 * (convolved - b.elements(s.mixed)), c.activation));
  TensorId d_projection =
      trade_positions(b, Pass::dgrad, Module::mixer_in, "returned_gradient", d_mixed);
  if (!is_kimi(spec)) {
    b.elementwise(Pass::dgrad, Module::mixer_in, ElementwiseClass::streaming, {d_gate},
                  {d_projection},
                  bytes_of(b.elements(d_gate) - b.elements(d_projection), c.activation));
    return linear_backward(in_linear(spec), b, s.in, d_projection);
  }
  const TensorId dx_gates = gates_backward(spec, b, s, d_decay, d_gate);
  const TensorId dx_in = linear_backward(in_linear(spec), b, s.in, d_projection);
  const TensorId dx =
      b.tensor("mixer_input_gradient", c.shard_tokens() * spec.hidden, Module::mixer_in);
  b.elementwise(Pass::dgrad, Module::mixer_in, ElementwiseClass::streaming, {dx_gates, dx_in},
                {dx});
  return dx;
}

MixerWork delta_net_work(const DeltaNetSpec& spec, double, bool) {
  const double states = 4.0 * spec.value_heads * spec.value_dim * spec.value_dim;
  const double taps =
      spec.conv * (2.0 * spec.key_heads * spec.key_dim + 1.0 * spec.value_heads * spec.value_dim);
  return {.weights = delta_net_projections(spec) + taps + states};
}

}  // namespace eratos::layer
