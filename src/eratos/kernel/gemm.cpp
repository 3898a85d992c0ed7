#include <algorithm>

#include "eratos/kernel/kernel.h"

namespace eratos::kernel {

namespace {

// For 0 <= x < 2^53. Written out because std::ceil is a call where SSE4.1 may not be assumed.
double ceiling(double x) {
  const double down = static_cast<double>(static_cast<long long>(x));
  return down + (down < x ? 1.0 : 0.0);
}

// ceil(tiles / units) from the reciprocal. tiles is whole, so a fraction is at least 1 / units;
// the margin only undoes the rounding of the reciprocal.
double waves_of(double tiles, double inverse_units) {
  return ceiling(tiles * inverse_units - 1e-6);
}

// Split K in 1, 2, 4, ... 32: the weight gradient of a router has few outputs and all tokens as K.
constexpr int kSplits = 6;

bool is_multiple_of_8(double x) { return static_cast<long long>(x) % 8 == 0; }

// Tensor cores are fed with whole 16 bytes of a row. Where a batched product's rows are not of whole 16
// bytes the library has no kernel for them, and it runs as an fp32 product does.
// Source: NVIDIA matrix multiplication guide DU-09799, section 2.1 (alignment); six published steps of
// Megatron-DeepSpeed on A100 with head dims of 108 and 450, 45 to 50 % slower than their neighbours of
// 144 and 216 (bigscience-workshop/bigscience train/tr11-176B-ml/chronicles-prequel.md): 9 to 14
// TFLOP/s in attention's products.
DType priced_as(const ops::Gemm& g) {
  const bool narrow = g.dtype == DType::bf16 || g.dtype == DType::fp16;
  const bool batched = g.groups > 1 && !g.experts;
  const bool aligned = is_multiple_of_8(g.k) && is_multiple_of_8(g.n);
  return narrow && batched && !aligned ? DType::fp32 : g.dtype;
}

double minimum_bytes(const ops::Gemm& g, const GemmConstants& c) {
  const double inputs = (g.m * g.k + g.groups * g.k * g.n) * c.element_bytes;
  // Accumulation reads and writes the fp32 buffer.
  const double output = g.m * g.n * (g.accumulate_fp32 ? 8.0 : c.output_bytes);
  return inputs + output;
}

}  // namespace

Seconds time_of(const ops::Gemm& g, const KernelContext& context) {
  const GemmConstants& c = context.gemm[static_cast<std::size_t>(priced_as(g))];
  if (g.m <= 0 || g.n <= 0 || g.k <= 0) return Seconds{0};

  const bool grouped = g.groups > 1;
  const double groups = grouped ? g.groups : 1.0;
  const double rows = grouped ? g.m / groups : g.m;

  // Tiles along each side; the factors are powers of two, so these products are exact.
  const double m256 = ceiling(rows * (1.0 / 256));
  const double m128 = ceiling(rows * (1.0 / 128));
  const double m64 = ceiling(rows * (1.0 / 64));
  const double n256 = ceiling(g.n * (1.0 / 256));
  const double n128 = ceiling(g.n * (1.0 / 128));
  const double n64 = ceiling(g.n * (1.0 / 64));
  const std::array<double, kTileClasses> tiles{
      groups * m256 * n256, groups * std::min(m256 * n128, m128 * n256),
      groups * m128 * n128, groups * std::min(m128 * n64, m64 * n128),
      groups * m64 * n64,
  };
  const bool uneven = grouped && !g.strided;
  const auto& per_k = uneven ? c.grouped_seconds_per_k : c.seconds_per_k;

  const double memory = minimum_bytes(g, c) * c.seconds_per_byte;
  const double flop_bound =
      2.0 * g.m * g.n * g.k * (uneven ? c.grouped_seconds_per_flop : c.seconds_per_flop);
  const double floor = std::max(memory, flop_bound);

  double best = 1e300;
  double split = 1;
  double inverse_split = 1;
  for (int i = 0; i < kSplits; ++i, split += split, inverse_split *= 0.5) {
    // No deeper split can win once its reduction alone costs more than what is already found.
    const double reduction =
        i == 0 ? 0.0 : split * g.m * g.n * c.split_seconds_per_element + c.split_launch;
    if (floor + reduction >= best) break;
    const double k = 64.0 * ceiling(ceiling(g.k * inverse_split) * (1.0 / 64));
    for (int t = c.wide_tile ? k256x256 : k256x128; t < kTileClasses; ++t) {
      const std::size_t at = static_cast<std::size_t>(t);
      const double waves = waves_of(tiles[at] * split, c.inverse_units);
      const double compute = waves * (k * per_k[at] + c.seconds_per_wave[at]);
      best = std::min(best, std::max(compute, memory) + reduction);
    }
  }
  if (g.experts) best = std::max(best, g.groups * c.per_group);
  return Seconds{c.launch + best};
}

// Every candidate has at least m*n*k of padded work on no more than all units at no more than the
// best tile's rate, moves at least these bytes, and pays the launch; so the bound is proved.
Seconds lower_bound(const ops::Gemm& g, const KernelContext& context) {
  const GemmConstants& c = context.gemm[static_cast<std::size_t>(priced_as(g))];
  if (g.m <= 0 || g.n <= 0 || g.k <= 0) return Seconds{0};
  const double per_flop =
      g.groups > 1 && !g.strided ? c.grouped_seconds_per_flop : c.seconds_per_flop;
  const double work =
      std::max(2.0 * g.m * g.n * g.k * per_flop, minimum_bytes(g, c) * c.seconds_per_byte);
  // The margin covers rounding where a shape fills every wave exactly.
  return Seconds{c.launch + work * (1 - 1e-12)};
}

}  // namespace eratos::kernel
