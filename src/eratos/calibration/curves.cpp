#include "eratos/calibration/curves.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace eratos::calibration {

namespace {

constexpr double kCausalS0 = 3.3;
constexpr double kBackwardRate = 0.87;

// Where the rows of one kernel and format stand, by pass and mask: one look at each curve answers
// whichever of them is asked for.
class KernelRows {
 public:
  KernelRows(const AttentionTable& table, std::string_view kernel, DType dtype) : table_(table) {
    for (std::size_t i = 0; i < table.curves.size(); ++i) {
      const AttentionCurve& row = table.curves[i];
      if (row.dtype != dtype || row.kernel != kernel) continue;
      auto& rows = at_[row.backward ? 1 : 0][row.causal ? 1 : 0];
      if (rows.size() < AttentionRows::capacity()) rows.push_back(static_cast<std::uint16_t>(i));
    }
  }

  AttentionRows find(bool backward, bool causal) const {
    AttentionRows rows = with_mask(backward, causal);
    if (!rows.empty() || !backward) return rows;
    rows = with_mask(false, causal);
    for (AttentionRow& row : rows) {
      row.backward = true;
      row.rate *= kBackwardRate;
    }
    return rows;
  }

 private:
  AttentionRows exact(bool backward, bool causal) const {
    AttentionRows rows;
    for (const std::uint16_t at : at_[backward ? 1 : 0][causal ? 1 : 0]) {
      const AttentionCurve& row = table_.curves[at];
      rows.push_back({row.head_dim, row.rate, row.s0, row.fill, backward, causal});
      for (std::size_t i = rows.size() - 1; i > 0 && rows[i].head_dim < rows[i - 1].head_dim; --i) {
        std::swap(rows[i], rows[i - 1]);
      }
    }
    return rows;
  }

  AttentionRows with_mask(bool backward, bool causal) const {
    AttentionRows rows = exact(backward, causal);
    if (!rows.empty()) return rows;
    rows = exact(backward, !causal);
    for (AttentionRow& row : rows) {
      row.causal = causal;
      row.s0 *= causal ? kCausalS0 : 1.0 / kCausalS0;
    }
    return rows;
  }

  const AttentionTable& table_;
  std::array<std::array<InplaceVector<std::uint16_t, AttentionRows::capacity()>, 2>, 2> at_;
};

bool is_one_curve(const CollectiveCurve& a, const CollectiveCurve& b) {
  return a.gpus == b.gpus && a.domains == b.domains && a.kind == b.kind &&
         a.algorithm == b.algorithm;
}

}  // namespace

bool in_pieces(const std::vector<CollectiveCurve>& rows, const CollectiveCurve& row) {
  if (row.from.value > 0 || row.domains > 1) return true;
  return std::any_of(rows.begin(), rows.end(), [&](const CollectiveCurve& c) {
    return c.from.value > 0 && is_one_curve(c, row);
  });
}

bool is_last_piece(const std::vector<CollectiveCurve>& rows, const CollectiveCurve& row) {
  return std::none_of(rows.begin(), rows.end(), [&](const CollectiveCurve& c) {
    return c.from > row.from && is_one_curve(c, row);
  });
}

const GemmCurve& gemm_curve(const PartCalibration& part, DType dtype) {
  static const GemmCurve kUnknown;
  for (const DType candidate : {dtype, DType::bf16, DType::fp16}) {
    if (part.gemm_of(candidate).peak_fraction > 0) return part.gemm_of(candidate);
  }
  return kUnknown;
}

AttentionRows attention_curves(const AttentionTable& table, std::string_view kernel, bool backward,
                               bool causal, DType dtype) {
  AttentionRows rows = KernelRows(table, kernel, dtype).find(backward, causal);
  if (rows.empty()) rows = KernelRows(table, table.default_kernel, dtype).find(backward, causal);
  return rows;
}

PassRows attention_passes(const AttentionTable& table, std::string_view kernel, DType dtype) {
  PassRows out;
  const KernelRows own(table, kernel, dtype);
  bool whole = true;
  for (const bool backward : {false, true}) {
    for (const bool causal : {false, true}) {
      AttentionRows& rows = out[backward ? 1 : 0][causal ? 1 : 0];
      rows = own.find(backward, causal);
      whole = whole && !rows.empty();
    }
  }
  if (whole) return out;
  const KernelRows standard(table, table.default_kernel, dtype);
  for (const bool backward : {false, true}) {
    for (const bool causal : {false, true}) {
      AttentionRows& rows = out[backward ? 1 : 0][causal ? 1 : 0];
      if (rows.empty()) rows = standard.find(backward, causal);
    }
  }
  return out;
}

}  // namespace eratos::calibration
