#include "eratos/projection/fit_points.h"

#include <algorithm>
#include <cmath>

#include "eratos/calibration/curves.h"
#include "eratos/calibration/pattern_search.h"

namespace eratos::projection {

namespace {

using calibration::CastCurve;
using calibration::GemmCurve;
using calibration::misfit;
using calibration::PartCalibration;
using calibration::pattern_search;
using calibration::Searched;

constexpr double kPull = 0.003;

double pull(const std::vector<Searched>& start, const std::vector<double>& at) {
  double sum = 0;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double e = std::log(at[i] / start[i].value);
    sum += kPull * e * e;
  }
  return sum;
}

bool alone(const GemmPoint& p) {
  return p.setting == kernel::Setting::isolated && p.product.groups <= 1;
}

// peak_fraction, the tiles' steps, memory, tau, launch, split launch; then share and launch of each
// cast. Starts: the middle of Ampere, Hopper and Blackwell.
std::vector<Searched> gemm_start(std::size_t casts) {
  std::vector<Searched> out{{0.75, 0.1, 1},       {1, 0.5, 1},       {0.97, 0.4, 1},
                            {0.95, 0.3, 1},       {0.78, 0.3, 1},    {1.5e-6, 1e-8, 5e-5},
                            {2.5e-6, 1e-7, 6e-6}, {2e-6, 1e-7, 3e-5}};
  for (std::size_t i = 0; i < casts; ++i) {
    out.push_back({0.6, 0.05, 1});
    out.push_back({3e-6, 1e-7, 3e-5});
  }
  return out;
}

void set_gemm(const std::vector<double>& x, GemmCurve& curve, std::vector<CastCurve>& casts) {
  curve.peak_fraction = x[0];
  curve.tile = {1, x[1], x[1] * x[2], x[1] * x[2] * x[3]};
  curve.memory = x[4];
  curve.tile_overhead = Seconds{x[5]};
  curve.launch = Seconds{x[6]};
  curve.split_launch = Seconds{x[7]};
  for (std::size_t i = 0; i < casts.size(); ++i) {
    casts[i].share = x[8 + 2 * i];
    casts[i].launch = Seconds{x[9 + 2 * i]};
  }
}

std::vector<CastCurve> casts_of(const std::vector<Sample<GemmPoint>>& samples) {
  std::vector<CastCurve> out;
  for (const auto& sample : samples) {
    const std::string& name = sample.point.cast;
    const bool known =
        std::any_of(out.begin(), out.end(), [&](const CastCurve& c) { return c.kernel == name; });
    if (name.empty() || known) continue;
    out.emplace_back();
    out.back().kernel = name;
  }
  return out;
}

// The rate of a large product in a step is a fact of its own (docs/model/kernels.md): it stays.
double same_in_training(const hardware::AcceleratorSpec& part, const PartCalibration& before,
                        DType dtype, GemmCurve curve) {
  constexpr double kSide = 8192;
  ops::Gemm g;
  g.m = g.n = g.k = kSide;
  g.dtype = dtype;
  const auto in_step = [&](const PartCalibration& c) {
    return kernel::time_of(g, kernel::make_context(part, c, {}, "", kernel::Setting::in_training))
        .value;
  };
  const double wanted = in_step(before);
  PartCalibration trial;
  double low = 0.2;
  double high = 1;
  for (int i = 0; i < 50; ++i) {
    curve.in_training = (low + high) / 2;
    trial.gemm[static_cast<std::size_t>(dtype)] = curve;
    (in_step(trial) > wanted ? low : high) = curve.in_training;
  }
  return curve.in_training;
}

void keep_training(const hardware::AcceleratorSpec& part, const PartCalibration& before,
                   DType dtype, GemmCurve& curve) {
  const GemmCurve& old = before.gemm_of(dtype);
  if (old.peak_fraction <= 0) return;
  curve.in_training = same_in_training(part, before, dtype, curve);
}

void fit_grouped(const hardware::AcceleratorSpec& part, DType dtype,
                 const std::vector<Sample<GemmPoint>>& samples, PartCalibration& trial) {
  std::vector<Sample<GemmPoint>> grouped;
  for (const auto& s : samples) {
    if (s.point.product.groups <= 1) continue;
    grouped.push_back(s);
    grouped.back().point.library.clear();
  }
  if (grouped.empty()) return;
  GemmCurve& curve = trial.gemm[static_cast<std::size_t>(dtype)];
  const std::vector<Searched> start{{0.9, 0.3, 1}};
  curve.grouped = pattern_search(start, [&](const std::vector<double>& x) {
    curve.grouped = x[0];
    const PointPricer pricer(part, trial);
    double sum = 0;
    for (const auto& s : grouped) sum += misfit(pricer.price(s.point).value, s.measured.value);
    return sum / static_cast<double>(grouped.size()) + pull(start, x);
  })[0];
}

}  // namespace

