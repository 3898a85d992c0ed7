#include "eratos/base/inplace_vector.h"

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace eratos {
namespace {

TEST(InplaceVector, GrowsToItsCapacity) {
  InplaceVector<int, 3> v;
  EXPECT_TRUE(v.empty());
  EXPECT_EQ(v.capacity(), 3u);
  v.push_back(7);
  v.push_back(8);
  v.push_back(9);
  EXPECT_EQ(v.size(), 3u);
  EXPECT_EQ(v[0], 7);
  EXPECT_EQ(v.back(), 9);
  v[1] = 5;
  EXPECT_EQ(v, (InplaceVector<int, 3>{7, 5, 9}));
  v.clear();
  EXPECT_TRUE(v.empty());
  EXPECT_EQ(v.begin(), v.end());
}

TEST(InplaceVector, EqualityReadsOnlyWhatItHolds) {
  InplaceVector<int, 3> a{1, 2};
  a.push_back(3);
  a.clear();
  a.push_back(1);
  EXPECT_EQ(a, (InplaceVector<int, 3>{1}));  // the 2 and 3 left behind do not count
  EXPECT_FALSE(a == (InplaceVector<int, 3>{2}));
  EXPECT_FALSE(a == (InplaceVector<int, 3>{1, 2}));
}

TEST(InplaceVector, WorksAtCompileTime) {
  static_assert(InplaceVector<int, 4>{1, 2, 3}.size() == 3);
  static_assert(InplaceVector<int, 4>{1, 2, 3}[2] == 3);
  SUCCEED();
}

TEST(InplaceVectorDeathTest, OneTooManyAborts) {
  InplaceVector<int, 2> v{1, 2};
  EXPECT_DEATH(v.push_back(3), "inplace_vector.h:[0-9]+: internal check failed: size_ < N");
}

RC_GTEST_PROP(InplaceVector, HoldsWhatAVectorHolds, ()) {
  const auto items = *rc::gen::resize(16, rc::gen::arbitrary<std::vector<int>>());
  RC_PRE(items.size() <= 16);
  InplaceVector<int, 16> v;
  for (const int item : items) v.push_back(item);
  RC_ASSERT(std::vector<int>(v.begin(), v.end()) == items);
}

}  // namespace
}  // namespace eratos
