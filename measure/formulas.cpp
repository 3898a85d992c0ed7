#include "formulas.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <torch/csrc/api/include/torch/version.h>

namespace eratos::device {

namespace {

constexpr double kEpsilon = 1e-6;

// ---- as a device does them ----

at::Tensor fast_norm(const at::Tensor& x, const at::Tensor& weight, bool layer) {
  if (layer) return at::layer_norm(x, {x.size(-1)}, weight, {}, kEpsilon);
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
  return at::rms_norm(x, {x.size(-1)}, weight, kEpsilon);
#else
  // As the common eager code has it: squares in fp32, then back.
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = at::rsqrt(wide.mul(wide).mean(-1, true) + kEpsilon);
  return (wide * scale).to(x.scalar_type()) * weight;
#endif
}

at::Tensor fast_activated(const at::Tensor& x, Activation kind) {
  switch (kind) {
    case Activation::silu:
      return at::silu(x);
    case Activation::gelu:
      return at::gelu(x);
    case Activation::relu:
      return at::relu(x);
    case Activation::squared_relu:
      break;
  }
  return at::relu(x).square();
}

at::Tensor fast_activation(const at::Tensor& x, Activation kind, bool gated) {
  if (!gated) return fast_activated(x, kind);
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return fast_activated(halves[0], kind) * halves[1];
}

at::Tensor fast_rotary(const at::Tensor& x, const at::Tensor& angles) {
  const at::Tensor full = at::cat({angles, angles}, -1).unsqueeze(1);  // [s, 1, d]
  const at::Tensor cos = full.cos().to(x.scalar_type());
  const at::Tensor sin = full.sin().to(x.scalar_type());
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return x * cos + at::cat({-halves[1], halves[0]}, -1) * sin;
}

// [s, s'], true where a query sees a key; the last query sees the last key.
at::Tensor seen(std::int64_t queries, std::int64_t keys, bool causal, std::int64_t window,
                c10::Device device) {
  const at::Tensor q =
      at::arange(queries, at::TensorOptions(device)).unsqueeze(1) + (keys - queries);
  const at::Tensor k = at::arange(keys, at::TensorOptions(device)).unsqueeze(0);
  at::Tensor out = causal ? k <= q : k >= 0;
  out = out.expand({queries, keys});
  if (window > 0) out = at::logical_and(out, k > q - window);
  return out;
}

at::Tensor repeated(const at::Tensor& x,
                    std::int64_t times) {  // [b, g, s, d] -> [b, g*times, s, d]
  if (times == 1) return x;
  return x.unsqueeze(2)
      .expand({x.size(0), x.size(1), times, x.size(2), x.size(3)})
      .reshape({x.size(0), x.size(1) * times, x.size(2), x.size(3)});
}

at::Tensor composed_attention(const at::Tensor& q4, const at::Tensor& k4, const at::Tensor& v4,
                              bool causal, std::int64_t window) {
  const std::int64_t times = q4.size(2) / k4.size(2);
  const at::Tensor q = q4.transpose(1, 2);
  const at::Tensor k = repeated(k4.transpose(1, 2), times);
  const at::Tensor v = repeated(v4.transpose(1, 2), times);
  const double scale = 1 / std::sqrt(static_cast<double>(q.size(3)));
  at::Tensor scores = at::matmul(q * scale, k.transpose(2, 3));
  if (causal || window > 0) {
    const at::Tensor visible = seen(q.size(2), k.size(2), causal, window, q.device());
    scores = scores.masked_fill(at::logical_not(visible), -INFINITY);
  }
  return at::matmul(at::softmax(scores, -1), v).transpose(1, 2);
}

at::Tensor fast_attention(const at::Tensor& q4, const at::Tensor& k4, const at::Tensor& v4,
                          bool causal, std::int64_t window, bool fused) {
  const std::int64_t keys = k4.size(1);
  const std::int64_t band = window < keys ? window : 0;
#if TORCH_VERSION_MAJOR >= 2
  if (fused) {
    const at::Tensor q = q4.transpose(1, 2);
    const bool masked = band > 0 || (causal && q.size(2) != keys);
    at::Tensor mask;
    if (masked) mask = seen(q.size(2), keys, causal, band, q.device());
    const std::int64_t times = q4.size(2) / k4.size(2);
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 5
    // The kernel shares keys and values among the query heads of a group by itself.
    const at::Tensor k = k4.transpose(1, 2);
    const at::Tensor v = v4.transpose(1, 2);
    const bool grouped = times > 1;
    return (masked ? at::scaled_dot_product_attention(q, k, v, mask, 0.0, false, {}, grouped)
                   : at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal, {}, grouped))
        .transpose(1, 2);
#else
    const at::Tensor k = repeated(k4.transpose(1, 2), times);
    const at::Tensor v = repeated(v4.transpose(1, 2), times);
    return (masked ? at::scaled_dot_product_attention(q, k, v, mask, 0.0, false)
                   : at::scaled_dot_product_attention(q, k, v, {}, 0.0, causal))
        .transpose(1, 2);
#endif
  }
#else
  (void)fused;
#endif
  return composed_attention(q4, k4, v4, causal, band);
}

at::Tensor fast_router(const at::Tensor& logits, std::int64_t k) {
  const at::Tensor probabilities = at::softmax(logits.to(at::kFloat), -1);
  const at::Tensor chosen = std::get<0>(at::topk(probabilities, k, -1));
  return chosen / chosen.sum(-1, true);
}

at::Tensor fast_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return at::cross_entropy_loss(logits.to(at::kFloat), targets);
}

