#include "eratos/calibration/borrow.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace eratos::calibration {

namespace {

double ratio(double part, double kin) { return part > 0 && kin > 0 ? part / kin : 1.0; }

// Attention rows are measured in either 16-bit format; a part may have one of them only.
double matrix_peak(const hardware::AcceleratorSpec& spec, DType dtype) {
  if (dtype != DType::bf16 && dtype != DType::fp16) return spec.peak_of(dtype).value;
  return std::max(spec.peak_of(DType::bf16).value, spec.peak_of(DType::fp16).value);
}

bool has_kind(const PartCalibration& part, const std::string& kind) {
  return std::any_of(part.collectives.begin(), part.collectives.end(),
                     [&](const CollectiveCurve& c) { return c.kind == kind; });
}

}  // namespace

void borrow_from(PartCalibration& part, const hardware::AcceleratorSpec& part_spec,
                 const PartCalibration& kin, const hardware::AcceleratorSpec& kin_spec) {
  using Section = Borrowing::Section;
  const std::string from = " borrowed from " + kin.part;

  for (std::size_t i = 0; i < part.gemm.size(); ++i) {
    if (part.gemm[i].peak_fraction > 0 || kin.gemm[i].peak_fraction <= 0) continue;
    if (part_spec.peak[i].value <= 0) continue;
    part.gemm[i] = kin.gemm[i];
    const auto dtype = static_cast<DType>(i);
    part.statements.push_back(
        {Section::matrix, dtype,
         part.part + ": " + std::string(name_of(dtype)) + " GEMM efficiency" + from});
  }

  const bool adds = part.attention.adds_to_kin;
  if ((part.attention.curves.empty() || adds) && !kin.attention.curves.empty()) {
    const AttentionTable own = part.attention;
    const auto has_kernel = [&](const std::string& kernel) {
      return std::any_of(own.curves.begin(), own.curves.end(),
                         [&](const AttentionCurve& c) { return c.kernel == kernel; });
    };
    part.attention = kin.attention;
    part.attention.curves = own.curves;
    for (const AttentionCurve& curve : kin.attention.curves) {
      const bool narrow = curve.dtype == DType::fp8 || curve.dtype == DType::fp4;
      if (has_kernel(curve.kernel) || (narrow && part_spec.peak_of(curve.dtype).value <= 0)) continue;
      part.attention.curves.push_back(curve);
      part.attention.curves.back().rate *=
          ratio(matrix_peak(part_spec, curve.dtype), matrix_peak(kin_spec, curve.dtype));
    }
    part.statements.push_back(
        {Section::attention, DType::bf16,
         part.part + ": attention rates" + from + ", scaled by the matrix peak"});
  }

  // The libraries of measurements: nothing that a projection prices, so no statement.
  for (const CastCurve& cast : kin.casts) {
    const bool own = std::any_of(part.casts.begin(), part.casts.end(),
                                 [&](const CastCurve& c) { return c.kernel == cast.kernel; });
    if (!own) part.casts.push_back(cast);
  }

  if (part.elementwise.share[0] <= 0 && kin.elementwise.share[0] > 0) {
    part.elementwise = kin.elementwise;
    part.statements.push_back(
        {Section::memory_bound, DType::bf16, part.part + ": memory-bound kernels" + from});
  }

  // Kinds present before anything is added, so that all of kin's rows of a kind come along.
  PartCalibration before;
  before.collectives = part.collectives;
  bool any = false;
  for (const CollectiveCurve& row : kin.collectives) {
    if (has_kind(before, row.kind)) continue;
    part.collectives.push_back(row);
    part.collectives.back().busbw *=
        ratio(part_spec.scale_up.bandwidth.value, kin_spec.scale_up.bandwidth.value);
    any = true;
  }
  if (any) {
    part.statements.push_back({Section::collective, DType::bf16,
                               part.part + ": collectives inside the node" + from +
                                   ", scaled by the scale-up bandwidth"});
  }

  if (part.network.share <= 0 && kin.network.share > 0) {
    part.network = kin.network;
    part.statements.push_back(
        {Section::network, DType::bf16, part.part + ": network efficiency" + from});
  }
}

Unmeasured unmeasured(const hardware::AcceleratorSpec& part, const hardware::AcceleratorSpec& kin) {
  constexpr double kPerBorrowed = 0.02;
  constexpr double kPerFactorOfE = 0.1;
  const struct {
    double part;
    double kin;
    const char* field;
  } figures[] = {
      {matrix_peak(part, DType::bf16), matrix_peak(kin, DType::bf16), "peak_flops_per_s.bf16"},
      {part.memory_bandwidth.value, kin.memory_bandwidth.value, "memory.bandwidth_bytes_per_s"},
      {part.scale_up.bandwidth.value, kin.scale_up.bandwidth.value,
       "scale_up.bandwidth_bytes_per_s"},
      {part.nic_per_gpu.value, kin.nic_per_gpu.value, "nic_bytes_per_s"},
      {static_cast<double>(part.scale_up.domain_gpus),
       static_cast<double>(kin.scale_up.domain_gpus), ""},
  };
  double w = 0;
  for (const auto& figure : figures) {
    w += kPerFactorOfE * std::abs(std::log(ratio(figure.part, figure.kin)));
    const bool borrowed =
        std::find(part.borrowed.begin(), part.borrowed.end(), figure.field) != part.borrowed.end();
    if (borrowed) w += kPerBorrowed;
  }
  return {w, "no run of " + part.name + " exists: " + kin.name + "'s efficiencies, the band " +
                 "widened by " + std::to_string(std::lround(w * 1000) / 10) + "." +
                 std::to_string(std::lround(w * 1000) % 10) +
                 "% for figures that differ or are borrowed"};
}

}  // namespace eratos::calibration
