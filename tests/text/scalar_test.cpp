#include "eratos/text/scalar.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace eratos::text {
namespace {

using enum ScalarKind;

struct Word {
  std::string text;
  ScalarKind kind;
  double value = 0.0;  // of integers and floats
};

// Each row as `yaml.safe_load` of PyYAML 6.0 gives it.
const std::vector<Word> kWords = {
    {"", null},
    {"~", null},
    {"null", null},
    {"Null", null},
    {"NULL", null},
    {"nUll", string},
    {"yes", boolean},
    {"On", boolean},
    {"OFF", boolean},
    {"no", boolean},
    {"True", boolean},
    {"tRUE", string},
    {"y", string},
    {"N", string},
    {"0", integer, 0},
    {"-0", integer, 0},
    {"8", integer, 8},
    {"+8", integer, 8},
    {"-8", integer, -8},
    {"1_000", integer, 1000},
    {"1__0_", integer, 10},
    {"_1", string},
    {"010", integer, 8},
    {"-010", integer, -8},
    {"0_7", integer, 7},
    {"08", string},
    {"0o10", string},
    {"0x10", integer, 16},
    {"-0xfF", integer, -255},
    {"0x", string},
    {"0b101", integer, 5},
    {"0b2", string},
    {"12:30", integer, 750},
    {"1:2:3", integer, 3723},
    {"12:60", string},
    {"1:5:60", string},
    {"01:30", string},
    {"190:20:30.15", floating, 685230.15},
    {"-1:0.5", floating, -60.5},
    {".5", floating, 0.5},
    {"-.5", string},
    {"+.5", string},
    {"1.", floating, 1},
    {".", string},
    {"1_000.5", floating, 1000.5},
    {"1e-5", string},
    {"1e5", string},
    {"1.0e5", string},
    {"1.0e-5", floating, 1e-5},
    {"1.5E+3", floating, 1500},
    {"1.0e-", string},
    {"-1.5", floating, -1.5},
    {".inf", floating, std::numeric_limits<double>::infinity()},
    {"-.INF", floating, -std::numeric_limits<double>::infinity()},
    {"inf", string},
    {"nan", string},
    {"2001-12-14", timestamp},
    {"2001-12-14t21:59:43.10-05:00", timestamp},
    {"2001-1-1 1:00:00 Z", timestamp},
    {"2001-1-1", string},
    {"<<", string},
    {"=", string},
    {"-", string},
    {"1.2.3", string},
    {"8x8", string},
};

TEST(Scalar, KindsAndValuesAreThoseOfPyYaml) {
  for (const Word& w : kWords) {
    EXPECT_EQ(pyyaml_kind(w.text), w.kind) << w.text;
    if (w.kind == integer) {
      EXPECT_EQ(int_of(w.text), static_cast<std::int64_t>(w.value)) << w.text;
    } else {
      EXPECT_EQ(int_of(w.text), std::nullopt) << w.text;
    }
    if (w.kind == integer || w.kind == floating) {
      ASSERT_TRUE(double_of(w.text)) << w.text;
      EXPECT_DOUBLE_EQ(*double_of(w.text), w.value) << w.text;
    }
    EXPECT_EQ(bool_of(w.text).has_value(), w.kind == boolean) << w.text;
  }
  EXPECT_EQ(bool_of("yes"), true);
  EXPECT_EQ(bool_of("Off"), false);
  EXPECT_TRUE(std::isnan(*double_of(".nan")));
}

TEST(Scalar, DoubleIsLenientAboutDecimalNumbers) {
  EXPECT_EQ(double_of("1e-5"), 1e-5);
  EXPECT_EQ(double_of("1.0e5"), 1e5);
  EXPECT_EQ(double_of("+.5"), 0.5);
  EXPECT_EQ(double_of("-.5"), -0.5);
  EXPECT_EQ(double_of("08"), 8.0);
  for (const char* word : {"", ".", "e5", "1e", "1e+", "inf", "0x", "1,5", "1 ", "--1"}) {
    EXPECT_EQ(double_of(word), std::nullopt) << word;
  }
}

TEST(Scalar, IntegersEndAt64Bits) {
  EXPECT_EQ(int_of("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(int_of("9223372036854775808"), std::nullopt);
  EXPECT_EQ(int_of("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(int_of("-9223372036854775809"), std::nullopt);
  EXPECT_EQ(int_of("0x7fffffffffffffff"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(int_of("0x8000000000000000"), std::nullopt);
  EXPECT_EQ(int_of("99999999999999999999999999"), std::nullopt);
  EXPECT_EQ(double_of("99999999999999999999999999"), 1e26);
  EXPECT_EQ(double_of("-0x10000000000000000"), -0x1p64);
  EXPECT_EQ(double_of("1.0e+400"), std::nullopt);
}

TEST(Scalar, DoublesAreWrittenToReadBackTheSame) {
  EXPECT_EQ(yaml_double(4), "4.0");
  EXPECT_EQ(yaml_double(0.1), "0.1");
  EXPECT_EQ(yaml_double(1e-5), "1.0e-05");
  EXPECT_EQ(yaml_double(-2.5e300), "-2.5e+300");
  EXPECT_EQ(yaml_double(std::numeric_limits<double>::infinity()), ".inf");
  EXPECT_EQ(json_double(4), "4.0");
  EXPECT_EQ(json_double(1e-5), "1e-05");
  EXPECT_EQ(json_double(std::numeric_limits<double>::quiet_NaN()), "null");
  for (double v : {0.1, 1.0 / 3.0, 1e-300, 6.02214076e23, 123456789.0}) {
    EXPECT_EQ(pyyaml_kind(yaml_double(v)), floating) << v;
    EXPECT_EQ(double_of(yaml_double(v)), v);
    EXPECT_EQ(double_of(json_double(v)), v);
  }
}

}  // namespace
}  // namespace eratos::text
