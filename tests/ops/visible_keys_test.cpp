#include <gtest/gtest.h>

#include <algorithm>

#include "eratos/ops/ops.h"

namespace eratos::ops {
namespace {

// Keys of every query, one by one.
double counted(int positions, int window) {
  double pairs = 0;
  for (int i = 1; i <= positions; ++i) pairs += std::min(i, window);
  return pairs / positions;
}

TEST(VisibleKeys, AWindowSeesWhatIsCountedQueryByQuery) {
  for (const int s : {7, 128, 1000, 4096}) {
    for (const int w : {1, 2, 5, 64, 500}) {
      if (w >= s / 2) continue;
      EXPECT_NEAR(visible_keys(s, true, w), counted(s, w), 1e-9) << s << ' ' << w;
    }
  }
}

TEST(VisibleKeys, WithoutAWindowHalfOfThem) {
  EXPECT_EQ(visible_keys(4096, true, 0), 2048);
  EXPECT_EQ(visible_keys(4096, false, 0), 4096);
  EXPECT_EQ(visible_keys(4096, true, 4096), 2048);
  EXPECT_EQ(visible_keys(4096, true, 100'000), 2048);
}

TEST(VisibleKeys, AWiderWindowNeverSeesLess) {
  double before = 0;
  for (int w = 1; w <= 300; ++w) {
    const double now = visible_keys(256, true, w);
    EXPECT_GE(now, before) << w;
    before = now;
  }
}

// 2 * 1 * 8 heads * 4096 queries * 126.015625 keys * 256.
TEST(VisibleKeys, FlopsFollowThem) {
  Attention a;
  a.batch = 1;
  a.seq_q = 4096;
  a.seq_kv = 4096;
  a.heads = 8;
  a.head_dim = 128;
  a.v_head_dim = 128;
  a.window = 128;
  EXPECT_DOUBLE_EQ(a.keys(), 126.015625);
  EXPECT_DOUBLE_EQ(a.flops().value, 2.0 * 8 * 4096 * 126.015625 * 256);
  a.backward = true;
  EXPECT_DOUBLE_EQ(a.flops().value, 5.0 * 8 * 4096 * 126.015625 * 256);
}

}  // namespace
}  // namespace eratos::ops
