// Schedules: order, simulation, peaks and bounds. Times are of one real job: Llama 3.1 8B, bf16,
// one sequence of 8,192 tokens a micro-batch, at 400 Tflop/s, embedding and output on the ends.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <new>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/schedule/bounds.h"
#include "eratos/schedule/peak.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"
#include "eratos/schedule/steady.h"

namespace {
std::atomic<std::int64_t> allocations{0};
}

// Not inlined: GCC 12 would take malloc and free inside them for a mismatch with new and delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

using namespace eratos::schedule;
using eratos::Picoseconds;

struct Case {
  const Schedule& schedule;
  Shape shape;
};

Case case_of(int index) {
  switch (index) {
    case 0:
      return {schedules::one_f_one_b, {16, 1, 256}};
    case 1:
      return {schedules::interleaved_one_f_one_b, {16, 4, 128}};
    case 2:
      return {schedules::zbv, {16, 2, 256}};
    default:
      return {schedules::interleaved_one_f_one_b, {64, 8, 4096}};
  }
}

const char* const kNames[] = {"1f1b p16 m256", "interleaved p16 v4 m128", "zbv p16 m256",
                              "interleaved p64 v8 m4096"};

struct Tables {
  std::vector<ChunkCost> chunks;
  std::vector<LinkCost> links;
};

// Layers of 218,112,000 parameters: 2 flops a parameter and token forward, 4 backward; embedding
// and output 525,336,576 parameters, of which the output multiplies.
// Source: Meta, Llama 3.1 8B config.json (hidden 4096, ffn 14336, kv heads 8, vocabulary 128256).
Tables real_job(const Shape& s) {
  constexpr double kLayers = 32;
  constexpr double kTokens = 8192;
  constexpr double kRate = 400e12;
  const auto ps = [&](double parameters) {
    return static_cast<Picoseconds>(parameters * 2 * kTokens / kRate * 1e12);
  };
  Tables t;
  for (int slot = 0; slot < slot_count(s); ++slot) {
    double parameters = 218112000.0 * kLayers / slot_count(s);
    if (slot == slot_count(s) - 1) parameters += 525336576.0;
    const Picoseconds f = ps(parameters);
    t.chunks.push_back({.forward = f,
                        .backward = 2 * f,
                        .held = 100 << 20,
                        .input_gradient = f,
                        .weight_gradient = f,
                        .kept = 50 << 20});
    t.links.push_back({1342177, 1342177});  // 8192 x 4096 x 2 bytes at 50 GB/s
  }
  return t;
}

Tables random_job(const Shape& s, std::uint64_t seed) {
  eratos::Rng rng(seed);
  Tables t;
  for (int slot = 0; slot < slot_count(s); ++slot) {
    const auto f = static_cast<Picoseconds>(1000000 + rng.below(1000000));
    const auto b = static_cast<Picoseconds>(f / 2 + rng.below(1000000));
    const auto w = static_cast<Picoseconds>(f / 2 + rng.below(1000000));
    t.chunks.push_back({.forward = f,
                        .backward = b + w,
                        .held = 100 << 20,
                        .input_gradient = b,
                        .weight_gradient = w,
                        .kept = 50 << 20});
    t.links.push_back(
        {static_cast<Picoseconds>(rng.below(200000)), static_cast<Picoseconds>(rng.below(200000))});
  }
  return t;
}

// Of this thread, so that a busy machine does not make a set of times look slow.
double seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

