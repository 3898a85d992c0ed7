#include "eratos/base/rng.h"

#include <array>
#include <cstdint>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace eratos {
namespace {

// Source: the output of the public-domain reference implementation of SplitMix64 (Vigna,
// https://prng.di.unimi.it/splitmix64.c) for the seed 1234567.
TEST(Rng, MatchesTheReferenceImplementation) {
  Rng rng(1234567);
  const std::array<std::uint64_t, 3> expected{6457827717110365317ULL, 3203168211198807973ULL,
                                              9817491932198370423ULL};
  for (const std::uint64_t e : expected) EXPECT_EQ(rng.next(), e);
}

TEST(Rng, SameSeedSameSequence) {
  Rng a(7);
  Rng b(7);
  Rng c(8);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
}

RC_GTEST_PROP(Rng, StaysInItsRange, (std::uint64_t seed)) {
  Rng rng(seed);
  const auto n = *rc::gen::inRange<std::uint64_t>(1, 1000);
  for (int i = 0; i < 20; ++i) {
    RC_ASSERT(rng.below(n) < n);
    const double u = rng.uniform();
    RC_ASSERT(u >= 0.0);
    RC_ASSERT(u < 1.0);
  }
}

TEST(Rng, UniformFillsItsRange) {
  // Mean of 10,000 draws: 0.5 with a standard error of 0.0029, so 0.015 is five of them.
  Rng rng(42);
  double sum = 0.0;
  for (int i = 0; i < 10000; ++i) sum += rng.uniform();
  EXPECT_NEAR(sum / 10000, 0.5, 0.015);
}

}  // namespace
}  // namespace eratos
