#include "eratos/calibration/curves.h"

#include <algorithm>

namespace eratos::calibration {

namespace {

constexpr double kCausalS0 = 3.3;
constexpr double kBackwardRate = 0.87;

std::vector<AttentionCurve> exact(const AttentionTable& table, std::string_view kernel,
                                  bool backward, bool causal, DType dtype) {
  std::vector<AttentionCurve> rows;
  for (const AttentionCurve& row : table.curves) {
    if (row.kernel == kernel && row.backward == backward && row.causal == causal &&
        row.dtype == dtype) {
      rows.push_back(row);
    }
  }
  std::sort(rows.begin(), rows.end(), [](const AttentionCurve& a, const AttentionCurve& b) {
    return a.head_dim < b.head_dim;
  });
  return rows;
}

std::vector<AttentionCurve> other_mask(const AttentionTable& table, std::string_view kernel,
                                       bool backward, bool causal, DType dtype) {
  std::vector<AttentionCurve> rows = exact(table, kernel, backward, !causal, dtype);
  for (AttentionCurve& row : rows) {
    row.causal = causal;
    row.s0 *= causal ? kCausalS0 : 1.0 / kCausalS0;
  }
  return rows;
}

std::vector<AttentionCurve> of_kernel(const AttentionTable& table, std::string_view kernel,
                                      bool backward, bool causal, DType dtype) {
  std::vector<AttentionCurve> rows = exact(table, kernel, backward, causal, dtype);
  if (rows.empty()) rows = other_mask(table, kernel, backward, causal, dtype);
  if (!rows.empty() || !backward) return rows;
  rows = of_kernel(table, kernel, false, causal, dtype);
  for (AttentionCurve& row : rows) {
    row.backward = true;
    row.rate *= kBackwardRate;
  }
  return rows;
}

}  // namespace

GemmCurve gemm_curve(const PartCalibration& part, DType dtype) {
  for (const DType candidate : {dtype, DType::bf16, DType::fp16}) {
    if (part.gemm_of(candidate).peak_fraction > 0) return part.gemm_of(candidate);
  }
  return {};
}

std::vector<AttentionCurve> attention_curves(const AttentionTable& table, std::string_view kernel,
                                             bool backward, bool causal, DType dtype) {
  std::vector<AttentionCurve> rows = of_kernel(table, kernel, backward, causal, dtype);
  if (rows.empty()) rows = of_kernel(table, table.default_kernel, backward, causal, dtype);
  return rows;
}

}  // namespace eratos::calibration
