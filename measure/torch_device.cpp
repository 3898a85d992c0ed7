#include "torch_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include <ATen/Parallel.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/api/include/torch/version.h>
#include <torch/csrc/autograd/autograd.h>

#include "faults.h"
#include "machine.h"

namespace eratos::device {

namespace {

// c10::Event reads times since libtorch 2.4 or so; asked of the type itself instead of a version.
template <class E>
auto elapsed_s(const E& from, const E& to, int)
    -> decltype(static_cast<double>(from.elapsedTime(to))) {
  return from.elapsedTime(to) * 1e-3;  // milliseconds
}
template <class E>
double elapsed_s(const E&, const E&, long) {
  return -1;
}
template <class E, class = void>
struct Reads : std::false_type {};
template <class E>
struct Reads<E,
             std::void_t<decltype(std::declval<const E&>().elapsedTime(std::declval<const E&>()))>>
    : std::true_type {};
constexpr bool kEventsHaveTimes = Reads<c10::Event>::value;

const c10::impl::DeviceGuardImplInterface* guard(const Place& place) {
  return c10::impl::getDeviceGuardImpl(place.device.type());
}

double bytes_of(const Tensors& tensors) {
  double out = 0;
  for (const at::Tensor& t : tensors) {
    if (t.defined()) out += static_cast<double>(t.numel()) * static_cast<double>(t.element_size());
  }
  return out;
}

Tensors in_double(const Tensors& tensors) {
  Tensors out;
  for (const at::Tensor& t : tensors) {
    const at::Tensor bare = t.detach();
    out.push_back(at::isFloatingType(bare.scalar_type()) ? bare.to(at::kDouble).clone() : bare);
  }
  return out;
}

Tensors asking_gradient(Tensors tensors, const std::vector<std::size_t>& which) {
  for (const std::size_t i : which) tensors[i] = tensors[i].detach().requires_grad_(true);
  return tensors;
}

Tensors at_indices(const Tensors& tensors, const std::vector<std::size_t>& which) {
  Tensors out;
  for (const std::size_t i : which) out.push_back(tensors[i]);
  return out;
}

// Rows that a reference looks at: enough for every path of a kernel, seconds at the most.
constexpr std::int64_t kCheckedRows = 64;

class FormulaWork : public Work {
 public:
  FormulaWork(const Place& place, Formula formula, bool backward)
      : place_(place), formula_(std::move(formula)), backward_(backward) {
    Tensors first = formula_.inputs(0);
    double bytes = bytes_of(first);
    add(std::move(first));
    if (backward_) bytes += 2 * bytes_of({graphs_.back().first});
    const std::int64_t sets = sets_for(place_, bytes, bytes);
    for (std::int64_t i = 1; i < sets; ++i) add(formula_.inputs(0));
    synchronize(place_);
  }

  void sample(int calls, int samples, std::vector<std::vector<double>>& out) override {
    Marks marks(place_);
    marks.mark();
    const c10::AutoGradMode mode(backward_);
    for (int s = 0; s < samples; ++s) {
      for (int c = 0; c < calls; ++c) {
        const std::size_t set = next_++ % sets_.size();
        if (backward_) {
          torch::autograd::grad({graphs_[set].first},
                                at_indices(sets_[set], formula_.differentiable),
                                {graphs_[set].second}, true);
        } else {
          formula_.fast(sets_[set]);
        }
      }
      marks.mark();
    }
    for (const double s : marks.intervals()) out[0].push_back(s / calls);
  }

  double check(double& allowed) override {
    allowed = formula_.allowed;
    const c10::AutoGradMode mode(backward_);
    Tensors inputs = formula_.inputs(kCheckedRows);
    Tensors wide = in_double(inputs);
    if (!backward_) return relative_error(formula_.fast(inputs), formula_.plain(wide));
    inputs = asking_gradient(std::move(inputs), formula_.differentiable);
    wide = asking_gradient(std::move(wide), formula_.differentiable);
    const at::Tensor y = formula_.fast(inputs);
    const at::Tensor y_wide = formula_.plain(wide);
    const at::Tensor dy = output_gradient(y);
    const auto got = torch::autograd::grad({y}, at_indices(inputs, formula_.differentiable), {dy});
    const auto wanted = torch::autograd::grad({y_wide}, at_indices(wide, formula_.differentiable),
                                              {dy.to(at::kDouble)});
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, relative_error(got[i], wanted[i]));
    }
    return worst;
  }

  std::vector<std::string> notes() const override { return formula_.notes; }

 private:
  at::Tensor output_gradient(const at::Tensor& y) const {
    return y.dim() == 0 ? at::ones_like(y) : random(place_, y.sizes(), y.scalar_type());
  }

  void add(Tensors inputs) {
    if (!backward_) {
      sets_.push_back(std::move(inputs));
      return;
    }
    sets_.push_back(asking_gradient(std::move(inputs), formula_.differentiable));
    const c10::AutoGradMode mode(true);
    const at::Tensor y = formula_.fast(sets_.back());
    graphs_.emplace_back(y, output_gradient(y));
  }

