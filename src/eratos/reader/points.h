// Tables of measured kernels and collectives, one a row, as values that can be priced.
//
// Answers "what is measured on this line, on which part, by which kernel, and is the line held
// out?". Which table it is the header says: `gpu dtype m n k tflops source` (products),
// `gpu impl pass causal hdim seqlen batch heads tflops source` (attention), `system gpus nodes
// collective bytes ... source` (collectives). What the tables call things is data:
// data/points_*.csv, where the first row that matches and says something counts, for each column by
// itself.
//
// Held out: CRC-32 of the line without its line end, modulo 5, is 0. No fit sees these.
//
// Worked example: "H100-SXM,bf16,8192,14336,4096,785.0,x" is a product of 962 GFLOP that took
// 1.226 ms on part h100-sxm.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/projection/points.h"
#include "eratos/text/csv.h"

namespace eratos::reader {

enum class PointTable { none, gemm, attention, collective };
std::string_view name_of(PointTable table);

// By the header; none for every other table.
PointTable point_table_of(const std::vector<std::string>& header);

struct Point {
  PointTable table = PointTable::none;
  std::string file;
  int line = 0;
  std::string text;    // the line
  std::string source;  // its own words
  bool held_out = false;
  std::string part;  // of the catalogue; as written where it has none
  std::string
      group;  // what it is compared with: a format, a kernel and pass, a system and collective
  std::string skipped;  // why it is not priced; "" where `work` is set
  projection::PointWork work;
  Seconds measured;
};

bool held_out(std::string_view line);

// Errors: a file that is no such table; cells that are no numbers, with line and column name, all
// at once.
Result<std::vector<Point>> read_points(const std::string& path);
Result<std::vector<Point>> parse_points(std::string_view text, const std::string& file);

}  // namespace eratos::reader
