// What pricing one op costs: `bench_kernel --benchmark_filter=Gemm`.
#include <benchmark/benchmark.h>

#include <cmath>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/collective/collective.h"
#include "eratos/kernel/kernel.h"

namespace {

using namespace eratos;

hardware::AcceleratorSpec part() {
  hardware::AcceleratorSpec spec;
  spec.compute_units = 148;
  spec.peak[static_cast<std::size_t>(DType::bf16)] = FlopsPerSecond{2250e12};
  spec.memory_bandwidth = BytesPerSecond{7.67e12};
  spec.scale_up = {BytesPerSecond{900e9}, 8, hardware::Topology::fabric_switch};
  spec.nic_per_gpu = BytesPerSecond{50e9};
  spec.vendor = "nvidia";
  spec.architecture = "sm100";
  return spec;
}

calibration::PartCalibration calibrated() {
  calibration::PartCalibration c;
  calibration::GemmCurve& curve = c.gemm[static_cast<std::size_t>(DType::bf16)];
  curve.peak_fraction = 0.73;
  curve.tile = {1, 0.99, 0.96, 0.64};
  curve.wide_tile = true;
  curve.memory = 0.72;
  curve.tile_overhead = microseconds(0.6);
  curve.launch = microseconds(2.01);
  curve.split_launch = microseconds(2.38);
  for (const char* kind : {"all_reduce", "all_gather", "reduce_scatter"}) {
    for (const int gpus : {2, 4, 8}) {
      c.collectives.push_back(
          {kind, "ring", gpus, microseconds(15), BytesPerSecond{700e9}, 5e-9, ""});
    }
  }
  c.network.share = 0.95;
  return c;
}

// Sizes as a training step has them: thousands of tokens, multiples of 128 across the model.
std::vector<ops::Gemm> shapes(bool grouped) {
  Rng rng(1);
  std::vector<ops::Gemm> all;
  for (int i = 0; i < 1024; ++i) {
    ops::Gemm g;
    g.m = 1024.0 * static_cast<double>(1 + rng.below(32));
    g.n = 128.0 * static_cast<double>(1 + rng.below(128));
    g.k = 128.0 * static_cast<double>(1 + rng.below(128));
    if (grouped) g.groups = static_cast<double>(2 + rng.below(63));
    all.push_back(g);
  }
  return all;
}

void price(benchmark::State& state, bool grouped, bool bound) {
  const kernel::KernelContext context =
      kernel::make_context(part(), calibrated(), {}, "", kernel::Setting::in_training);
  const std::vector<ops::Gemm> all = shapes(grouped);
  std::size_t i = 0;
  for (auto _ : state) {
    const ops::Gemm& g = all[i++ & 1023];
    benchmark::DoNotOptimize(bound ? kernel::lower_bound(g, context) : kernel::time_of(g, context));
  }
}

void BM_Gemm(benchmark::State& state) { price(state, false, false); }
void BM_GroupedGemm(benchmark::State& state) { price(state, true, false); }
void BM_GemmLowerBound(benchmark::State& state) { price(state, false, true); }
BENCHMARK(BM_Gemm);
BENCHMARK(BM_GroupedGemm);
BENCHMARK(BM_GemmLowerBound);

void BM_KernelContext(benchmark::State& state) {
  const hardware::AcceleratorSpec spec = part();
  const calibration::PartCalibration c = calibrated();
  for (auto _ : state) {
    benchmark::DoNotOptimize(kernel::make_context(spec, c, {}, "", kernel::Setting::in_training));
  }
}
BENCHMARK(BM_KernelContext);

void BM_AllReduce(benchmark::State& state) {
  const hardware::ClusterSpec cluster = hardware::derive_cluster(part(), 16, 8);
  const auto context = collective::make_context(cluster, calibrated(), {});
  const auto placement = collective::place({static_cast<int>(state.range(0)), 1}, cluster);
  double bytes = 1e6;
  for (auto _ : state) {
    bytes = bytes > 1e9 ? 1e6 : bytes * 1.1;
    benchmark::DoNotOptimize(
        collective::time_of(ops::CollectiveKind::all_reduce, Bytes{bytes}, placement, context));
  }
}
BENCHMARK(BM_AllReduce)->Arg(8)->Arg(128);

}  // namespace
