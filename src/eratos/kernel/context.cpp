#include "eratos/kernel/context.h"

#include <algorithm>
#include <cstdlib>

#include "eratos/calibration/curves.h"

namespace eratos::kernel {

namespace {

// For a part that nothing is known about: a middle of the table in docs/model/kernels.md.
// Assumes: an uncalibrated part sustains 0.7 of its matrix peak and 0.75 of its memory bandwidth.
constexpr double kDefaultMatrix = 0.7;
constexpr double kDefaultMemory = 0.75;
// Attention of an uncalibrated part against its matrix peak: FA2 on H100, 351 of 989 TFLOP/s.
constexpr double kDefaultAttention = 0.35;
constexpr double kDefaultAttentionS0 = 300;  // between FA2's full and causal rows on H100

// Tile areas of the classes, and which entry of GemmCurve::tile rates each.
constexpr std::array<double, kTileClasses> kSide1{256, 256, 128, 128, 64};
constexpr std::array<double, kTileClasses> kSide2{256, 128, 128, 64, 64};
constexpr std::array<std::size_t, kTileClasses> kRated{0, 0, 1, 2, 3};

// A format that the part lacks runs as the next wider one it has.
double peak_or_wider(const hardware::AcceleratorSpec& part, DType dtype) {
  const auto peak = [&](DType t) { return part.peak_of(t).value; };
  double rate = peak(dtype);
  switch (dtype) {
    case DType::fp4:
      if (rate <= 0) rate = peak(DType::fp8);
      [[fallthrough]];
    case DType::fp8:
    case DType::int8:
      if (rate <= 0) rate = peak(DType::bf16);
      [[fallthrough]];
    case DType::bf16:
    case DType::fp16:
      if (rate <= 0 && dtype != DType::bf16) rate = peak(DType::fp16);
      if (rate <= 0 && dtype == DType::fp16) rate = peak(DType::bf16);
      [[fallthrough]];
    default:
      if (rate <= 0) rate = peak(DType::tf32);
      if (rate <= 0) rate = peak(DType::fp32);
  }
  return rate;
}

void fold_rates(const hardware::AcceleratorSpec& part, double peak,
                const calibration::GemmCurve& curve, double factor, GemmConstants& c) {
  const double units = std::max(1.0, part.compute_units);
  const double bandwidth = part.memory_bandwidth.value;
  const double fraction = curve.peak_fraction > 0 ? curve.peak_fraction : kDefaultMatrix;
  const double grouped = curve.grouped > 0 ? curve.grouped : 1.0;
  double best_tile = 0;
  for (std::size_t t = 0; t < kTileClasses; ++t) {
    const double efficiency = fraction * factor * curve.tile[kRated[t]];
    const double area = kSide1[t] * kSide2[t];
    c.seconds_per_k[t] = 2.0 * area * units / (peak * efficiency);
    c.grouped_seconds_per_k[t] = c.seconds_per_k[t] / grouped;
    c.seconds_per_wave[t] = curve.tile_overhead.value * area / (256.0 * 128.0);
    best_tile = std::max(best_tile, efficiency);
  }
  c.seconds_per_flop = 1.0 / (peak * best_tile);
  c.grouped_seconds_per_flop = c.seconds_per_flop / grouped;
  c.wide_tile = curve.wide_tile;
  c.inverse_units = 1.0 / units;
  c.seconds_per_byte = 1.0 / ((curve.memory > 0 ? curve.memory : kDefaultMemory) * bandwidth);
  // An fp32 partial sum is written and read again.
  c.split_seconds_per_element = 8.0 / bandwidth;
  c.launch = curve.launch.value;
  c.split_launch = curve.split_launch.value;
}

void set_format(DType dtype, GemmConstants& c) {
  c.element_bytes = bytes_per_element(dtype);
  c.output_bytes = dtype == DType::fp32 || dtype == DType::tf32 ? 4.0 : 2.0;
}

GemmConstants fold_gemm(const hardware::AcceleratorSpec& part, DType dtype,
                        const calibration::GemmCurve& curve, double factor) {
  GemmConstants c;
  const double peak = peak_or_wider(part, dtype);
  if (peak <= 0 || part.memory_bandwidth.value <= 0) return c;
  fold_rates(part, peak, curve, factor, c);
  set_format(dtype, c);
  return c;
}

// Formats that share curve, peak and factor share all but the size of their elements.
void fold_gemms(const hardware::AcceleratorSpec& part,
                const calibration::PartCalibration& calibration,
                const framework::KernelFactors& factors, bool training,
                std::array<GemmConstants, 10>& out) {
  struct Source {
    const calibration::GemmCurve* curve;
    double peak;
    double factor;
  };
  std::array<Source, 10> sources;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const DType dtype = static_cast<DType>(i);
    const calibration::GemmCurve& curve = calibration::gemm_curve(calibration, dtype);
    const bool narrow = bytes_per_element(dtype) <= 1;
    const double factor =
        training ? curve.in_training * factors.matrix * (narrow ? factors.narrow_matrix : 1.0)
                 : 1.0;
    const Source source{&curve, peak_or_wider(part, dtype), factor};
    const auto before = std::find_if(sources.begin(), sources.begin() + i, [&](const Source& s) {
      return s.curve == source.curve && s.peak == source.peak && s.factor == source.factor;
    });
    sources[i] = source;
    const auto same = static_cast<std::size_t>(before - sources.begin());
    if (same < i && source.peak > 0 && part.memory_bandwidth.value > 0) {
      out[i] = out[same];
      set_format(dtype, out[i]);
    } else {
      out[i] = fold_gemm(part, dtype, curve, factor);
    }
    out[i].per_group = factors.per_group.value;
  }
}

void fold_rows(const hardware::AcceleratorSpec& part, const calibration::AttentionRows& curves,
               double factor, AttentionRows& rows) {
  for (const calibration::AttentionRow& curve : curves) {
    if (rows.size() == AttentionRows::capacity() || curve.rate.value <= 0) continue;
    rows.push_back({static_cast<double>(curve.head_dim), 1.0 / (curve.rate.value * factor),
                    curve.s0, curve.fill * part.compute_units});
  }
}

using PassRows = std::array<std::array<AttentionRows, 2>, 2>;

void fold_attention(const hardware::AcceleratorSpec& part, const calibration::AttentionTable& table,
                    std::string_view kernel, DType dtype, double factor, PassRows& out) {
  const calibration::PassRows curves = calibration::attention_passes(table, kernel, dtype);
  const double peak = peak_or_wider(part, DType::bf16);
  for (std::size_t pass = 0; pass < out.size(); ++pass) {
    for (std::size_t mask = 0; mask < out[pass].size(); ++mask) {
      AttentionRows& rows = out[pass][mask];
      fold_rows(part, curves[pass][mask], factor, rows);
      if (dtype != DType::bf16 || !rows.empty() || peak <= 0) continue;
      rows.push_back({128.0, 1.0 / (peak * kDefaultAttention * factor), kDefaultAttentionS0, 0.0});
    }
  }
}

// What 8 bits gain over 16 in a kernel of this part that has rows in both, at the head dim nearest to
// 128; 1 where none has.
double fp8_gain(const calibration::AttentionTable& table) {
  double gain = 1;
  int distance = 1 << 20;
  for (const auto& narrow : table.curves) {
    if (narrow.dtype != DType::fp8 || narrow.backward) continue;
    for (const auto& wide : table.curves) {
      if (wide.dtype == DType::fp8 || wide.backward || wide.kernel != narrow.kernel ||
          wide.causal != narrow.causal || wide.head_dim != narrow.head_dim) {
        continue;
      }
      const int d = std::abs(narrow.head_dim - 128);
      if (d >= distance || wide.rate.value <= 0) continue;
      distance = d;
      gain = narrow.rate / wide.rate;
    }
  }
  return std::max(1.0, gain);
}

// How much slower `dtype` is than 16 bits where the kernel is the same: by rows of its own if the
// calibration has them, else by matrix peak, and never faster than 16 bits without rows. `own`: it has.
double attention_factor(const hardware::AcceleratorSpec& part,
                        const calibration::AttentionTable& table, std::string_view kernel,
                        DType dtype, bool own) {
  const double reference =
      std::max(part.peak_of(DType::bf16).value, part.peak_of(DType::fp16).value);
  if (dtype == DType::bf16 && part.peak_of(dtype).value > 0) return 1;
  if (own && dtype != DType::bf16) {
    const auto rows = calibration::attention_curves(table, kernel, false, true, dtype);
    if (!rows.empty() && rows[0].rate.value > 0) {
      const auto base = calibration::attention_curves(table, kernel, false, true, DType::bf16);
      if (!base.empty()) return base[0].rate / rows[0].rate;
    }
  }
  if (dtype == DType::fp8) return 1.0 / fp8_gain(table);
  const double peak = peak_or_wider(part, dtype);
  return peak > 0 ? std::max(1.0, reference / peak) : 1.0;
}

// Formats that the table has curves of, and whether a job's kernel has its own in fp8.
struct AttentionFormats {
  std::array<bool, 10> any{};
  bool own_fp8 = false;
};

AttentionFormats formats_of(const calibration::AttentionTable& table, std::string_view kernel) {
  AttentionFormats out;
  for (const calibration::AttentionCurve& c : table.curves) {
    out.any[static_cast<std::size_t>(c.dtype)] = true;
    if (c.dtype != DType::fp8 || out.own_fp8) continue;
    out.own_fp8 = c.kernel == kernel || c.kernel == table.default_kernel;
  }
  return out;
}

}  // namespace

