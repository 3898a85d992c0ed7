// A whole search on one thread, and how fast a space is counted. Screens and simulations a second
// are both of the whole time of the search, which they share. `bench_search
// --benchmark_format=json` prints the figures as JSON.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "eratos/base/check.h"
#include "eratos/calibration/calibration.h"
#include "eratos/framework/profile.h"
#include "eratos/hardware/cluster.h"
#include "eratos/job/job.h"
#include "eratos/model/architecture.h"
#include "eratos/parallel/parallel.h"
#include "eratos/reader/catalogue.h"
#include "eratos/search/evaluate.h"
#include "eratos/search/exhaustive.h"
#include "eratos/search/legality.h"
#include "eratos/search/space.h"
#include "eratos/search/sweep.h"
#include "eratos/search/walk.h"

namespace {

using namespace eratos;

search::Space space_of(const char* model, const char* cluster,
                       const std::vector<std::string>& axes) {
  job::JobSpec s;
  s.model = *reader::load_model(model);
  s.framework = *reader::load_framework("megatron");
  s.cluster = *reader::load_cluster(cluster);
  s.parallel.sharding = parallel::Sharding::zero1;
  s.batch = {1, 512, 4096};
  auto space = search::space_of(s, axes);
  ERATOS_CHECK(space);
  return *std::move(space);
}

// The default space without what hardly changes a screen's cost.
const std::vector<std::string> kAxes{"offload=0", "fused_loss=true", "dispatcher=alltoall",
                                     "sharding=zero1,zero3", "cp=1,2"};

void search_whole(benchmark::State& state, const search::Space& space) {
  const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  std::uint64_t screens = 0;
  std::uint64_t simulations = 0;
  for (auto _ : state) {
    search::Evaluator evaluator(space, calibration, {});
    search::Exhaustive method(space, {});
    std::vector<search::Tell> tells;
    for (;;) {
      const std::span<const search::Ask> asks = method.ask();
      if (asks.empty()) break;
      tells.clear();
      for (const search::Ask& ask : asks) tells.push_back(evaluator.answer(ask));
      (asks[0].what == search::Ask::What::project ? simulations : screens) += asks.size();
      method.tell(tells);
    }
    benchmark::DoNotOptimize(method.outcome().proof.simulated);
  }
  state.counters["candidates"] = static_cast<double>(space.raw());
  state.counters["screens/s"] =
      benchmark::Counter(static_cast<double>(screens), benchmark::Counter::kIsRate);
  state.counters["simulations/s"] =
      benchmark::Counter(static_cast<double>(simulations), benchmark::Counter::kIsRate);
}

void BM_SearchDense(benchmark::State& state) {
  search_whole(state, space_of("llama3.1-70b", "h100-sxm-8x8", kAxes));
}
void BM_SearchMoe(benchmark::State& state) {
  search_whole(state, space_of("mixtral-8x22b", "h100-sxm-8x8", kAxes));
}
// 7e9 candidates, none of them visited that a rule removes.
void BM_CountDeepSeek(benchmark::State& state) {
  const search::Space space = space_of("deepseek-v3", "h100-sxm-128x8", {});
  for (auto _ : state) benchmark::DoNotOptimize(search::count(space).legal);
  state.counters["candidates"] = static_cast<double>(space.raw());
}
BENCHMARK(BM_SearchDense)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_SearchMoe)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_CountDeepSeek)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
