// A patch between two jobs, applied, gives the second.
#include "eratos/reader/job_patch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/job/job.h"
#include "eratos/reader/read_job.h"
#include "eratos/reader/set_value.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"

namespace eratos::reader {
namespace {

JobRead read_of(const char* model) {
  ReadOptions options;
  options.cluster = "h100-sxm-4x8";
  options.sets = {"batch.global=64", "batch.sequence=4096"};
  return *read_job(model, options);
}

TEST(JobPatch, TheHeadersExample) {
  const JobRead read = read_of("llama3.1-8b");
  job::JobSpec from = read.job;
  from.parallel.tp = 8;
  from.parallel.etp = 1;
  job::JobSpec to = from;
  to.parallel.tp = 4;
  to.batch.micro = 2;
  EXPECT_EQ(patch_between(from, to),
            (std::vector<std::string>{"batch.micro=2", "parallel.etp=1", "parallel.tp=4"}));
  EXPECT_TRUE(patch_between(from, from).empty());
}

TEST(JobPatch, MakesEveryCandidateOfASearchFromItsBase) {
  for (const char* model : {"llama3.1-8b", "mixtral-8x7b", "deepseek-v2-lite"}) {
    const JobRead read = read_of(model);
    const search::Space space = *search::space_of(read.job, {});
    Rng rng(3);
    int legal = 0;
    for (int i = 0; i < 400 && legal < 12; ++i) {
      job::JobSpec wanted = read.job;
      search::apply(space, search::candidate_at(space, rng.below(space.raw())), wanted);
      job::CheckedJob checked;
      if (!job::check(wanted, checked).empty()) continue;
      ++legal;
      JobRead made = read;
      const std::vector<std::string> patch = patch_between(read.job, wanted);
      ASSERT_TRUE(apply_sets(made, patch)) << model;
      EXPECT_EQ(job_text(made.job), job_text(wanted));
      // What it says of itself is the same patch: it may be applied again.
      EXPECT_EQ(patch_between(read.job, made.job), patch);
    }
    EXPECT_GE(legal, 3) << model;
  }
}

}  // namespace
}  // namespace eratos::reader
