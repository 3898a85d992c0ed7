// What one part sustains, folded once into the few numbers that the formulas of this room need.
//
// Built once per (part, calibration, framework, setting); reading it is all that time_of does, so
// that pricing an op divides by nothing that varies and allocates nothing.
//
// Letters: P data-sheet peak, S compute units (SM or CU), BW nominal memory bandwidth, e an
// efficiency, s0 the sequence length at which attention reaches half of its rate.
// Worked example: on an H100 (P = 989.4 TFLOP/s, S = 132, e = 0.84) a 256x128 tile takes
//   2 * 256 * 128 / (989.4e12 / 132 * 0.84) = 10.4 ns a unit of K.
#pragma once

#include <array>
#include <string_view>

#include "eratos/base/inplace_vector.h"
#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/accelerator.h"

namespace eratos::kernel {

// isolated: the kernel alone, back to back, as benchmarks publish it. in_training: inside a step,
// where clocks, caches and neighbours cost more.
enum class Setting { isolated, in_training };

// Classes of output tiles, largest first. The two orientations of a tile share a class.
enum TileClass : int { k256x256, k256x128, k128x128, k128x64, k64x64, kTileClasses };

struct GemmConstants {
  std::array<double, kTileClasses> seconds_per_k{};          // one wave, one unit of K
  std::array<double, kTileClasses> grouped_seconds_per_k{};  // the same in a grouped GEMM
  std::array<double, kTileClasses> seconds_per_wave{};       // tau, scaled by the tile's area
  bool wide_tile = false;
  double inverse_units = 1;
  double element_bytes = 2;
  double output_bytes = 2;
  double seconds_per_byte = 0;
  double split_seconds_per_element = 0;  // fp32 partial sums written and read
  double launch = 0;
  double per_group = 0;  // least seconds a group of a grouped product takes
  double split_launch = 0;
  double seconds_per_flop = 0;  // the best tile, all units busy: for bounds
  double grouped_seconds_per_flop = 0;

  friend bool operator==(const GemmConstants&, const GemmConstants&) = default;
};

// seconds = flops * seconds_per_flop * (1 + s0 / S) * (1 + fill_units / blocks) at one head dim.
struct AttentionPoint {
  double head_dim = 128;
  double seconds_per_flop = 0;
  double s0 = 0;
  double fill_units = 0;  // fill * units: blocks lost at the tail

  friend bool operator==(const AttentionPoint&, const AttentionPoint&) = default;
};

// Rows of one (pass, mask), by rising head dim.
using AttentionRows = InplaceVector<AttentionPoint, 8>;

struct KernelContext {
  std::array<GemmConstants, 10> gemm{};  // by DType
  // [backward][causal], in 16 bits; and a kernel's own rows in fp8, empty where it has none
  std::array<std::array<AttentionRows, 2>, 2> attention{};
  std::array<std::array<AttentionRows, 2>, 2> attention_fp8{};
  std::array<double, 10> attention_dtype_factor{};  // seconds against bf16, by DType
  double head_dim_64 = 0.82;
  double mla_seconds_factor = 1;
  double sinks_seconds_factor = 1;
  double attention_launch = 0;
  std::array<double, 6> elementwise_seconds_per_byte{};  // by ops::ElementwiseClass
  double elementwise_launch = 0;

  friend bool operator==(const KernelContext&, const KernelContext&) = default;
};

// `attention_kernel` names a row family of the calibration ("flash2"); where the part has no such
// row, its default kernel answers. Gaps of the calibration are filled with the nearest format
// (fp16 and bf16 for one another, 16 bits for the rest), pass or mask; a format that the part does
// not have at all runs at the rate of the next wider one.
// Errors: none; a part with no calibration at all gets the defaults named in context.cpp.
KernelContext make_context(const hardware::AcceleratorSpec& part,
                           const calibration::PartCalibration& calibration,
                           const framework::KernelFactors& factors,
                           std::string_view attention_kernel, Setting setting);

// `context` with another curve for one format, alone: for products of a library that no framework
// calls.
KernelContext with_gemm(KernelContext context, const hardware::AcceleratorSpec& part, DType dtype,
                        const calibration::GemmCurve& curve);

}  // namespace eratos::kernel
