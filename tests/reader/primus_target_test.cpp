// Primus's target-cluster files, every field.
#include "eratos/reader/primus_target.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eratos/reader/catalogue.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {
namespace {

Result<TuneTarget> read(const std::string& text) {
  return tune_target_of(*text::parse_yaml(text, "target.yaml"));
}

TEST(PrimusTarget, ReadsTheShippedFile) {
  const auto tree = text::parse_yaml_file(
      ERATOS_SOURCE_DIR
      "/examples/primus/examples/agents/tuning_agent/target_cluster_mi355x_4nodes.yaml");
  ASSERT_TRUE(tree);
  ASSERT_TRUE(is_tune_target(*tree));
  const TuneTarget t = *tune_target_of(*tree);
  EXPECT_EQ(t.name, "mi355x_4nodes");
  EXPECT_EQ(t.margin, 0.10);
  EXPECT_EQ(t.capacity.value, 288 * kGiB);
  EXPECT_EQ(t.budget.measurements, 12);
  EXPECT_EQ(t.budget.proposals, 0);
  EXPECT_EQ(t.budget.simulations, 0);
  EXPECT_EQ(t.budget.rounds, 0);
  EXPECT_EQ(t.budget.iterations, 30);  // not said: the original's default
  EXPECT_TRUE(t.has_gpu);
  EXPECT_TRUE(t.axes.empty());
}

TEST(PrimusTarget, EveryFieldIsHonoured) {
  const TuneTarget t = *read(
      "target_cluster: {name: a, num_nodes: 2, gpu_arch: mi300x, gpu_clock_mhz: 1050}\n"
      "available_for_benchmark: {has_gpu: true, benchmark_gpus: 4, benchmark_arch: mi300x}\n"
      "optimization:\n"
      "  objective: tokens_per_s_per_gpu\n"
      "  hbm_capacity_gb: 96\n"
      "  budget: {max_proposals: 1, max_perf_calls: 2, max_benchmark_calls: 3, max_rounds: 4,\n"
      "           max_rlm_iterations: 5}\n"
      "  axes: {tp: false, pp_schedule: true, gbs: true, overlap_grad_reduce: false}\n"
      "agent: {llm: {provider: p, model: m, api_key: k, base_url: u, timeout: 7, max_tokens: 8},\n"
      "        prompt_extras: [one, two]}\n");
  EXPECT_EQ(t.axes, (std::vector<std::string>{"tp=job", "gbs=every", "schedule=all",
                                              "overlap.grad_reduce=job"}));
  EXPECT_EQ(t.benchmark_gpus, 4);
  EXPECT_EQ(t.benchmark_arch, "mi300x");
  EXPECT_EQ(t.budget.iterations, 5);
  EXPECT_EQ(t.llm.model, "m");
  EXPECT_EQ(t.llm.api_key, "k");
  EXPECT_EQ(t.llm.base_url, "u");
  EXPECT_EQ(t.llm.timeout_s, 7);
  EXPECT_EQ(t.llm.max_tokens, 8);
  EXPECT_EQ(t.prompt_extras, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(t.margin, 0.10);
  const hardware::ClusterSpec whole = *load_cluster("mi300x-2x8");
  const hardware::ClusterSpec less = *with_target(whole, t, {});
  EXPECT_EQ(less.accelerator.memory_visible.value, 96 * kGiB);
  EXPECT_NEAR(less.accelerator.peak_of(DType::bf16) / whole.accelerator.peak_of(DType::bf16),
              1.05e9 / whole.accelerator.clock_hz, 1e-12);
}

TEST(PrimusTarget, EveryFaultAtOnce) {
  const auto bad = read(
      "target_cluster: {name: a}\n"
      "optimization: {objective: latency, memory_safety_margin: 2, budgets: {}, axes: {tpp: "
      "true}}\n");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().size(), 4U);
  const hardware::ClusterSpec part = *load_cluster("h100-sxm-1x8");
  TuneTarget t;
  t.capacity = Bytes{192 * kGiB};
  EXPECT_FALSE(with_target(part, t, {}));
}

}  // namespace
}  // namespace eratos::reader
