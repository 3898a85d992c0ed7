// The core without catalogue, files or parsers: every input is written down here. Compiled natively
// and to WebAssembly; both must print the same numbers (scripts/check_wasm.sh).
//
// The part is made up, round numbers throughout; what it "measures" is too.
#include <cstddef>
#include <cstdio>
#include <memory>

#include <eratos/projection/projection.h>

namespace {

using eratos::Bytes;
using eratos::BytesPerSecond;
using eratos::DType;
using eratos::FlopsPerSecond;

eratos::hardware::AcceleratorSpec made_up_part() {
  eratos::hardware::AcceleratorSpec part;
  part.name = "made-up";
  part.vendor = "nobody";
  part.architecture = "none";
  part.compute_units = 128;
  part.clock_hz = 2e9;
  part.peak[static_cast<std::size_t>(DType::bf16)] = FlopsPerSecond{1e15};
  part.peak[static_cast<std::size_t>(DType::fp32)] = FlopsPerSecond{6e13};
  part.memory_nominal = part.memory_visible = eratos::gib(96);
  part.memory_bandwidth = BytesPerSecond{4e12};
  part.l2_cache = eratos::mib(64);
  part.scale_up = {.bandwidth = BytesPerSecond{4.5e11}, .domain_gpus = 8};
  part.host_link = BytesPerSecond{6e10};
  part.nic_per_gpu = BytesPerSecond{5e10};
  return part;
}

eratos::calibration::Calibration made_up_calibration() {
  eratos::calibration::Calibration known;
  known.name = known.part.part = "made-up";
  for (const DType format : {DType::bf16, DType::fp32}) {
    known.part.gemm[static_cast<std::size_t>(format)] = {.peak_fraction = 0.8,
                                                         .in_training = 0.8,
                                                         .tile = {1, 0.99, 0.97, 0.97},
                                                         .tile_overhead = eratos::microseconds(1.5),
                                                         .launch = eratos::microseconds(2.5),
                                                         .split_launch = eratos::microseconds(2)};
  }
  for (const bool backward : {false, true}) {
    known.part.attention.curves.push_back({.kernel = "flash2",
                                           .backward = backward,
                                           .rate = FlopsPerSecond{backward ? 5e14 : 6e14},
                                           .s0 = 350,
                                           .fill = 0.5});
  }
  known.part.attention.default_kernel = "flash2";
  known.part.elementwise = {.share = {0.85, 0.8, 0.4, 0.5, 0.5, 0.6},
                            .launch = eratos::microseconds(2.5)};
  known.part.network = {.share = 0.9, .alpha = eratos::microseconds(5), .gamma = 2e-8};
  return known;
}

// A dense layer, then layers of 64 experts, two of them visited.
eratos::model::Architecture made_up_model() {
  using namespace eratos::layer;
  const double hidden = 4096;
  const AttentionSpec attention{.hidden = hidden, .heads = 32, .kv_heads = 8};
  eratos::model::Architecture model;
  model.name = "made-up";
  model.hidden = hidden;
  model.vocab = 128000;
  model.blocks.push_back(
      {.mixer = attention, .feed_forward = MlpSpec{.hidden = hidden, .ffn = 14336}});
  model.blocks.push_back(
      {.mixer = attention,
       .feed_forward = MoeSpec{.hidden = hidden, .experts = 64, .top_k = 2, .ffn = 2048}});
  model.pattern.assign(32, 1);
  model.pattern.front() = 0;
  return model;
}

}  // namespace

int main() {
  eratos::job::JobSpec job;
  job.name = "core alone";
  job.model = made_up_model();
  job.cluster = eratos::hardware::derive_cluster(made_up_part(), 8, 8);
  job.framework.name = "made-up";
  job.framework.loss.fused_bytes_per_logit = 6;
  job.framework.loss.fused_traffic_per_logit = 30;
  job.framework.memory = {.context = Bytes{6e8}, .communicator = Bytes{1e8}};
  job.framework.host = {.per_kernel = eratos::microseconds(5)};
  job.batch = {.micro = 1, .global = 512, .sequence = 4096};
  job.parallel.tp = 2;
  job.parallel.pp = 4;
  job.parallel.vpp = 2;
  job.parallel.ep = 8;
  job.parallel.sequence_parallel = true;
  job.parallel.sharding = eratos::parallel::Sharding::zero1;

  const auto checked = std::make_unique<eratos::job::CheckedJob>();
  for (const eratos::Diagnostic& fault : eratos::job::check(job, *checked)) {
    std::fprintf(stderr, "%s\n", eratos::to_text(fault).c_str());
    return 2;
  }
  const auto workspace = eratos::projection::make_workspace();
  const auto calibration = made_up_calibration();
  const eratos::projection::Options options;
  const auto screen = eratos::projection::screen(*checked, calibration, options, *workspace);
  const auto answer = eratos::projection::project(*checked, calibration, options, *workspace);

  // Enough digits to tell any two doubles apart.
  std::printf("parameters.total %.17g\n", answer.parameters.total);
  std::printf("parameters.active %.17g\n", answer.parameters.active);
  std::printf("memory.device_peak_bytes %.17g\n", answer.memory.device_peak.value);
  std::printf("time.lower_bound_s %.17g\n", screen.step_lower_bound.value);
  std::printf("time.step_s %.17g\n", answer.time.step.value);
  std::printf("time.bubble_s %.17g\n", answer.time.bubble.value);
  std::printf("time.exposed_s %.17g\n", answer.time.exposed.total().value);
  std::printf("throughput.mfu %.17g\n", answer.throughput.mfu);
}
