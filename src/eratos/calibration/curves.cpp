#include "eratos/calibration/curves.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace eratos::calibration {

namespace {

constexpr double kCausalS0 = 3.3;
constexpr double kBackwardRate = 0.87;

AttentionRows exact(const AttentionTable& table, std::string_view kernel, bool backward,
                    bool causal, DType dtype) {
  AttentionRows rows;
  for (const AttentionCurve& row : table.curves) {
    if (row.dtype != dtype || row.backward != backward || row.causal != causal ||
        row.kernel != kernel || rows.size() == AttentionRows::capacity()) {
      continue;
    }
    rows.push_back({row.head_dim, row.rate, row.s0, row.fill, backward, causal});
    for (std::size_t i = rows.size() - 1; i > 0 && rows[i].head_dim < rows[i - 1].head_dim; --i) {
      std::swap(rows[i], rows[i - 1]);
    }
  }
  return rows;
}

AttentionRows other_mask(const AttentionTable& table, std::string_view kernel, bool backward,
                         bool causal, DType dtype) {
  AttentionRows rows = exact(table, kernel, backward, !causal, dtype);
  for (AttentionRow& row : rows) {
    row.causal = causal;
    row.s0 *= causal ? kCausalS0 : 1.0 / kCausalS0;
  }
  return rows;
}

AttentionRows of_kernel(const AttentionTable& table, std::string_view kernel, bool backward,
                        bool causal, DType dtype) {
  AttentionRows rows = exact(table, kernel, backward, causal, dtype);
  if (rows.empty()) rows = other_mask(table, kernel, backward, causal, dtype);
  if (!rows.empty() || !backward) return rows;
  rows = of_kernel(table, kernel, false, causal, dtype);
  for (AttentionRow& row : rows) {
    row.backward = true;
    row.rate *= kBackwardRate;
  }
  return rows;
}

}  // namespace

const GemmCurve& gemm_curve(const PartCalibration& part, DType dtype) {
  static const GemmCurve kUnknown;
  for (const DType candidate : {dtype, DType::bf16, DType::fp16}) {
    if (part.gemm_of(candidate).peak_fraction > 0) return part.gemm_of(candidate);
  }
  return kUnknown;
}

AttentionRows attention_curves(const AttentionTable& table, std::string_view kernel, bool backward,
                               bool causal, DType dtype) {
  const bool any = std::any_of(table.curves.begin(), table.curves.end(),
                               [dtype](const AttentionCurve& c) { return c.dtype == dtype; });
  if (!any) return {};
  AttentionRows rows = of_kernel(table, kernel, backward, causal, dtype);
  if (rows.empty()) rows = of_kernel(table, table.default_kernel, backward, causal, dtype);
  return rows;
}

}  // namespace eratos::calibration
