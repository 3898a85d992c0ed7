// Which curve of a calibration answers for a format, a kernel, a pass or a mask that it has no
// row for, and what that substitution costs.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "eratos/base/inplace_vector.h"
#include "eratos/calibration/calibration.h"

namespace eratos::calibration {

// The GEMM curve of `dtype`, else of the nearest format that the part has: fp16 and bf16 stand for
// one another, then 16 bits for every other format. Default-constructed where there is none.
const GemmCurve& gemm_curve(const PartCalibration& part, DType dtype);

// One AttentionCurve without its words: nothing here allocates, so that a search may build a
// kernel context for every job.
struct AttentionRow {
  int head_dim = 128;
  FlopsPerSecond rate;
  double s0 = 0;
  double fill = 0;
  bool backward = false;
  bool causal = true;
};
using AttentionRows = InplaceVector<AttentionRow, 8>;

// Rows of one kernel, pass and mask in bf16, by rising head dim, at most one a head dim.
// Falls back, in this order, to: the part's default kernel; the other mask (a causal s0 is
// 3.3 times the full one); the forward pass (backward runs at 0.87 of its rate).
// Source of 3.3: median of the pairs full/causal in docs/model/kernels.md (2.6 to 4.4 for
// training kernels). Source of 0.87: cuDNN on H100, 542 against 621 TFLOP/s, arXiv 2407.08608.
// Worked example: a part whose only row is flash2 forward full 372 TFLOP/s, s0 92, hd 128 answers
// for flash2 backward causal with 324 TFLOP/s, s0 304.
// More than 8 head dims: the rest is left out.
AttentionRows attention_curves(const AttentionTable& table, std::string_view kernel, bool backward,
                               bool causal, DType dtype);

// The same for [backward][causal] at once.
using PassRows = std::array<std::array<AttentionRows, 2>, 2>;
PassRows attention_passes(const AttentionTable& table, std::string_view kernel, DType dtype);

// A collective's curve in pieces (CollectiveCurve::from), or one across domains: rows that are kept
// apart from those that are a curve by themselves. `rows` holds `row`.
bool in_pieces(const std::vector<CollectiveCurve>& rows, const CollectiveCurve& row);
// Of the rows of its curve, the one of the largest messages.
bool is_last_piece(const std::vector<CollectiveCurve>& rows, const CollectiveCurve& row);

}  // namespace eratos::calibration
