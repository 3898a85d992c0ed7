// Which rule stands in the way of a space without a legal candidate.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eratos/search/blame.h"
#include "eratos/search/space.h"
#include "search/jobs.h"

namespace eratos::search {
namespace {

using Words = std::vector<std::string>;

std::string deciding(const job::JobSpec& base, const Words& words) {
  std::string out;
  for (const Rule* r : deciding_rules(*space_of(base, words))) {
    out += (out.empty() ? "" : " ") + std::string(r->name);
  }
  return out;
}

// The header's example.
TEST(Blame, TheRuleWithoutWhichSomethingWouldBeLegal) {
  const job::JobSpec base = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
  EXPECT_EQ(deciding(base, Words{"gbs=7", "tp=1", "pp=1", "cp=1"}), "global-batch");
  EXPECT_EQ(deciding(base, Words{"pp=3", "rest=job", "split=even"}), "");  // two at once
  EXPECT_EQ(deciding(base, Words{"tp=2", "rest=job"}), "") << "something is legal";
  const job::JobSpec moe = job_of("mixtral-8x7b", "h100-sxm-1x8", 64);
  EXPECT_EQ(deciding(moe, Words{"tp=2", "sp=false"}), "experts-need-sp");
}

TEST(Blame, CuresStartFromWhatIsPinned) {
  const job::JobSpec base = job_of("llama3.1-8b", "h100-sxm-1x8", 64);
  const job::JobSpec pinned = pinned_job(*space_of(base, Words{"gbs=7", "tp=2,4", "mbs=1,2"}));
  EXPECT_EQ(pinned.batch.global, 7);
  EXPECT_EQ(pinned.parallel.tp, 2) << "the job's 1 is not among them: the first";
  EXPECT_EQ(pinned.batch.micro, 1);
}

}  // namespace
}  // namespace eratos::search
