// Limits as users write them, and what is wrong with others.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "eratos/base/units.h"
#include "eratos/reader/limits.h"
#include "eratos/search/objective.h"

namespace eratos::reader {
namespace {

using search::Limit;
using search::refuses;

TEST(Limits, AreRead) {
  const std::pair<const char*, double> good[] = {{"tokens/s/GPU>=1200", 1200},
                                                 {"headroom>=8GiB", 8 * kGiB},
                                                 {"headroom >= 8 GB", 8e9},
                                                 {"days<=30", 30 * 86400.0},
                                                 {"train_time<=30d", 30 * 86400.0},
                                                 {"train_time<=36h", 36 * 3600.0},
                                                 {"step_time<=900ms", 0.9},
                                                 {"cost<=4e-7", 4e-7},
                                                 {"energy<=0.5J", 0.5}};
  for (const auto& [text, value] : good) {
    const Result<Limit> limit = limit_of(text);
    ASSERT_TRUE(limit) << text << ": " << to_text(limit.error()[0]);
    EXPECT_DOUBLE_EQ(limit->value, value) << text;
  }
  const std::pair<const char*, const char*> bad[] = {{"headroom", "no limit"},
                                                     {"headroom>=8", "no unit"},
                                                     {"headroom>=8days", "unknown unit"},
                                                     {"headrom>=8GiB", "did you mean `headroom`"},
                                                     {"headroom<=8GiB", "headroom>=8GiB"},
                                                     {"step_time<9s", "step_time<=9s"},
                                                     {"cost<=4 EUR", "bare number"},
                                                     {"step_time<=x", "no number"},
                                                     {">=3", "no limit"},
                                                     {"step_time=3s", "step_time<=3s"}};
  for (const auto& [text, why] : bad) {
    const Result<Limit> limit = limit_of(text);
    ASSERT_FALSE(limit) << text;
    EXPECT_NE(to_text(limit.error()[0]).find(why), std::string::npos)
        << text << ": " << to_text(limit.error()[0]);
  }
  EXPECT_EQ(*tokens_of("15T"), 15e12);
  EXPECT_EQ(*tokens_of("1.5e12"), 1.5e12);
  EXPECT_EQ(*tokens_of("300B"), 3e11);
  EXPECT_FALSE(tokens_of("15 tokens"));
  EXPECT_EQ(seconds_of("10min")->value, 600);
  EXPECT_FALSE(seconds_of("10"));
  EXPECT_TRUE(refuses(*limit_of("headroom>=8GiB"), 7 * kGiB));
  EXPECT_FALSE(refuses(*limit_of("headroom>=8GiB"), 8 * kGiB));
  EXPECT_TRUE(refuses(*limit_of("step_time<=9s"), 9.1));
}

}  // namespace
}  // namespace eratos::reader