std::optional<GemmFit> fit_gemm(const hardware::AcceleratorSpec& part,
                                const PartCalibration& calibration,
                                const std::vector<Sample<GemmPoint>>& samples) {
  std::vector<Sample<GemmPoint>> dense;
  for (const auto& s : samples) {
    if (!alone(s.point)) continue;
    dense.push_back(s);
    dense.back().point.library.clear();  // the trial holds its curve as the part's own
  }
  if (dense.size() < 8) return std::nullopt;

  const DType dtype = dense[0].point.product.dtype;
  PartCalibration trial;
  trial.casts = casts_of(samples);
  GemmCurve& curve = trial.gemm[static_cast<std::size_t>(dtype)];
  curve.wide_tile = calibration::gemm_curve(calibration, dtype).wide_tile;
  const std::vector<Searched> start = gemm_start(trial.casts.size());
  const std::vector<double> found = pattern_search(start, [&](const std::vector<double>& x) {
    set_gemm(x, curve, trial.casts);
    const PointPricer pricer(part, trial);
    double sum = 0;
    for (const auto& s : dense) sum += misfit(pricer.price(s.point).value, s.measured.value);
    return sum / static_cast<double>(dense.size()) + pull(start, x);
  });
  set_gemm(found, curve, trial.casts);
  curve.grouped = calibration.gemm_of(dtype).grouped;
  if (samples[0].point.library.empty()) keep_training(part, calibration, dtype, curve);
  fit_grouped(part, dtype, samples, trial);
  return GemmFit{curve, trial.casts};
}

std::optional<calibration::AttentionCurve> fit_attention(
    const hardware::AcceleratorSpec& part, const PartCalibration& calibration,
    const std::vector<Sample<AttentionPoint>>& samples) {
  if (samples.size() < 3) return std::nullopt;
  const AttentionPoint& first = samples[0].point;
  PartCalibration trial;
  trial.elementwise = calibration.elementwise;
  trial.attention.default_kernel = first.kernel;
  calibration::AttentionCurve& curve = trial.attention.curves.emplace_back();
  curve.kernel = first.kernel;
  curve.backward = first.work.backward;
  curve.causal = first.work.causal;
  curve.head_dim = static_cast<int>(first.work.head_dim);
  curve.dtype = first.work.dtype;

  double fastest = 0;
  for (const auto& s : samples) {
    fastest = std::max(fastest, s.point.work.flops().value / s.measured.value);
  }
  // s0 and fill where they are not identified: the middle of docs/model/kernels.md.
  const bool causal = curve.causal;
  const std::vector<Searched> start{{fastest, fastest / 10, fastest * 10},
                                    {causal ? 600.0 : 150.0, 1, 1e4},
                                    {causal ? 1.5 : 0.5, 0.01, 10}};
  const std::vector<double> found = pattern_search(start, [&](const std::vector<double>& x) {
    curve.rate = FlopsPerSecond{x[0]};
    curve.s0 = x[1];
    curve.fill = x[2];
    const kernel::KernelContext context =
        kernel::make_context(part, trial, {}, first.kernel, kernel::Setting::isolated);
    double sum = 0;
    for (const auto& s : samples) {
      Seconds t = kernel::time_of(s.point.work, context);
      if (s.point.beside.value > 0) t += kernel::time_of(ops::Elementwise{s.point.beside}, context);
      sum += misfit(t.value, s.measured.value);
    }
    return sum / static_cast<double>(samples.size()) + pull(start, x);
  });
  curve.rate = FlopsPerSecond{found[0]};
  curve.s0 = found[1];
  curve.fill = found[2];
  return curve;
}

std::optional<calibration::CollectiveCurve> fit_collective(
    const std::string& algorithm, const std::vector<Sample<CollectivePoint>>& samples) {
  if (samples.size() < 6) return std::nullopt;
  const CollectivePoint& first = samples[0].point;
  const collective::GroupPlacement placement = collective::place(first.group, first.cluster);
  if (placement.members[0] < placement.size) return std::nullopt;

  calibration::CollectiveCurve curve;
  curve.kind = ops::name_of(first.kind);
  curve.algorithm = algorithm;
  curve.gpus = placement.size;
  const double n = placement.size;
  const bool one_way = first.kind == ops::CollectiveKind::send_recv;
  const bool both = first.kind == ops::CollectiveKind::all_reduce;
  const double factor = one_way ? 1 : (both ? 2 : 1) * (n - 1) / n;
  double fastest = 0;
  double least = 1;
  for (const auto& s : samples) {
    fastest = std::max(fastest, factor * s.point.bytes.value / s.measured.value);
    least = std::min(least, s.measured.value);
  }
  least = std::max(least, 1e-6);
  const std::vector<Searched> start{
      {least, least / 10, least * 3}, {fastest, fastest / 30, fastest * 3}, {3e-9, 1e-11, 1e-6}};
  const std::vector<double> found = pattern_search(start, [&](const std::vector<double>& x) {
    double sum = 0;
    for (const auto& s : samples) {
      const double b = s.point.bytes.value;
      const double t =
          s.point.fixed.value + x[0] + factor * b / x[1] + x[2] * std::sqrt(b);
      sum += misfit(t, s.measured.value);
    }
    return sum / static_cast<double>(samples.size()) + pull(start, x);
  });
  curve.alpha = Seconds{found[0]};
  curve.busbw = BytesPerSecond{found[1]};
  curve.gamma = found[2];
  return curve;
}

}  // namespace eratos::projection
