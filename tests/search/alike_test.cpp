// Prefixes that are found alike have the same candidates behind them, removed by the same rules.
#include "eratos/search/alike.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "../projection/spread.h"
#include "eratos/base/rng.h"
#include "eratos/job/job.h"
#include "eratos/search/space.h"
#include "eratos/search/walk.h"
#include "search/jobs.h"
#include "search/run.h"

namespace eratos::search {
namespace {

constexpr auto kPipeline = static_cast<std::size_t>(AxisId::pp);

// The header's example.
TEST(Alike, PairsOfTpAndCpAreAlikeByTheirProduct) {
  const auto space =
      space_of(job_of("llama3.1-405b", "h100-sxm-512x8", 4096),
               std::vector<std::string>{"tp=1..64", "cp=1..64", "pp=1..64", "rest=job"});
  ASSERT_TRUE(space);
  Cursor cursor(*space);
  const RulesByAxis rules(*space);
  Alike alike(cursor, rules, kPipeline);
  std::set<std::vector<std::uint32_t>> all;
  for (std::size_t tp = 0; tp < 7; ++tp) {
    for (std::size_t cp = 0; cp < 7; ++cp) {
      cursor.set(static_cast<std::size_t>(AxisId::tp), tp);
      cursor.set(static_cast<std::size_t>(AxisId::cp), cp);
      all.insert(alike.of_prefix());
    }
  }
  EXPECT_EQ(all.size(), 7U);
}

// One count for all prefixes against one for each.
TEST(Alike, SharedCountsAreThoseOfEachPrefixByItself) {
  projection::Spread spread(91);
  Rng rng(92);
  std::size_t prefixes = 0;
  for (int i = 0; i < 60; ++i) {
    projection::DrawnJob drawn = spread.next();
    drawn.spec.batch.global = std::min(drawn.spec.batch.global, 1024);
    const auto space = space_of(drawn.spec, few_axes(drawn.spec, rng, 1000));
    ASSERT_TRUE(space) << to_text(space.error()[0]);
    Cursor cursor(*space);
    const RulesByAxis rules(*space);
    for (const std::size_t first :
         {static_cast<std::size_t>(AxisId::recompute), kPipeline, kScreenedAxes}) {
      Walk walk(cursor, rules, 0, first);
      Tails shared(cursor, rules, first);
      Removed removed;
      while (walk.next(removed)) {
        const Candidate here = cursor.at;
        const TailCount& one = shared.of_prefix();
        for (std::size_t k = 0; k < first; ++k) ASSERT_EQ(cursor.at.at[k], here.at[k]);
        Tails alone(cursor, rules, first);
        const TailCount& other = alone.of_prefix();
        ASSERT_EQ(one.legal, other.legal);
        ASSERT_EQ(one.by_rule, other.by_rule);
        ASSERT_EQ(one.at_axis, other.at_axis);
        ASSERT_EQ(one.last, other.last);
        ++prefixes;
      }
    }
  }
  EXPECT_GT(prefixes, 5000U);
}

}  // namespace
}  // namespace eratos::search
