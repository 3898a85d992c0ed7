// A warm screen() allocates nothing, and is fast. The figures that count are
// bench/screen_bench.cpp's.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "eratos/base/check.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"
#include "spread.h"

namespace {

std::size_t allocations = 0;

void* counted(std::size_t bytes) {
  ++allocations;
  void* p = std::malloc(bytes);
  ERATOS_CHECK(p != nullptr);
  return p;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace eratos::projection {
namespace {

struct Warm {
  Spread spread{11};
  std::vector<DrawnJob> jobs;
  std::unique_ptr<job::CheckedJob> checked = std::make_unique<job::CheckedJob>();
  WorkspacePtr workspace = make_workspace();

  Warm() {
    for (int i = 0; i < 500; ++i) jobs.push_back(spread.next());
    all();
  }
  void all() {
    for (const DrawnJob& j : jobs) {
      ERATOS_CHECK(job::check(j.spec, *checked).empty());
      screen(*checked, spread.calibrations[j.part], {}, *workspace);
    }
  }
};

TEST(WarmScreen, AllocatesNothing) {
  Warm warm;
  const std::size_t before = allocations;
  ASSERT_GT(before, 0U);  // the counter counts
  warm.all();
  EXPECT_EQ(allocations - before, 0U);
}

// A floor far below the bar of 50,000 a second, so that it fails for a change of the algorithm and
// not for a busy machine.
#if defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(WarmScreen, RunsAtLeastTenThousandTimesASecond) {
  using Clock = std::chrono::steady_clock;
  Warm warm;
  double best = 1e300;
  for (int round = 0; round < 20; ++round) {
    const auto start = Clock::now();
    warm.all();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  const double a_second = static_cast<double>(warm.jobs.size()) / best;
  RecordProperty("screens_per_second", static_cast<int>(a_second));
  EXPECT_GT(a_second, 10000);
}
#endif

}  // namespace
}  // namespace eratos::projection
