// A search lowers thousands of jobs a second: a warm LoweredJob must allocate nothing. Counted by
// this program's own operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "eratos/job/job.h"
#include "eratos/lower/lower.h"
#include "lower/random_job.h"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size == 0 ? 1 : size)) return p;
  std::abort();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace eratos::judges {
namespace {

TEST(Allocation, TheCounterCounts) {
  const long before = allocations.load();
  auto* p = new int(1);
  EXPECT_EQ(*p, 1);
  delete p;
  EXPECT_EQ(allocations.load(), before + 1);
}

TEST(Allocation, ASecondCheckAndLoweringAllocateNothing) {
  Rng rng(8);
  for (int i = 0; i < 200; ++i) {
    job::JobSpec spec = random_cut(rng, random_whole_job(rng));
    random_recompute(rng, spec);
    Lowered l = lowered(spec);
    lower::ProgramSet set;
    const auto again = [&] {
      set.start(l.job, 1);
      lower::lower(l.job, set, l.all);
    };
    again();
    const long before = allocations.load();
    const Diagnostics faults = job::check(spec, l.job);
    again();
    ASSERT_EQ(allocations.load(), before);
    ASSERT_TRUE(faults.empty());
  }
}

}  // namespace
}  // namespace eratos::judges
