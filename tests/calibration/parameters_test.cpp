#include "eratos/calibration/parameters.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace eratos::calibration {
namespace {

TEST(Parameters, EachIsDefendedAndHasOneOwner) {
  std::set<std::string> paths;
  for (const Parameter& p : parameters()) {
    EXPECT_TRUE(paths.insert(std::string(p.path)).second) << p.path;
    EXPECT_NE(p.in_framework == nullptr, p.in_part == nullptr) << p.path;
    EXPECT_EQ(p.owner == Owner::part, p.in_part != nullptr) << p.path;
    EXPECT_GT(p.least, 0) << p.path;
    EXPECT_LT(p.least, p.most) << p.path;
    EXPECT_GT(p.spread, 0) << p.path;
    EXPECT_FALSE(p.why.empty()) << p.path;
    EXPECT_FALSE(p.source.empty()) << p.path;
    EXPECT_EQ(find_parameter(p.path), &p);
  }
}

TEST(Parameters, SharesEndAtOne) {
  for (const Parameter& p : parameters()) {
    const std::string path(p.path);
    const bool share = path.find("share") != std::string::npos || path == "overlap.pp_exposed";
    if (share) {
      EXPECT_EQ(p.most, 1.0) << path;
    }
  }
}

TEST(Parameters, AccessorsReachTheirFields) {
  framework::FrameworkProfile profile;
  find_parameter("host.per_layer_s")->in_framework(profile) = 3e-4;
  EXPECT_EQ(profile.host.per_layer.value, 3e-4);
  PartCalibration part;
  in_training_of(DType::fp8)->in_part(part) = 0.7;
  EXPECT_EQ(part.gemm_of(DType::fp8).in_training, 0.7);
  EXPECT_EQ(in_training_of(DType::fp8)->path, "gemm.fp8.in_training");
  find_parameter("network.share")->in_part(part) = 0.5;
  EXPECT_EQ(value_of(*find_parameter("network.share"), part), 0.5);
}

TEST(Parameters, AbsentEffectsAreNotInvented) {
  EXPECT_TRUE(is_neutral(*find_parameter("overlap.dp_share"), 0));
  EXPECT_TRUE(is_neutral(*find_parameter("kernel.matrix"), 1));
  EXPECT_FALSE(is_neutral(*find_parameter("gemm.bf16.in_training"), 1));
  EXPECT_FALSE(is_neutral(*find_parameter("kernel.matrix"), 0.9));
}

}  // namespace
}  // namespace eratos::calibration
