#include "eratos/base/units.h"

#include <type_traits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "eratos/base/dtype.h"

namespace eratos {
namespace {

TEST(Units, BytesOverRateIsTime) {
  EXPECT_DOUBLE_EQ((Bytes{6.7e9} / BytesPerSecond{3.35e12}).value, 0.002);
  EXPECT_DOUBLE_EQ((Flops{2e12} / FlopsPerSecond{4e14}).value, 0.005);
}

TEST(Units, WorkOverTimeIsRate) {
  EXPECT_DOUBLE_EQ((Bytes{3e9} / Seconds{2.0}).value, 1.5e9);
  EXPECT_DOUBLE_EQ((Flops{3e12} / Seconds{0.5}).value, 6e12);
  EXPECT_DOUBLE_EQ((BytesPerSecond{2e9} * Seconds{3.0}).value, 6e9);
}

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
static_assert(Addable<Bytes, Bytes>);
static_assert(!Addable<Bytes, Seconds>);
static_assert(!Addable<Bytes, double>);
static_assert(!std::is_convertible_v<double, Bytes>);
static_assert(std::is_same_v<decltype(Bytes{1} / Bytes{2}), double>);

TEST(Units, ArithmeticKeepsTheUnit) {
  Bytes b{10.0};
  b += Bytes{5.0};
  b -= Bytes{3.0};
  b *= 2.0;
  EXPECT_EQ(b, Bytes{24.0});
  EXPECT_EQ(b + Bytes{1.0}, Bytes{25.0});
  EXPECT_EQ(b - Bytes{4.0}, Bytes{20.0});
  EXPECT_EQ(b * 0.5, Bytes{12.0});
  EXPECT_EQ(0.5 * b, Bytes{12.0});
  EXPECT_EQ(b / 3.0, Bytes{8.0});
  EXPECT_EQ(b / Bytes{6.0}, 4.0);
}

TEST(Units, Order) {
  EXPECT_LT(Seconds{1.0}, Seconds{2.0});
  EXPECT_EQ(max(Seconds{1.0}, Seconds{2.0}), Seconds{2.0});
  EXPECT_EQ(max(Seconds{2.0}, Seconds{1.0}), Seconds{2.0});
  EXPECT_EQ(min(Seconds{1.0}, Seconds{2.0}), Seconds{1.0});
  EXPECT_EQ(min(Seconds{2.0}, Seconds{1.0}), Seconds{1.0});
}

TEST(Units, BinaryAndDecimalPrefixesDiffer) {
  EXPECT_EQ(gib(1.0), Bytes{1073741824.0});
  EXPECT_EQ(mib(3.0), Bytes{3145728.0});
  EXPECT_DOUBLE_EQ(microseconds(7.0).value, 7e-6);
  EXPECT_DOUBLE_EQ(milliseconds(7.0).value, 7e-3);
}

TEST(Units, PicosecondsRoundOnceToNearest) {
  EXPECT_EQ(to_picoseconds(Seconds{1.0}), 1'000'000'000'000);
  EXPECT_EQ(to_picoseconds(Seconds{1.4e-12}), 1);
  EXPECT_EQ(to_picoseconds(Seconds{1.6e-12}), 2);
  EXPECT_EQ(to_picoseconds(Seconds{0.0}), 0);
  EXPECT_DOUBLE_EQ(to_seconds(2'500'000).value, 2.5e-6);
}

RC_GTEST_PROP(Units, PicosecondsSurviveTheRoundTrip, ()) {
  // Below 2^53 ps (2.5 hours) a double holds every picosecond.
  const auto ps = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50);
  RC_ASSERT(to_picoseconds(to_seconds(ps)) == ps);
}

TEST(DType, BytesOfAnElement) {
  EXPECT_EQ(bytes_of(1000, DType::bf16), Bytes{2000});
  EXPECT_EQ(bytes_of(1000, DType::fp16), Bytes{2000});
  EXPECT_EQ(bytes_of(1000, DType::fp32), Bytes{4000});
  EXPECT_EQ(bytes_of(1000, DType::tf32), Bytes{4000});
  EXPECT_EQ(bytes_of(1000, DType::int32), Bytes{4000});
  EXPECT_EQ(bytes_of(1000, DType::int64), Bytes{8000});
  EXPECT_EQ(bytes_of(1000, DType::fp8), Bytes{1000});
  EXPECT_EQ(bytes_of(1000, DType::int8), Bytes{1000});
  EXPECT_EQ(bytes_of(1000, DType::bool8), Bytes{1000});
  EXPECT_EQ(bytes_of(1000, DType::fp4), Bytes{500});
}

TEST(DType, Names) {
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::fp8), "fp8");
  EXPECT_EQ(name_of(DType::bool8), "bool8");
}

}  // namespace
}  // namespace eratos
