// Timings of matrix products that somebody wrote as CSV: one product a row.
//
// Answers "which product is on this line, and how long did it take?" for tables that are not
// eratos' own (reader/points.h). Columns by their names, in any order and case; the unit of a time
// is part of its name or is said beside the table:
//
//   m, n, k              C[m,n] = A[m,k] B[k,n]; required
//   time_us, latency_ms, duration (ns), us, ...     a time with its unit, or tflops, gflops
//   dtype | type | precision | a_type               float16, bf16, fp8_e4m3, f32_r, ...
//   batch | batch_count | groups                    products of one size, one launch (1)
//   transa + transb | layout                        N/T each, row-major: NT is a forward pass, NN
//   its
//                                                   dgrad, TN its wgrad
//   pass                                            forward, dgrad or wgrad, said outright
//   gpu | device | accelerator                      a catalogue name or a driver's
//
// Others are left alone. Rows of one product are samples of it.
// Source of the names: what rocblas-bench, hipblaslt-bench, cublasMatmulBench and PyTorch's own
// benchmark scripts call them.
//
// Worked example: with the header "M,N,K,dtype,time_us" the row "4096,4096,4096,bf16,250" is a
// product of 137 GFLOP that took 250 us.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/calibration/measured.h"
#include "eratos/reader/points.h"

namespace eratos::reader {

// What a table may leave unsaid.
struct GemmCsvOptions {
  std::string time_unit;  // s, ms, us or ns, for a time column without one
  std::string part;       // accelerator
};

// Does a CSV header name products and how long they took, and is it no table of points.h?
bool is_gemm_csv(const std::vector<std::string>& header);

struct GemmCsv {
  std::vector<Point> points;
  std::vector<calibration::MeasuredPiece> pieces;  // one a product, rows gathered
};

// Errors, all at once with their lines: cells that are no numbers, a time without a unit, an
// unknown format, a device that the catalogue lacks.
Result<GemmCsv> parse_gemm_csv(std::string_view text, const std::string& file,
                               const GemmCsvOptions& options);

}  // namespace eratos::reader