  Place place_;
  Formula formula_;
  bool backward_;
  std::vector<Tensors> sets_;
  std::vector<std::pair<at::Tensor, at::Tensor>> graphs_;  // result, its gradient
  std::size_t next_ = 0;
};

}  // namespace

at::ScalarType dtype_of(const Piece& piece) {
  const std::string name = piece.text("dtype");
  if (name == "fp32") return at::kFloat;
  if (name == "bf16") return at::kBFloat16;
  if (name == "fp16") return at::kHalf;
  if (name == "fp64") return at::kDouble;
  throw CannotMeasure("`" + name + "` cannot be measured: libtorch has no plain kernels for it");
}

// Roundings of a sum of k terms grow like the unit roundoff times sqrt(k), a few hundred units for
// sums of thousands that end in an 8- or 11-bit significand once more; a wrong kernel is off by a
// tenth and more. Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms,
// section 2.8.
double allowed_error(at::ScalarType type) {
  if (type == at::kDouble) return 1e-10;
  if (type == at::kFloat) return 1e-4;
  if (type == at::kHalf) return 1e-2;
  return 4e-2;
}

double relative_error(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard none;
  const at::Tensor wide = b.detach().to(at::kDouble);
  const double most = wide.abs().max().item<double>();
  const double off = (a.detach().to(at::kDouble) - wide).abs().max().item<double>();
  if (!std::isfinite(off) || !std::isfinite(most)) return INFINITY;
  return most > 0 ? off / most : off;
}

void need_room(const Place& place, double bytes) {
  if (!place.cpu()) return;
  const std::int64_t free = available_bytes();
  if (free < 0 || bytes <= 0.9 * static_cast<double>(free)) return;
  throw OutOfMemory("out of memory: it needs " + std::to_string(static_cast<long>(bytes / 1e6)) +
                    " MB, and " + std::to_string(free / 1'000'000) + " MB are free");
}

// Cut from one pool of random numbers for each format, as drawing them anew for every buffer would
// take longer than measuring. Its size is a prime, so that rows of a matrix do not repeat each
// other.
at::Tensor random(const Place& place, at::IntArrayRef shape, at::ScalarType type, double scale) {
  constexpr std::int64_t kPool = 1'000'003;
  static std::map<at::ScalarType, at::Tensor> pools;
  static std::int64_t next = 0;
  const at::NoGradGuard none;
  const at::TensorOptions options = at::TensorOptions(place.device).dtype(type);
  at::Tensor& pool = pools[type];
  if (!pool.defined()) pool = at::empty({kPool}, options).uniform_(-1, 1);
  double elements = 1;
  for (const std::int64_t n : shape) elements *= static_cast<double>(n);
  need_room(place, elements * static_cast<double>(c10::elementSize(type)));
  at::Tensor out = at::empty(shape, options);
  at::Tensor flat = out.view({-1});
  for (std::int64_t at = 0; at < flat.numel();) {
    const std::int64_t n = std::min(flat.numel() - at, kPool - next);
    flat.narrow(0, at, n).copy_(pool.narrow(0, next, n));
    at += n;
    next = (next + n) % kPool;
  }
  return scale == 1 ? out : out.mul_(scale);
}

at::Tensor random_index(const Place& place, std::int64_t count, std::int64_t below) {
  return at::randint(below, {count}, at::TensorOptions(place.device).dtype(at::kLong));
}

std::int64_t sets_for(const Place& place, double touched, double holds) {
  constexpr std::int64_t kMostSets = 4096;
  const double wanted = std::ceil(2.0 * static_cast<double>(place.cache) / std::max(touched, 1.0));
  double most = static_cast<double>(kMostSets);
  const std::int64_t free = place.cpu() ? available_bytes() : -1;
  if (free >= 0) most = std::min(most, static_cast<double>(free) / 4 / std::max(holds, 1.0));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(wanted, most)));
}

Marks::Marks(const Place& place) : place_(place) {}

void Marks::mark() {
  if (place_.cpu() || !kEventsHaveTimes) {
    synchronize(place_);
    clock_.push_back(std::chrono::steady_clock::now());
    return;
  }
  c10::Event event(place_.device.type(), c10::EventFlag::BACKEND_DEFAULT);
  event.record(guard(place_)->getStream(place_.device));
  events_.push_back(std::move(event));
}

std::vector<double> Marks::intervals() {
  synchronize(place_);
  std::vector<double> out;
  for (std::size_t i = 1; i < clock_.size(); ++i) {
    out.push_back(std::chrono::duration<double>(clock_[i] - clock_[i - 1]).count());
  }
  for (std::size_t i = 1; i < events_.size(); ++i) {
    out.push_back(elapsed_s(events_[i - 1], events_[i], 0));
  }
  clock_.clear();
  events_.clear();
  return out;
}

void synchronize(const Place& place) {
  if (place.cpu()) return;
  guard(place)->synchronizeStream(guard(place)->getStream(place.device));
}

std::unique_ptr<Work> formula_work(const Place& place, Formula formula, bool backward) {
  return std::make_unique<FormulaWork>(place, std::move(formula), backward);
}

}  // namespace eratos::device
