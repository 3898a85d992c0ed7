// A whole search on one thread, what its evaluator answers a second, and how fast a space is
// counted. `bench_search --benchmark_format=json` prints the figures as JSON.
//
// BM_Screens... and BM_Simulations... are of asks as a search makes them: stem after stem, each
// stem's prefixes in the order of the walk, of one stem in some so that all of the space is met.
// The bars are 100,000 screens a second of a core on a dense and 50,000 on a MoE model, and 5,000
// simulations; on two threads, each with an evaluator of its own, as many a thread.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstddef>
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

const calibration::Calibration& h100() {
  static const calibration::Calibration calibration = *reader::load_calibration("h100-sxm");
  return calibration;
}

// The prefixes of every `nth` stem, as an exhaustive search asks for them.
std::vector<search::Ask> screens_of(const search::Space& space, int nth) {
  constexpr auto kPipeline = static_cast<std::size_t>(search::AxisId::pp);
  search::Cursor cursor(space);
  const search::RulesByAxis rules(space);
  search::Walk stems(cursor, rules, 0, kPipeline);
  search::Walk prefixes(cursor, rules, kPipeline, search::kScreenedAxes);
  search::Tails tails(cursor, rules);
  search::Removed removed;
  std::vector<search::Ask> out;
  for (int i = 0; stems.next(removed); ++i) {
    if (i % nth != 0) continue;
    prefixes.restart();
    while (prefixes.next(removed)) {
      const search::TailCount& tail = tails.of_prefix();
      if (tail.legal == 0) continue;
      out.push_back({search::Ask::What::screen, cursor.at});
      for (std::size_t axis = search::kScreenedAxes; axis < search::kAxes; ++axis) {
        out.back().at.at[axis] = tail.last.at[axis];
      }
    }
  }
  return out;
}

// Every `nth` of them that fits.
std::vector<search::Ask> simulations_of(const search::Space& space,
                                        const std::vector<search::Ask>& screens, int nth) {
  search::Evaluator evaluator(space, h100(), {});
  std::vector<search::Ask> out;
  int fitting = 0;
  for (const search::Ask& ask : screens) {
    if (!evaluator.answer(ask).fits || fitting++ % nth != 0) continue;
    out.push_back({search::Ask::What::project, ask.at});
  }
  return out;
}

struct Asks {
  explicit Asks(const char* model)
      : space(space_of(model, "h100-sxm-8x8", {})),
        screens(screens_of(space, 50)),
        simulations(simulations_of(space, screens, 4)) {}

  search::Space space;
  std::vector<search::Ask> screens;
  std::vector<search::Ask> simulations;
};

const Asks& dense() {
  static const Asks asks("llama3.1-70b");
  return asks;
}
const Asks& moe() {
  static const Asks asks("mixtral-8x22b");
  return asks;
}

void answer(benchmark::State& state, const search::Space& space,
            const std::vector<search::Ask>& asks) {
  search::Evaluator evaluator(space, h100(), {});
  const auto threads = static_cast<std::size_t>(state.threads());
  const std::size_t first = asks.size() / threads * static_cast<std::size_t>(state.thread_index());
  std::size_t i = first;
  for (auto _ : state) {
    benchmark::DoNotOptimize(evaluator.answer(asks[i]));
    i = i + 1 == asks.size() ? 0 : i + 1;
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["asks"] =
      benchmark::Counter(static_cast<double>(asks.size()), benchmark::Counter::kAvgThreads);
}

void BM_ScreensDense(benchmark::State& state) { answer(state, dense().space, dense().screens); }
void BM_ScreensMoe(benchmark::State& state) { answer(state, moe().space, moe().screens); }
void BM_SimulationsDense(benchmark::State& state) {
  answer(state, dense().space, dense().simulations);
}
void BM_SimulationsMoe(benchmark::State& state) { answer(state, moe().space, moe().simulations); }

void search_whole(benchmark::State& state, const search::Space& space) {
  using Clock = std::chrono::steady_clock;
  search::Proof proof;
  Clock::duration answering{};
  Clock::duration all{};
  for (auto _ : state) {
    search::Evaluator evaluator(space, h100(), {});
    search::Exhaustive method(space, {});
    std::vector<search::Tell> tells;
    const Clock::time_point began = Clock::now();
    for (;;) {
      const std::span<const search::Ask> asks = method.ask();
      if (asks.empty()) break;
      tells.clear();
      const Clock::time_point asked = Clock::now();
      for (const search::Ask& ask : asks) tells.push_back(evaluator.answer(ask));
      answering += Clock::now() - asked;
      method.tell(tells);
    }
    all += Clock::now() - began;
    proof = method.outcome().proof;
  }
  // What one thread does whatever their number is, if it does nothing of it beside the answers.
  state.counters["own_share"] = std::chrono::duration<double>(all - answering) / all;
  state.counters["candidates"] = static_cast<double>(proof.raw);
  state.counters["legal"] = static_cast<double>(proof.raw - proof.illegal);
  state.counters["simulated"] = static_cast<double>(proof.simulated);
}

void BM_SearchDense(benchmark::State& state) { search_whole(state, dense().space); }
void BM_SearchMoe(benchmark::State& state) { search_whole(state, moe().space); }

// 7e9 candidates, none of them visited that a rule removes.
void BM_CountDeepSeek(benchmark::State& state) {
  const search::Space space = space_of("deepseek-v3", "h100-sxm-128x8", {});
  for (auto _ : state) benchmark::DoNotOptimize(search::count(space).legal);
  state.counters["candidates"] = static_cast<double>(space.raw());
}
BENCHMARK(BM_ScreensDense)->Threads(1)->Threads(2);
BENCHMARK(BM_ScreensMoe)->Threads(1)->Threads(2);
BENCHMARK(BM_SimulationsDense)->Threads(1)->Threads(2);
BENCHMARK(BM_SimulationsMoe)->Threads(1)->Threads(2);
BENCHMARK(BM_SearchDense)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_SearchMoe)->Unit(benchmark::kMillisecond)->Iterations(1);
BENCHMARK(BM_CountDeepSeek)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
