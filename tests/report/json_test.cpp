#include "eratos/report/json.h"

#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "eratos/text/dump.h"
#include "hand_filled.h"

namespace eratos::report {
namespace {

using nlohmann::json;

TEST(ReportJson, NumbersAreShortAndExact) {
  EXPECT_EQ(text::to_json(number(4.0)), "4");
  EXPECT_EQ(text::to_json(number(0.1)), "0.1");
  EXPECT_EQ(text::to_json(number(-3.0)), "-3");
  EXPECT_EQ(text::to_json(number(671026419200.0)), "671026419200");
  EXPECT_EQ(text::to_json(number(std::numeric_limits<double>::infinity())), "null");
  const double third = 1.0 / 3.0;
  EXPECT_EQ(json::parse(text::to_json(number(third))).get<double>(), third);
}

TEST(ReportJson, ProjectHasTheAgreedKeys) {
  const HandFilled hand;
  const json j = json::parse(project_json(hand.answer));
  EXPECT_EQ(j["schema"], 1);
  EXPECT_EQ(j["eratos"], "0.0.0");
  EXPECT_EQ(j["job"]["model"], "toy-8b");
  EXPECT_EQ(j["parameters"]["total"], 8030261248);
  EXPECT_EQ(j["parameters"]["per_stage"].size(), 2U);

  const json& m = j["memory"];
  EXPECT_EQ(m["fits"], true);
  EXPECT_EQ(m["capacity_bytes"], 85899345920);  // 80 GiB
  EXPECT_EQ(m["peak_bytes"], m["allocated_peak_bytes"]);
  EXPECT_EQ(m["device_peak_bytes"], 61740154880);  // 57.5 GiB
  ASSERT_EQ(m["stages"].size(), 2U);
  EXPECT_EQ(m["stages"][1]["stage"], 1);
  EXPECT_EQ(m["stages"][1]["peak_bytes"], 37580963840);  // 35 GiB
  EXPECT_EQ(m["stages"][0]["in_flight_micro_batches"], 2);

  const json& t = j["time"];
  EXPECT_EQ(t["step_s"], 10);
  const double parts = t["compute_s"].get<double>() + t["bubble_s"].get<double>() +
                       t["optimizer_s"].get<double>() + t["launch_s"].get<double>() +
                       t["exposed"]["tp_s"].get<double>() + t["exposed"]["cp_s"].get<double>() +
                       t["exposed"]["ep_s"].get<double>() + t["exposed"]["pp_s"].get<double>() +
                       t["exposed"]["dp_s"].get<double>();
  EXPECT_DOUBLE_EQ(parts, t["step_s"].get<double>());
  EXPECT_EQ(t["bubble_ratio"], 0.1);
  EXPECT_EQ(t["by_module_s"].size(), 4U);  // modules without time are left out
  EXPECT_EQ(t["by_module_s"]["mlp_in"], 3);

  EXPECT_EQ(j["throughput"]["tokens_per_s_per_gpu"], 6553.6);
  EXPECT_EQ(j["throughput"]["model_tflops_per_gpu"], 400);
  EXPECT_EQ(j["confidence"]["step_s"], json::array({9, 11.5}));
  EXPECT_EQ(j["provenance"]["defaults_filled"], 3);
  EXPECT_EQ(j["warnings"][0]["code"], "borrowed");
}

TEST(ReportJson, EqualAnswersAreEqualBytes) {
  const HandFilled a;
  const HandFilled b;
  EXPECT_EQ(project_json(a.answer), project_json(b.answer));
}

TEST(ReportJson, MemoryHasNoTime) {
  const HandFilled hand;
  const json j = json::parse(memory_json(hand.answer));
  EXPECT_FALSE(j.contains("time"));
  EXPECT_FALSE(j.contains("throughput"));
  EXPECT_EQ(j["memory"]["saved_by_module_bytes"]["norm"], 1073741824);
}

TEST(ReportJson, ExplanationKeepsItsTree) {
  projection::Explanation leaf{"hidden", "4096", "", "config.json:3", "input", {}};
  projection::Explanation root{"time.step_s", "1.5 s", "a + b", "", "analytic", {leaf}};
  const json j = json::parse(explanation_json(root, "0.0.0"));
  EXPECT_EQ(j["explanation"]["inputs"][0]["source"], "config.json:3");
  EXPECT_FALSE(j["explanation"]["inputs"][0].contains("formula"));
}

}  // namespace
}  // namespace eratos::report
