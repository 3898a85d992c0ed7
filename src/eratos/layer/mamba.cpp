#include "eratos/layer/mamba.h"

#include <algorithm>

namespace eratos::layer {

using ops::ElementwiseClass;

namespace {

const NormSpec kGatedNorm{NormKind::rmsnorm, false};

double inner(const MambaSpec& s) { return static_cast<double>(s.heads) * s.head_dim; }
double group_width(const MambaSpec& s) { return static_cast<double>(s.groups) * s.state; }
double channels(const MambaSpec& s) { return inner(s) + 2 * group_width(s); }
double projected(const MambaSpec& s) { return inner(s) + channels(s) + s.heads; }

LinearSpec in_linear(const MambaSpec& s) {
  return {"mixer_in", s.hidden, projected(s), Split::column, Module::mixer_in, false, 1};
}
LinearSpec out_linear(const MambaSpec& s) {
  return {"mixer_out", inner(s), s.hidden, Split::row, Module::mixer_out, false, 1};
}

struct Local {
  double inner;     // columns of z, of x and of the result
  double channels;  // of the convolution
  ScanSizes heads;
  ScanSizes groups;
};

Local local_sizes(const MambaSpec& s, const LayerContext& c) {
  const double heads = static_cast<double>(s.heads) / c.tp;
  const double groups = static_cast<double>(s.groups) / c.tp;
  return {inner(s) / c.tp, channels(s) / c.tp, scan_sizes(c, heads, s.chunk),
          scan_sizes(c, groups, s.chunk)};
}

void parameters(const MambaSpec& s, Builder& b) {
  const double tp = b.context().tp;
  const double taps = s.conv + (s.conv_bias ? 1 : 0);
  b.vector_parameter("convolution", channels(s) * taps / tp, Module::convolution, false);
  b.vector_parameter("step_decay_skip", 3.0 * s.heads / tp, Module::scan, false);
}

TensorId convolve(const MambaSpec& s, Builder& b, Pass pass, TensorId mixed) {
  const Local size = local_sizes(s, b.context());
  const double elements = b.context().tokens() * size.channels;
  const TensorId y = b.tensor("convolved", elements, Module::convolution);
  // Of the joint projection only x, B and C are read.
  b.elementwise(pass, Module::convolution, ElementwiseClass::streaming, {mixed}, {y},
                bytes_of(elements - b.elements(mixed), b.context().activation));
  return y;
}

struct Chunks {
  TensorId scores = ops::kNoTensor;
  TensorId states = ops::kNoTensor;
};

// Scores inside each chunk, and the state before each chunk.
Chunks chunk_states(const MambaSpec& s, Builder& b, Pass pass, TensorId mixed, TensorId convolved) {
  const Local size = local_sizes(s, b.context());
  Chunks out;
  out.scores =
      b.tensor("chunk_scores", size.groups.rows * size.groups.chunk, DType::fp32, Module::scan);
  b.gemm(pass, Module::scan, chunk_product(size.groups, size.groups.chunk, s.state), {convolved},
         {out.scores});
  const double states = size.heads.chunks() * s.state * s.head_dim;
  out.states = b.tensor("chunk_states", states, DType::fp32, Module::scan);
  b.gemm(pass, Module::scan, state_product(size.heads, s.head_dim, s.state), {convolved, mixed},
         {out.states});
  b.elementwise(pass, Module::scan, ElementwiseClass::streaming, {out.states}, {out.states});
  return out;
}

}  // namespace

double mamba_parameters(const MambaSpec& s) {
  return mamba_projections(s) + channels(s) * (s.conv + (s.conv_bias ? 1 : 0)) + 3.0 * s.heads +
         norm_parameters(kGatedNorm, inner(s));
}

double mamba_projections(const MambaSpec& s) {
  return s.hidden * projected(s) + inner(s) * s.hidden;
}

double mamba_scan_flops(const MambaSpec& s, double sequence) {
  const double chunk = std::min(static_cast<double>(s.chunk), sequence);
  return 2.0 * (chunk * group_width(s) + inner(s) * (2.0 * s.state + chunk));
}

void check_mamba(const MambaSpec& s, const parallel::ParallelSpec& p, Diagnostics& out) {
  if (s.heads < 1 || s.head_dim < 1 || s.state < 1 || s.groups < 1 || s.heads % s.groups != 0) {
    reject(out, "model",
           number(s.heads) + " state-space heads of size " + number(s.head_dim) + " in " +
               number(s.groups) + " groups of state " + number(s.state),
           "give positive numbers, heads a multiple of groups");
    return;
  }
  check_cut_twice(s.groups, "state-space groups", p, out);
}

TensorId mamba_forward(const MambaSpec& spec, Builder& b, TensorId x, MambaState& s) {
  const LayerContext& c = b.context();
  const Local size = local_sizes(spec, c);
  const TensorId projection = linear_forward(in_linear(spec), b, x, s.in);
  parameters(spec, b);
  s.mixed = trade_positions(b, Pass::forward, Module::mixer_in, "traded_projection", projection);
  b.save(s.mixed);
  const TensorId convolved = convolve(spec, b, Pass::forward, s.mixed);
  const Chunks chunks = chunk_states(spec, b, Pass::forward, s.mixed, convolved);
  s.scanned = b.tensor("scanned", c.tokens() * size.inner, Module::scan);
  b.gemm(Pass::forward, Module::scan,
         chunk_product(size.heads, spec.head_dim, size.heads.chunk + spec.state),
         {chunks.scores, chunks.states, convolved, s.mixed}, {s.scanned});
  b.save(s.scanned);
  TensorId gated = b.tensor("gated_scan", c.tokens() * size.inner, Module::scan);
  const Bytes only_gate = bytes_of(b.elements(gated) - b.elements(s.mixed), c.activation);
  b.elementwise(Pass::forward, Module::scan, ElementwiseClass::streaming, {s.scanned, s.mixed},
                {gated}, only_gate);
  gated = trade_positions(b, Pass::forward, Module::scan, "returned_scan", gated);
  s.norm = norm_forward(kGatedNorm, b, gated, c.tokens(), size.inner, Module::scan, false);
  return linear_forward(out_linear(spec), b, s.norm.output, s.out);
}

TensorId mamba_backward(const MambaSpec& spec, Builder& b, const MambaState& s, TensorId dy) {
  const LayerContext& c = b.context();
  const Local size = local_sizes(spec, c);
  const double n = spec.state;
  const double p = spec.head_dim;
  const TensorId d_normed = linear_backward(out_linear(spec), b, s.out, dy);
  TensorId d_gated = norm_backward(kGatedNorm, b, s.norm, d_normed, Module::scan);
  d_gated = trade_positions(b, Pass::dgrad, Module::scan, "traded_gradient", d_gated);

  const TensorId convolved = convolve(spec, b, Pass::dgrad, s.mixed);
  const Chunks chunks = chunk_states(spec, b, Pass::dgrad, s.mixed, convolved);
  const TensorId d_scanned = b.tensor("scan_gradient", c.tokens() * size.inner, Module::scan);
  const TensorId d_mixed = b.tensor("projection_gradient", b.elements(s.mixed), Module::scan);
  const double beside = 2 * (b.elements(d_gated) - b.elements(s.mixed));
  b.elementwise(Pass::dgrad, Module::scan, ElementwiseClass::streaming,
                {d_gated, s.scanned, s.mixed}, {d_scanned, d_mixed},
                bytes_of(beside, c.activation));
  // States: from the outputs that read them. Then x and the scores of the pairs inside a chunk; x,
  // B and C through the states; B and C through the scores.
  const TensorId d_states =
      b.tensor("chunk_state_gradient", size.heads.chunks() * n * p, DType::fp32, Module::scan);
  b.gemm(Pass::dgrad, Module::scan, state_product(size.heads, p, n), {d_scanned, convolved},
         {d_states});
  const TensorId d_scores = b.tensor("chunk_score_gradient", size.groups.rows * size.groups.chunk,
                                     DType::fp32, Module::scan);
  b.gemm(Pass::dgrad, Module::scan, chunk_product(size.heads, size.heads.chunk, p),
         {d_scanned, convolved}, {d_scores});
  const TensorId d_convolved =
      b.tensor("convolved_gradient", c.tokens() * size.channels, Module::scan);
  b.gemm(Pass::dgrad, Module::scan, chunk_product(size.heads, p, size.heads.chunk + n),
         {d_scanned, chunks.scores, d_states, convolved}, {d_convolved});
  b.gemm(Pass::dgrad, Module::scan, chunk_product(size.heads, n, p, 2),
         {d_scanned, chunks.states, d_states, convolved}, {d_convolved});
  b.gemm(Pass::dgrad, Module::scan, chunk_product(size.groups, n, size.groups.chunk, 2),
         {d_scores, convolved}, {d_convolved});
  b.elementwise(Pass::dgrad, Module::convolution, ElementwiseClass::streaming,
                {d_convolved, s.mixed}, {d_mixed},
                bytes_of(2 * (b.elements(d_convolved) - b.elements(s.mixed)), c.activation));
  const TensorId d_projection =
      trade_positions(b, Pass::dgrad, Module::mixer_in, "returned_gradient", d_mixed);
  return linear_backward(in_linear(spec), b, s.in, d_projection);
}

MixerWork mamba_work(const MambaSpec& spec, double, bool) {
  return {.weights = mamba_projections(spec) + 3.5 * spec.heads * spec.head_dim * spec.state};
}

}  // namespace eratos::layer
