// A part whose arithmetic fits in the head: 10 units, and a 256x128 tile takes exactly 1 us for
// every 1024 of K (2 * 256 * 128 * 1024 FLOP per us and unit).
#pragma once

#include "eratos/kernel/kernel.h"

namespace eratos::kernel::toy {

inline constexpr double kUnitRate = 2.0 * 256 * 128 * 1024 * 1e6;  // FLOP/s

inline constexpr BytesPerSecond kSlowMemory{1024.0 * 2048.0 * 1e6};  // 2 MiB a us
inline constexpr BytesPerSecond kFastMemory{1e18};                   // bytes cost nothing

inline hardware::AcceleratorSpec part(BytesPerSecond memory = kSlowMemory) {
  hardware::AcceleratorSpec spec;
  spec.name = "toy";
  spec.compute_units = 10;
  spec.peak[static_cast<std::size_t>(DType::bf16)] = FlopsPerSecond{10 * kUnitRate};
  spec.peak[static_cast<std::size_t>(DType::fp32)] = FlopsPerSecond{kUnitRate};
  spec.memory_bandwidth = memory;
  return spec;
}

// Everything at its best, no fixed costs; split-K priced out by its launch.
inline calibration::PartCalibration perfect() {
  calibration::PartCalibration c;
  calibration::GemmCurve& gemm = c.gemm[static_cast<std::size_t>(DType::bf16)];
  gemm.peak_fraction = 1;
  gemm.tile = {1, 0.5, 0.5, 0.5};
  gemm.memory = 1;
  gemm.split_launch = Seconds{1};
  c.elementwise.share = {1.0, 0.8, 0.4, 0.5, 0.25, 0.5};
  c.elementwise.launch = microseconds(2);
  c.attention.default_kernel = "flash2";
  c.attention.head_dim_64 = 0.8;
  c.attention.mla = 0.5;
  c.attention.curves = {
      {"flash2", false, true, 128, DType::bf16, FlopsPerSecond{1e14}, 1000, 0, ""}};
  return c;
}

inline KernelContext context(const calibration::PartCalibration& c, Setting s = Setting::isolated,
                             framework::KernelFactors factors = {}) {
  return make_context(part(), c, factors, "flash2", s);
}

// The same where only tiles count.
inline KernelContext compute_context(const calibration::PartCalibration& c,
                                     Setting s = Setting::isolated,
                                     framework::KernelFactors factors = {}) {
  return make_context(part(kFastMemory), c, factors, "flash2", s);
}

inline ops::Gemm gemm(double m, double n, double k, double groups = 1) {
  ops::Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.groups = groups;
  return g;
}

inline double in_us(Seconds s) { return s.value * 1e6; }

}  // namespace eratos::kernel::toy