// ---- by definition, in double ----

at::Tensor plain_norm(const at::Tensor& x, const at::Tensor& weight, bool layer) {
  const at::Tensor centred = layer ? x - x.mean(-1, true) : x;
  return centred / at::sqrt((centred * centred).mean(-1, true) + kEpsilon) * weight;
}

at::Tensor plain_activation(const at::Tensor& x, Activation kind, bool gated) {
  const std::int64_t w = gated ? x.size(-1) / 2 : x.size(-1);
  const at::Tensor a = x.narrow(-1, 0, w);
  const at::Tensor positive = (a > 0).to(a.scalar_type()) * a;
  at::Tensor y;
  if (kind == Activation::silu) y = a / (1 + at::exp(-a));
  if (kind == Activation::gelu) y = 0.5 * a * (1 + at::erf(a / std::sqrt(2.0)));
  if (kind == Activation::relu) y = positive;
  if (kind == Activation::squared_relu) y = positive * positive;
  return gated ? y * x.narrow(-1, w, w) : y;
}

// Pairs (x_i, x_{i+d/2}) turned by their angle, as complex numbers.
at::Tensor plain_rotary(const at::Tensor& x, const at::Tensor& angles) {
  const std::int64_t half = x.size(-1) / 2;
  const at::Tensor a = x.narrow(-1, 0, half);
  const at::Tensor b = x.narrow(-1, half, half);
  const at::Tensor turn = angles.to(at::kDouble).unsqueeze(1);
  const at::Tensor c = at::cos(turn);
  const at::Tensor s = at::sin(turn);
  return at::cat({a * c - b * s, b * c + a * s}, -1);
}

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           bool causal, std::int64_t window, bool /*fused*/) {
  const std::int64_t times = q.size(2) / k.size(2);
  const std::int64_t before = k.size(1) - q.size(1);
  at::Tensor visible = at::zeros({q.size(1), k.size(1)}, q.options());
  for (std::int64_t row = 0; row < q.size(1); ++row) {
    const std::int64_t last = causal ? row + before : k.size(1) - 1;
    const std::int64_t first =
        window > 0 ? std::max<std::int64_t>(0, row + before - window + 1) : 0;
    visible.select(0, row).narrow(0, first, last - first + 1).fill_(1);
  }
  std::vector<at::Tensor> heads;
  for (std::int64_t h = 0; h < q.size(2); ++h) {
    const at::Tensor qh = q.select(2, h);          // [b, s, d]
    const at::Tensor kh = k.select(2, h / times);  // [b, s', d]
    const at::Tensor scores =
        at::bmm(qh, kh.transpose(1, 2)) / std::sqrt(static_cast<double>(q.size(3)));
    const at::Tensor weights = at::exp(scores - std::get<0>(scores.max(-1, true))) * visible;
    heads.push_back(at::bmm(weights / weights.sum(-1, true), v.select(2, h / times)));
  }
  return at::stack(heads, 2);
}

at::Tensor plain_router(const at::Tensor& logits, std::int64_t k) {
  const at::Tensor weights = at::exp(logits - std::get<0>(logits.max(-1, true)));
  const at::Tensor sorted = std::get<0>(weights.sort(-1, true)).narrow(-1, 0, k);
  return sorted / sorted.sum(-1, true);
}

at::Tensor plain_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  const at::Tensor most = std::get<0>(logits.max(-1, true));
  const at::Tensor total = at::log(at::exp(logits - most).sum(-1)) + most.squeeze(-1);
  return (total - logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)).mean();
}

}  // namespace

const Formulas& fast_formulas() {
  static const Formulas all{fast_norm,      fast_activation, fast_rotary,
                            fast_attention, fast_router,     fast_cross_entropy};
  return all;
}

const Formulas& plain_formulas() {
  static const Formulas all{plain_norm,      plain_activation, plain_rotary,
                            plain_attention, plain_router,     plain_cross_entropy};
  return all;
}

const char* attention_note() {
#if TORCH_VERSION_MAJOR >= 2
  return "";
#else
  return "attention as products and a softmax: this libtorch has no fused kernel";
#endif
}

at::Tensor rotary_angles(std::int64_t positions, std::int64_t head_dim, c10::Device device) {
  const at::TensorOptions wide = at::TensorOptions(device).dtype(at::kFloat);
  const at::Tensor exponent = at::arange(0, head_dim, 2, wide) / static_cast<double>(head_dim);
  const at::Tensor frequency = at::pow(10000.0, -exponent);
  return at::outer(at::arange(positions, wide), frequency);
}

}  // namespace eratos::device
