#include "eratos/reader/primus_target.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include <fmt/format.h>

#include "eratos/reader/fields.h"
#include "eratos/reader/hardware_file.h"
#include "eratos/reader/ranges.h"

namespace eratos::reader {

namespace {

using text::Node;

constexpr double kGib = 1024.0 * 1024 * 1024;
constexpr double kMega = 1e6;
// Capacities in files are rounded to whole GiB, a part's visible memory is not.
constexpr double kRounding = 1.01;

struct AxisWord {
  std::string_view key;   // of the file
  std::string_view axis;  // of `eratos search`
  // What frees it where a search leaves it to the job unless it is named.
  std::string_view freed;
};
constexpr AxisWord kAxisWords[] = {
    {"tp", "tp", "all"},
    {"pp", "pp", "all"},
    {"ep", "ep", "all"},
    {"cp", "cp", "all"},
    {"mbs", "mbs", "all"},
    {"gbs", "gbs", "every"},
    {"vpp", "vpp", "all"},
    {"pp_schedule", "schedule", "all"},
    {"recompute", "recompute", "all"},
    {"overlap_grad_reduce", "overlap.grad_reduce", "all"},
};

constexpr Range kRanges[] = {
    {"optimization.memory_safety_margin", 0, 0.9, ""},
    {"optimization.hbm_capacity_gb", 1, 1e5, "GiB"},
    {"target_cluster.gpu_clock_mhz", 1, 1e5, "MHz"},
    {"available_for_benchmark.benchmark_gpus", 0, 1e6, ""},
    {"optimization.budget.max_proposals", 0, 1e6, ""},
    {"optimization.budget.max_perf_calls", 0, 1e6, ""},
    {"optimization.budget.max_benchmark_calls", 0, 1e6, ""},
    {"optimization.budget.max_rounds", 0, 1e6, ""},
    {"optimization.budget.max_rlm_iterations", 0, 1e6, ""},
};

void read_axes(Fields& axes, std::vector<std::string>& out) {
  for (const AxisWord& word : kAxisWords) {
    bool free = true;
    if (!axes.read(word.key, free)) continue;
    out.push_back(fmt::format("{}={}", word.axis, free ? word.freed : "job"));
  }
  axes.finish();
}

}  // namespace

bool is_tune_target(const Node& root) {
  const Node* target = root.find("target_cluster");
  return target != nullptr && target->is_mapping();
}

Result<TuneTarget> tune_target_of(const Node& root) {
  TuneTarget out;
  Diagnostics bad;
  double clock_mhz = 0;
  double capacity_gib = 0;
  Fields top(&root, "", bad);
  Fields cluster(top.get("target_cluster"), "target_cluster", bad);
  cluster.read("name", out.name);
  cluster.read("gpu_clock_mhz", clock_mhz);
  for (const char* key : {"num_nodes", "gpus_per_node", "gpu_arch", "hardware_config"}) {
    cluster.skip(key);  // primus_cluster.h
  }
  cluster.finish();
  top.skip("hardware_config");
  Fields bench(top.get("available_for_benchmark"), "available_for_benchmark", bad);
  bench.read("has_gpu", out.has_gpu);
  bench.read("benchmark_gpus", out.benchmark_gpus);
  bench.read("benchmark_arch", out.benchmark_arch);
  bench.finish();
  Fields optimization(top.get("optimization"), "optimization", bad);
  optimization.read("objective", out.objective);
  optimization.read("memory_safety_margin", out.margin);
  optimization.read("hbm_capacity_gb", capacity_gib);
  Fields budget(optimization.get("budget"), "optimization.budget", bad);
  budget.read("max_proposals", out.budget.proposals);
  budget.read("max_perf_calls", out.budget.simulations);
  budget.read("max_benchmark_calls", out.budget.measurements);
  budget.read("max_rounds", out.budget.rounds);
  budget.read("max_rlm_iterations", out.budget.iterations);
  budget.finish();
  Fields axes(optimization.get("axes"), "optimization.axes", bad);
  read_axes(axes, out.axes);
  optimization.finish();
  Fields agent(top.get("agent"), "agent", bad);
  Fields llm(agent.get("llm"), "agent.llm", bad);
  llm.read("provider", out.llm.provider);
  llm.read("model", out.llm.model);
  llm.read("api_key", out.llm.api_key);
  llm.read("base_url", out.llm.base_url);
  llm.read("timeout", out.llm.timeout_s);
  llm.read("max_tokens", out.llm.max_tokens);
  llm.finish();
  agent.read("prompt_extras", out.prompt_extras);
  agent.finish();
  top.finish();
  check_ranges(root, "", kRanges, bad);
  if (const Node* said = text::find_at(root, "optimization.objective");
      said != nullptr && out.objective != "tokens_per_s_per_gpu") {
    bad.push_back(
        {.where = said->where(),
         .message = fmt::format("objective `{}` is not one that tuning knows", out.objective),
         .cure = "tokens_per_s_per_gpu is; `eratos search --objective` has others",
         .field = "optimization.objective"});
  }
  if (!bad.empty()) return faults(std::move(bad));
  out.clock_hz = clock_mhz * kMega;
  out.capacity = Bytes{capacity_gib * kGib};
  return out;
}

Result<hardware::ClusterSpec> with_target(const hardware::ClusterSpec& cluster,
                                          const TuneTarget& target, const Location& at) {
  hardware::ClusterSpec out = cluster;
  hardware::AcceleratorSpec& part = out.accelerator;
  if (target.capacity.value > 0) {
    if (target.capacity.value > part.memory_visible.value * kRounding) {
      return fault({.where = at,
                    .message = fmt::format("hbm_capacity_gb is {:.1f}, and {} has {:.1f} GiB",
                                           target.capacity.value / kGib, part.name,
                                           part.memory_visible.value / kGib),
                    .cure = "say what the part has, or less"});
    }
    part.memory_visible = min(part.memory_visible, target.capacity);
  }
  if (target.clock_hz > 0 && part.clock_hz > 0) {
    const double ratio = target.clock_hz / part.clock_hz;
    const std::string factor = fmt::format("x{}", ratio);
    auto changed = with_hardware(out, "compute", factor);
    if (!changed) return faults(changed.error());
    out = *std::move(changed);
  }
  return out;
}

}  // namespace eratos::reader
