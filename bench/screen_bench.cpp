// Screens a second on one core, check() included, and how often a warm one allocates.
// `bench_screen --benchmark_format=json` prints the figures of the README as JSON; the bar is
// 50,000 screens a second with no allocation.
//
// The jobs are 1,000 legal ones drawn over every model and framework of the catalogue, four parts,
// 8 to 1,024 accelerators, with pipelines to 16 stages, interleaving, experts, context parallelism,
// every kind of sharding and recomputation (tests/projection/spread.h). Each screen is of another
// job than the one before, so nothing of a job is warm but the buffers: these are the cold figures.
//
// BM_Search... are the warm ones: candidates of searches, in a search's order (candidates()). Those
// beside one another have the same programs, and a workspace keeps them (lower/program_set.h). The bar is
// 100,000 a second of dense and 50,000 of MoE models.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "../tests/projection/spread.h"
#include "eratos/base/check.h"
#include "eratos/base/rng.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/projection/projection.h"
#include "eratos/reader/catalogue.h"

namespace {

std::size_t allocations = 0;

void* counted(std::size_t bytes) {
  ++allocations;
  void* p = std::malloc(bytes);  // NOLINT: this is the allocator
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

namespace {

using namespace eratos;

struct Jobs {
  projection::Spread spread{1};
  std::vector<projection::DrawnJob> all;
  std::vector<projection::DrawnJob> dense;
  std::vector<projection::DrawnJob> moe;

  std::vector<projection::DrawnJob> dense_search;
  std::vector<projection::DrawnJob> moe_search;

  Jobs() {
    for (int i = 0; i < 1000; ++i) {
      all.push_back(spread.next());
      (model::is_moe(all.back().spec.model) ? moe : dense).push_back(all.back());
    }
    for (std::size_t i = 0; i < 20; ++i) {
      append(dense[i], dense_search);
      append(moe[i], moe_search);
    }
  }

  static void append(const projection::DrawnJob& from, std::vector<projection::DrawnJob>& to) {
    for (projection::DrawnJob& j : candidates(from)) to.push_back(std::move(j));
  }
};

const Jobs& jobs() {
  static const Jobs all;
  return all;
}

template <class Work>
void over(benchmark::State& state, const std::vector<projection::DrawnJob>& list, Work work) {
  const auto checked = std::make_unique<job::CheckedJob>();
  const auto workspace = projection::make_workspace();
  const auto one = [&](const projection::DrawnJob& j) {
    benchmark::DoNotOptimize(job::check(j.spec, *checked));
    work(*checked, jobs().spread.calibrations[j.part], *workspace);
  };
  for (const projection::DrawnJob& j : list) one(j);  // warms the buffers
  std::size_t i = 0;
  std::size_t counted_allocations = 0;
  for (auto _ : state) {
    const std::size_t before = allocations;
    one(list[i]);
    counted_allocations += allocations - before;
    i = i + 1 == list.size() ? 0 : i + 1;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["allocations"] = benchmark::Counter(static_cast<double>(counted_allocations),
                                                     benchmark::Counter::kAvgIterations);
}

const auto kScreen = [](const job::CheckedJob& j, const calibration::Calibration& c,
                        projection::Workspace& w) {
  benchmark::DoNotOptimize(projection::screen(j, c, {}, w));
};
const auto kProject = [](const job::CheckedJob& j, const calibration::Calibration& c,
                         projection::Workspace& w) {
  benchmark::DoNotOptimize(projection::project(j, c, {}, w));
};

void BM_Screen(benchmark::State& state) { over(state, jobs().all, kScreen); }
void BM_ScreenDense(benchmark::State& state) { over(state, jobs().dense, kScreen); }
void BM_ScreenMoe(benchmark::State& state) { over(state, jobs().moe, kScreen); }
void BM_Project(benchmark::State& state) { over(state, jobs().all, kProject); }
void BM_SearchDense(benchmark::State& state) { over(state, jobs().dense_search, kScreen); }
void BM_SearchMoe(benchmark::State& state) { over(state, jobs().moe_search, kScreen); }
void BM_SearchProjectDense(benchmark::State& state) { over(state, jobs().dense_search, kProject); }
void BM_SearchProjectMoe(benchmark::State& state) { over(state, jobs().moe_search, kProject); }
BENCHMARK(BM_Screen);
BENCHMARK(BM_ScreenDense);
BENCHMARK(BM_ScreenMoe);
BENCHMARK(BM_SearchDense);
BENCHMARK(BM_SearchMoe);
BENCHMARK(BM_Project);
BENCHMARK(BM_SearchProjectDense);
BENCHMARK(BM_SearchProjectMoe);

}  // namespace
