#include "eratos/report/plan.h"

#include <string>

#include <gtest/gtest.h>

#include "eratos/report/table.h"

namespace eratos::report {
namespace {

projection::Plan small_plan() {
  projection::Plan plan;
  plan.job = "llama3.1-8b";
  plan.digest = "00c0ffee";
  const calibration::Piece piece{
      calibration::GemmPiece{.m = 4096, .n = 14336, .k = 4096, .accumulate = true}, DType::bf16};
  plan.pieces.push_back({piece, calibration::id_of(piece), 128, Seconds{737.9e-6}});
  plan.small.steps.push_back({"pipeline", 4, 1, "stages", "the schedule"});
  plan.small.fits = true;
  plan.small.needed = Bytes{2 * kGiB};
  plan.unplanned.push_back({"mtp", "a prediction module"});
  return plan;
}

TEST(PlanLines, HoldEveryFieldWithoutSpaces) {
  EXPECT_EQ(plan_lines(small_plan()),
            "eratos-plan 1\n"
            "job llama3.1-8b 00c0ffee\n"
            "piece gemm id=gemm/forward/m4096/n14336/k4096/accumulate/bf16 dtype=bf16 count=128 "
            "pass=forward m=4096 n=14336 k=4096 groups=1 accumulate=1 experts=0 strided=0\n");
}

TEST(PlanText, SaysWhatIsMeasuredRestoredAndLeftOut) {
  const std::string text = plan_text(small_plan(), {});
  EXPECT_NE(text.find("128       737.9 us  100.0%  gemm/forward/m4096"), std::string::npos) << text;
  EXPECT_NE(text.find("pipeline  4 -> 1    stages    the schedule"), std::string::npos) << text;
  EXPECT_NE(text.find("2.0 GiB by the model, which fits"), std::string::npos) << text;
  EXPECT_NE(text.find("mtp: a prediction module"), std::string::npos) << text;
}

TEST(PlanJson, HasPiecesAndSteps) {
  const std::string json = plan_json(small_plan(), "1");
  EXPECT_NE(json.find("\"modelled_s\": 0.0007379"), std::string::npos) << json;
  EXPECT_NE(json.find("\"restored\": \"stages\""), std::string::npos) << json;
}

}  // namespace
}  // namespace eratos::report