KernelContext make_context(const hardware::AcceleratorSpec& part,
                           const calibration::PartCalibration& calibration,
                           const framework::KernelFactors& factors,
                           std::string_view attention_kernel, Setting setting) {
  const bool training = setting == Setting::in_training;
  KernelContext context;

  fold_gemms(part, calibration, factors, training, context.gemm);

  const calibration::AttentionTable& table = calibration.attention;
  const double attention = training ? factors.attention : 1.0;
  const AttentionFormats formats = formats_of(table, attention_kernel);
  fold_attention(part, table, attention_kernel, DType::bf16, attention, context.attention);
  if (formats.own_fp8) {
    fold_attention(part, table, attention_kernel, DType::fp8, attention, context.attention_fp8);
  }
  for (std::size_t i = 0; i < context.attention_dtype_factor.size(); ++i) {
    context.attention_dtype_factor[i] =
        attention_factor(part, table, attention_kernel, static_cast<DType>(i), formats.any[i]);
  }
  context.head_dim_64 = table.head_dim_64;
  context.sinks_seconds_factor = factors.attention_sinks > 0 ? 1.0 / factors.attention_sinks : 1.0;
  context.mla_seconds_factor = table.mla > 0 ? 1.0 / table.mla : 1.0;

  const calibration::ElementwiseCurve& elementwise = calibration.elementwise;
  const double memory = training ? factors.memory_bound : 1.0;
  for (std::size_t i = 0; i < elementwise.share.size(); ++i) {
    const double share = elementwise.share[i] > 0 ? elementwise.share[i] : kDefaultMemory;
    const double rate = share * memory * part.memory_bandwidth.value;
    context.elementwise_seconds_per_byte[i] = rate > 0 ? 1.0 / rate : 0.0;
  }
  context.elementwise_launch = elementwise.launch.value;
  context.attention_launch = elementwise.launch.value;
  return context;
}

KernelContext with_gemm(KernelContext context, const hardware::AcceleratorSpec& part, DType dtype,
                        const calibration::GemmCurve& curve) {
  context.gemm[static_cast<std::size_t>(dtype)] = fold_gemm(part, dtype, curve, 1.0);
  return context;
}

}  // namespace eratos::kernel
