// Prices of kernels and collectives beside their measurements: errors by part and kind, held-out
// lines apart from those that a fit may see.
//
// error = priced time / measured time - 1. Percentiles interpolate linearly.
//
// Worked example: errors -0.1, 0.0, 0.3: n 3, mean_abs 0.133, median_abs 0.1, p90_abs 0.26, mean
// 0.067.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "eratos/report/table.h"

namespace eratos::report {

struct PointRow {
  std::string table;  // gemm, attention, collective
  std::string file;
  int line = 0;
  std::string part;
  std::string group;
  std::string source;
  std::string skipped;  // why it has no price; "" for one that has
  bool held_out = false;
  double measured_s = 0;
  double priced_s = 0;

  double error() const { return priced_s / measured_s - 1; }
};

struct PointErrors {
  int n = 0;
  double mean_abs = 0;
  double median_abs = 0;
  double p90_abs = 0;
  double mean = 0;
};

struct PointGroup {
  PointErrors held_out;
  PointErrors seen;  // by the fit
};

struct PointSummary {
  int rows = 0;
  int priced = 0;
  std::map<std::string, std::map<std::string, PointGroup>> by_part;   // table, part
  std::map<std::string, std::map<std::string, PointGroup>> by_group;  // table, "part group"
  std::map<std::string, int> skipped;                                 // by reason
};
PointSummary summarise(const std::vector<PointRow>& rows);

std::string points_text(const std::vector<PointRow>& rows, const Style& style);
std::string points_json(const std::vector<PointRow>& rows, const std::string& version);
std::string points_csv(const std::vector<PointRow>& rows);

}  // namespace eratos::report
