// Kernels that memory bounds: norms, activations, rotary angles, routing, losses, updates, copies.
//
// `rows` x `width` is what a kernel writes: swiglu reads twice its width and its backward writes
// twice its result's, a router's width is its experts. A copy says `bytes` alone.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <torch/csrc/api/include/torch/version.h>

#include "faults.h"
#include "formulas.h"
#include "torch_device.h"

namespace eratos::device {

namespace {

// Adam with decoupled decay, at the constants of most language models' recipes.
// Source: arXiv 1711.05101, algorithm 2; beta2 of arXiv 2005.14165, appendix B.
constexpr double kRate = 1e-4;
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.95;
constexpr double kDecay = 0.1;
constexpr double kAdamEpsilon = 1e-8;

// One step (the first: bias corrections are 1 - beta) of p, from g, m, v; m and v change too.
at::Tensor fast_adam(const Tensors& x) {
  at::Tensor p = x[0];
  const at::Tensor& g = x[1];
  at::Tensor m = x[2];
  at::Tensor v = x[3];
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
  if (!p.is_cpu()) {
    at::_fused_adamw_({p}, {g}, {m}, {v}, {}, {x[4]}, kRate, kBeta1, kBeta2, kDecay, kAdamEpsilon,
                      false, false);
    return p;
  }
#endif
  p.mul_(1 - kRate * kDecay);
  m.mul_(kBeta1).add_(g, 1 - kBeta1);
  v.mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
  const at::Tensor scale = (v.sqrt() / std::sqrt(1 - kBeta2)).add_(kAdamEpsilon);
  return p.addcdiv_(m, scale, -kRate / (1 - kBeta1));
}

at::Tensor plain_adam(const Tensors& x) {
  const at::Tensor m = kBeta1 * x[2] + (1 - kBeta1) * x[1];
  const at::Tensor v = kBeta2 * x[3] + (1 - kBeta2) * x[1] * x[1];
  const at::Tensor change =
      m / (1 - kBeta1) / (at::sqrt(v / (1 - kBeta2)) + kAdamEpsilon) + kDecay * x[0];
  return x[0] - kRate * change;
}

std::int64_t least(std::int64_t rows, std::int64_t all) {
  return rows > 0 ? std::min(rows, all) : all;
}

}  // namespace

std::unique_ptr<Work> make_elementwise(const Place& place, const Piece& piece) {
  const std::string what = piece.text("what");
  const std::string pass = piece.has("pass") ? piece.text("pass") : "forward";
  // Sums of gradients are sums, and a copy is one whichever pass it serves.
  const bool one_way = what == "residual" || what == "copy" || what == "optimizer";
  const bool backward = !one_way && (pass == "backward" || pass == "dgrad");
  if (!one_way && !backward && pass != "forward") {
    throw CannotMeasure("`" + what + "` has no pass `" + pass + "` that can be measured");
  }
  // Whatever a copy moves, bytes are bytes.
  const at::ScalarType type = what == "copy" ? at::kFloat : dtype_of(piece);
  const std::int64_t rows = piece.number("rows");
  const std::int64_t width = piece.number("width");
  if (what != "copy" && (rows < 1 || width < 1)) {
    throw CannotMeasure("`" + what + "` needs `rows` and `width`");
  }
  const Formulas& fast = fast_formulas();
  const Formulas& plain = plain_formulas();

  Formula f;
  f.allowed = allowed_error(type);
  f.differentiable = {0};
  if (what == "norm") {
    const bool layer = piece.text("norm") == "layernorm";
    f.inputs = [=](std::int64_t r) -> Tensors {
      return {random(place, {least(r, rows), width}, type), random(place, {width}, type)};
    };
    f.fast = [=](const Tensors& x) { return fast.norm(x[0], x[1], layer); };
    f.plain = [=](const Tensors& x) { return plain.norm(x[0], x[1], layer); };
    f.differentiable = {0, 1};
  } else if (what == "swiglu" || what == "gelu") {
    const bool gated = what == "swiglu";
    const std::int64_t in = gated && !backward ? 2 * width : width;
    f.inputs = [=](std::int64_t r) -> Tensors {
      return {random(place, {least(r, rows), in}, type)};
    };
    const Activation kind = gated ? Activation::silu : Activation::gelu;
    f.fast = [=](const Tensors& x) { return fast.activation(x[0], kind, gated); };
    f.plain = [=](const Tensors& x) { return plain.activation(x[0], kind, gated); };
  } else if (what == "rotary") {
    const std::int64_t head = piece.number("head_dim", width);
    if (head % 2 != 0 || width % head != 0) {
      throw CannotMeasure("`head_dim` is odd or does not divide `width`");
    }
    f.inputs = [=](std::int64_t r) -> Tensors {
      const std::int64_t s = least(r, rows);
      return {random(place, {1, s, width / head, head}, type),
              rotary_angles(s, head, place.device)};
    };
    f.fast = [=](const Tensors& x) { return fast.rotary(x[0], x[1]); };
    f.plain = [=](const Tensors& x) { return plain.rotary(x[0], x[1]); };
  } else if (what == "residual") {
    f.inputs = [=](std::int64_t r) -> Tensors {
      return {random(place, {least(r, rows), width}, type),
              random(place, {least(r, rows), width}, type)};
    };
    f.fast = [](const Tensors& x) { return x[0] + x[1]; };
    f.plain = f.fast;
    f.differentiable = {0, 1};
  } else if (what == "router") {
    const std::int64_t top_k = std::min(width, piece.number("top_k", 2));
    f.inputs = [=](std::int64_t r) -> Tensors {
      return {random(place, {least(r, rows), width}, type)};
    };
    f.fast = [=](const Tensors& x) { return fast.router(x[0], top_k); };
    f.plain = [=](const Tensors& x) { return plain.router(x[0], top_k); };
  } else if (what == "permute") {
    f.inputs = [=](std::int64_t r) -> Tensors {
      const std::int64_t n = least(r, rows);
      return {random(place, {n, width}, type),
              at::randperm(n, at::TensorOptions(place.device).dtype(at::kLong))};
    };
    f.fast = [](const Tensors& x) { return x[0].index_select(0, x[1]); };
    f.plain = [](const Tensors& x) {
      return x[0].gather(0, x[1].unsqueeze(1).expand({x[1].size(0), x[0].size(1)}));
    };
  } else if (what == "cross_entropy") {
    f.inputs = [=](std::int64_t r) -> Tensors {
      return {random(place, {least(r, rows), width}, type),
              random_index(place, least(r, rows), width)};
    };
    f.fast = [=](const Tensors& x) { return fast.cross_entropy(x[0], x[1]); };
    f.plain = [=](const Tensors& x) { return plain.cross_entropy(x[0], x[1]); };
  } else if (what == "optimizer") {
    f.inputs = [=](std::int64_t r) -> Tensors {
      const std::int64_t n = least(r, rows) * width;
      // Small weights, so that the check sees the step and not the weight it is added to.
      return {random(place, {n}, type, 1e-3), random(place, {n}, type), random(place, {n}, type),
              random(place, {n}, type).abs_(),
              at::ones({1}, at::TensorOptions(place.device).dtype(at::kFloat))};
    };
    f.fast = fast_adam;
    f.plain = plain_adam;
  } else if (what == "copy") {
    // Any kernel that streams: half of its bytes read, half written, in as many launches.
    const std::int64_t launches = std::max<std::int64_t>(1, piece.number("launches", 1));
    const auto element = static_cast<std::int64_t>(c10::elementSize(type));
    const std::int64_t n =
        std::max<std::int64_t>(1, piece.number("bytes") / 2 / element / launches);
    f.inputs = [=](std::int64_t r) -> Tensors {
      return {random(place, {least(r, n)}, type), random(place, {least(r, n)}, type)};
    };
    f.fast = [=](const Tensors& x) {
      at::Tensor to = x[1];
      for (std::int64_t i = 0; i < launches; ++i) to.copy_(x[0]);
      return to;
    };
    f.plain = [](const Tensors& x) { return x[0]; };
  } else {
    throw CannotMeasure("`" + what + "` cannot be measured: no kernel of this program is named so");
  }
  return formula_work(place, std::move(f), backward);
}

}  // namespace eratos::device
