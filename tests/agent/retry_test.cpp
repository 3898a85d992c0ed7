#include "eratos/agent/retry.h"

#include <gtest/gtest.h>

namespace eratos::agent {
namespace {

// 784111777 is `date -u -d "1994-11-06 08:49:37" +%s`; the three spellings are RFC 9110's own.
TEST(Retry, DatesOfHttp) {
  EXPECT_EQ(http_date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
  EXPECT_EQ(http_date("Sunday, 06-Nov-94 08:49:37 GMT"), 784111777);
  EXPECT_EQ(http_date("Sun Nov  6 08:49:37 1994"), 784111777);
  EXPECT_EQ(http_date("Thu, 29 Feb 2024 00:00:00 GMT"), 1709164800);
  for (const char* none : {"", "soon", "Sun, 06 Nov 1994", "Sun, 06 Foo 1994 08:49:37 GMT",
                           "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 CET"}) {
    EXPECT_EQ(http_date(none), std::nullopt) << none;
  }
}

Head with(const char* name, const char* value) { return {429, {{name, value}}}; }

TEST(Retry, WhatTheServerAsksFor) {
  EXPECT_EQ(asked_wait(with("retry-after", "7"), 0), 7);
  EXPECT_EQ(asked_wait(with("retry-after", "0.5"), 0), 0.5);
  EXPECT_EQ(asked_wait(with("retry-after-ms", "250"), 0), 0.25);
  EXPECT_EQ(asked_wait(with("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), 784111770), 7);
  EXPECT_EQ(asked_wait(with("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), 784111800), 0);
  EXPECT_EQ(asked_wait(with("retry-after", "-3"), 0), std::nullopt);
  EXPECT_EQ(asked_wait(with("retry-after", "1e9"), 0), std::nullopt);
  EXPECT_EQ(asked_wait({429, {}}, 0), std::nullopt);
}

TEST(Retry, WaitsDoubleWithHalfLeftToChance) {
  const RetryPolicy policy;
  Rng rng(1);
  for (int k = 1; k <= 5; ++k) {
    const double whole = k == 1 ? 1 : k == 2 ? 2 : k == 3 ? 4 : k == 4 ? 8 : 16;
    const double wait = wait_after(k, std::nullopt, policy, rng);
    EXPECT_GE(wait, whole / 2) << k;
    EXPECT_LT(wait, whole) << k;
  }
  EXPECT_LE(wait_after(40, std::nullopt, policy, rng), policy.longest_wait_s);
  EXPECT_EQ(wait_after(3, 7.0, policy, rng), 7);
  Rng a(5);
  Rng b(5);
  EXPECT_EQ(wait_after(2, std::nullopt, policy, a), wait_after(2, std::nullopt, policy, b));
}

TEST(Retry, WhatPasses) {
  for (const int status : {408, 409, 425, 429, 500, 502, 503, 504, 529}) {
    EXPECT_TRUE(passes(status)) << status;
  }
  for (const int status : {301, 400, 401, 403, 404, 413, 422}) EXPECT_FALSE(passes(status));
}

}  // namespace
}  // namespace eratos::agent
