#include "eratos/report/points.h"

#include <gtest/gtest.h>

namespace eratos::report {
namespace {

PointRow row(double error, bool held_out) {
  PointRow r;
  r.table = "gemm";
  r.part = "toy";
  r.group = "bf16";
  r.measured_s = 1;
  r.priced_s = 1 + error;
  r.held_out = held_out;
  return r;
}

TEST(PointReport, ErrorsOfHeldOutLinesApart) {
  std::vector<PointRow> rows{row(-0.1, true), row(0, true), row(0.3, true), row(0.5, false)};
  rows.push_back(row(0, false));
  rows.back().skipped = "no such kernel";
  const PointSummary s = summarise(rows);
  EXPECT_EQ(s.rows, 5);
  EXPECT_EQ(s.priced, 4);
  const PointGroup& g = s.by_group.at("gemm").at("toy bf16");
  EXPECT_EQ(g.held_out.n, 3);
  EXPECT_NEAR(g.held_out.mean_abs, 0.4 / 3, 1e-12);
  EXPECT_NEAR(g.held_out.median_abs, 0.1, 1e-12);
  EXPECT_NEAR(g.held_out.p90_abs, 0.26, 1e-12);
  EXPECT_NEAR(g.held_out.mean, 0.2 / 3, 1e-12);
  EXPECT_EQ(g.seen.n, 1);
  EXPECT_EQ(s.skipped.at("gemm: no such kernel"), 1);
}

}  // namespace
}  // namespace eratos::report
