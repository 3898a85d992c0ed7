#include "eratos/reader/error_classes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "eratos/reader/catalogue.h"

namespace eratos::reader {
namespace {

const std::string kHead =
    "quantity,framework,architecture,mixture,busy_from,busy_to,gpus_from,gpus_to,parameters_from,"
    "parameters_to,rows,sources,low,high\n";

Result<std::vector<calibration::ErrorClass>> read(const std::string& text) {
  const auto table = text::parse_csv(text, "errors.csv");
  if (!table) return faults(table.error());
  return read_error_classes(*table);
}

TEST(ErrorClassTable, EmptyCellsAreNoLimit) {
  const auto classes = read(kHead + "peak,,,,,,,,,,7,2,-0.1,0.2\n"
                                    "step,megatron,sm90,experts,0.2,0.5,8,64,1e9,2e10,30,3,-0.2,0.1\n");
  ASSERT_TRUE(classes.has_value());
  ASSERT_EQ(classes->size(), 2u);
  const calibration::ErrorClass& any = classes->front();
  EXPECT_EQ(any.quantity, calibration::Quantity::peak);
  EXPECT_EQ(any.mixture, calibration::Mixture::any);
  EXPECT_EQ(any.busy.to, 1);
  EXPECT_TRUE(std::isinf(any.gpus.to));
  EXPECT_TRUE(std::isinf(any.parameters.to));
  const calibration::ErrorClass& one = classes->back();
  EXPECT_EQ(one.framework, "megatron");
  EXPECT_EQ(one.mixture, calibration::Mixture::experts);
  EXPECT_EQ(one.parameters.to, 2e10);
  EXPECT_EQ(one.rows, 30);
  EXPECT_EQ(one.low, -0.2);
}

TEST(ErrorClassTable, AllFaultsAtOnceWithTheirLines) {
  const auto classes = read(kHead + "time,,,,,,,,,,7,2,-0.1,0.2\n"
                                    "step,,,sparse,,,,,,,7,2,-0.1,x\n"
                                    "step,,,,,,,,,,7,2,0.3,0.2\n"
                                    "step,,,,,,,,,,7,2,-1,0.2\n");
  ASSERT_FALSE(classes.has_value());
  std::string all;
  for (const Diagnostic& d : classes.error()) {
    all += std::to_string(d.where.line) + ' ' + d.message + '\n';
  }
  EXPECT_NE(all.find("2 `quantity` is `time`"), std::string::npos) << all;
  EXPECT_NE(all.find("3 `mixture` is `sparse`"), std::string::npos) << all;
  EXPECT_NE(all.find("3 `high` is `x`, not a number"), std::string::npos) << all;
  EXPECT_NE(all.find("4 the band from `low` to `high`"), std::string::npos) << all;
  EXPECT_NE(all.find("5 the band from `low` to `high`"), std::string::npos) << all;
}

TEST(ErrorClassTable, AMissingColumnIsNamed) {
  const auto classes = read("quantity,low,high\nstep,0,1\n");
  ASSERT_FALSE(classes.has_value());
  EXPECT_EQ(classes.error().size(), 11u);
}

TEST(ErrorClassTable, WhatShipsEndsWithAClassForEveryJob) {
  const auto part = load_calibration("h100-sxm");
  ASSERT_TRUE(part.has_value());
  calibration::Likeness nothing{"unheard-of", "sm999", true, 0, 1e9, 1e18};
  for (const auto quantity : {calibration::Quantity::step, calibration::Quantity::peak}) {
    EXPECT_NE(calibration::most_alike(part->errors, quantity, nothing), nullptr);
  }
}

}  // namespace
}  // namespace eratos::reader