void per_action(benchmark::State& state, const Case& c) {
  Order order;
  c.schedule.generate(c.shape, order);
  const auto actions = static_cast<double>(order.actions.size());
  state.counters["actions"] = actions;
  state.counters["s_per_action"] = benchmark::Counter(
      actions, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// The times that a schedule is held to: from nothing to a Timing, the order included.
void simulate_fast_from_shape(benchmark::State& state) {
  const Case c = case_of(static_cast<int>(state.range(0)));
  const Tables t = real_job(c.shape);
  const Costs costs{t.chunks, t.links, state.range(1) == 0 ? Sends::overlapped : Sends::blocking};
  Order order;
  Workspace w;
  Timing timing;
  const auto once = [&] {
    if (!simulate_fast(c.schedule, c.shape, costs, order, w, timing)) std::abort();
    benchmark::DoNotOptimize(timing.makespan);
  };
  once();
  const std::int64_t before = allocations.load();
  const double begin = seconds();
  for (auto _ : state) once();
  const double took = seconds() - begin;
  const std::int64_t allocated = allocations.load() - before;
  const auto runs = static_cast<double>(state.iterations());
  state.counters["us"] = took * 1e6 / runs;
  state.counters["allocations"] = static_cast<double>(allocated) / runs;
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(simulate_fast_from_shape)
    ->ArgNames({"case", "blocking"})
    ->ArgsProduct({{0, 1, 2, 3}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);

void slowest_of_random(benchmark::State& state) {
  const Case c = case_of(static_cast<int>(state.range(0)));
  Order order;
  Workspace w;
  Timing timing;
  double slowest = 0;
  double sum = 0;
  for (auto _ : state) {
    for (std::int64_t seed = 0; seed < state.range(1); ++seed) {
      const Tables t = random_job(c.shape, static_cast<std::uint64_t>(seed));
      const Costs costs{t.chunks, t.links, Sends::overlapped};
      // The best of three runs, so that an interrupt is not taken for a slow set.
      double best = 1e9;
      for (int run = 0; run < 3; ++run) {
        const double begin = seconds();
        if (!simulate_fast(c.schedule, c.shape, costs, order, w, timing)) std::abort();
        best = std::min(best, seconds() - begin);
      }
      slowest = std::max(slowest, best);
      sum += best;
    }
  }
  state.counters["slowest_us"] = slowest * 1e6;
  state.counters["mean_us"] = sum * 1e6 / static_cast<double>(state.range(1));
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(slowest_of_random)
    ->ArgNames({"case", "sets"})
    ->Args({0, 1000})
    ->Args({1, 1000})
    ->Args({2, 1000})
    ->Args({3, 20})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond);

// The whole order, action by action.
void order_and_simulate(benchmark::State& state) {
  const Case c = case_of(static_cast<int>(state.range(0)));
  const Tables t = real_job(c.shape);
  const Costs costs{t.chunks, t.links, state.range(1) == 0 ? Sends::overlapped : Sends::blocking};
  Order order;
  Workspace w;
  Timing timing;
  const auto once = [&] {
    c.schedule.generate(c.shape, order);
    if (!simulate(order, costs, w, timing)) std::abort();
    benchmark::DoNotOptimize(timing.makespan);
  };
  once();
  const std::int64_t before = allocations.load();
  for (auto _ : state) once();
  state.counters["allocations"] =
      static_cast<double>(allocations.load() - before) / static_cast<double>(state.iterations());
  state.SetLabel(kNames[state.range(0)]);
  per_action(state, c);
}
BENCHMARK(order_and_simulate)
    ->ArgNames({"case", "blocking"})
    ->ArgsProduct({{0, 1, 2}, {0, 1}})
    ->Args({3, 0})
    ->Unit(benchmark::kMicrosecond);

void order_only(benchmark::State& state) {
  const Case c = case_of(static_cast<int>(state.range(0)));
  Order order;
  for (auto _ : state) {
    c.schedule.generate(c.shape, order);
    benchmark::DoNotOptimize(order.actions.data());
  }
  state.SetLabel(kNames[state.range(0)]);
  per_action(state, c);
}
BENCHMARK(order_only)->Arg(0)->Arg(1)->Arg(2)->Arg(3)->Unit(benchmark::kMicrosecond);

void peaks_whole_order(benchmark::State& state) {
  const Case c = case_of(static_cast<int>(state.range(0)));
  const Tables t = real_job(c.shape);
  Order order;
  Peaks peaks;
  c.schedule.generate(c.shape, order);
  for (auto _ : state) {
    find_peaks(order, t.chunks, {}, peaks);
    benchmark::DoNotOptimize(peaks.ranks.data());
  }
  state.SetLabel(kNames[state.range(0)]);
  per_action(state, c);
}
BENCHMARK(peaks_whole_order)->Arg(0)->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond);

// What screen() needs: bounds, and peaks without ordering every micro-batch.
void screen(benchmark::State& state) {
  const Case c = case_of(static_cast<int>(state.range(0)));
  const Tables t = real_job(c.shape);
  const Costs costs{t.chunks, t.links, Sends::overlapped};
  Order order;
  Peaks peaks;
  const auto once = [&] {
    if (!find_peaks(c.schedule, c.shape, costs, order, peaks)) std::abort();
    Bounds b = bounds(c.schedule, c.shape, costs);
    benchmark::DoNotOptimize(b);
  };
  once();
  const std::int64_t before = allocations.load();
  for (auto _ : state) once();
  state.counters["allocations"] =
      static_cast<double>(allocations.load() - before) / static_cast<double>(state.iterations());
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(screen)->Arg(0)->Arg(1)->Arg(2)->Arg(3)->Unit(benchmark::kMicrosecond);

void closed_forms(benchmark::State& state) {
  const Case c = case_of(static_cast<int>(state.range(0)));
  const Tables t = real_job(c.shape);
  const Costs costs{t.chunks, t.links, Sends::overlapped};
  for (auto _ : state) {
    Bounds b = bounds(c.schedule, c.shape, costs);
    benchmark::DoNotOptimize(b);
    for (int rank = 0; rank < c.shape.pp; ++rank) {
      auto n = in_flight(c.schedule, c.shape, rank);
      benchmark::DoNotOptimize(n);
    }
  }
  state.SetLabel(kNames[state.range(0)]);
}
BENCHMARK(closed_forms)->Arg(0)->Arg(1)->Unit(benchmark::kNanosecond);

}  // namespace
