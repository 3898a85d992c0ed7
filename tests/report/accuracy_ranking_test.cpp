#include "eratos/report/accuracy_ranking.h"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "eratos/report/accuracy.h"

namespace eratos::report {
namespace {

// Runs r0, r1, ... of one group.
std::vector<AccuracyRow> group(const std::vector<std::pair<double, double>>& measured_projected,
                               const std::string& name = "toy on 8 gpus") {
  std::vector<AccuracyRow> rows;
  for (const auto& [measured, projected] : measured_projected) {
    AccuracyRow row;
    row.file = "runs.csv";
    row.id = "r" + std::to_string(rows.size());
    row.layout = row.id;
    row.family = "toys";
    row.from = "tokens_per_s_per_gpu";
    row.but_layout = name + "\nthe model";
    row.measured_speed = measured;
    row.projected_speed = projected;
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<AccuracyRow> header_example() {
  return group({{100, 100}, {90, 110}, {80, 80}, {70, 70}, {60, 60}});
}

TEST(AccuracyRanking, CorrelationByHand) {
  // Without ties it is 1 - 6 sum(d^2) / (n (n^2 - 1)).
  EXPECT_NEAR(rank_correlation({1, 2, 3}, {10, 200, 3000}), 1, 1e-15);
  EXPECT_NEAR(rank_correlation({1, 2, 3}, {3, 2, 1}), -1, 1e-15);
  EXPECT_NEAR(rank_correlation({5, 4, 3, 2, 1}, {4, 5, 3, 2, 1}), 0.9, 1e-15);
  // Ranks 1, 2.5, 2.5, 4 and 1, 3, 2, 4: 1.5^2 + 0.5*0 + 0.5*0 + 1.5^2 over sqrt(4.5 * 5).
  EXPECT_NEAR(rank_correlation({1, 2, 2, 3}, {10, 30, 20, 40}), 4.5 / 4.743416490252569, 1e-12);
  EXPECT_EQ(rank_correlation({1, 2, 3}, {7, 7, 7}), 0);
}

TEST(AccuracyRanking, RegretByHand) {
  const auto ranking = rank_layouts(header_example());
  ASSERT_EQ(ranking.size(), 1U);
  const Ranking& r = ranking.at("toys");
  ASSERT_EQ(r.groups.size(), 1U);
  EXPECT_EQ(r.rows, 5);
  EXPECT_EQ(r.groups[0].name, "toy on 8 gpus");
  EXPECT_EQ(r.groups[0].best, "r0");
  EXPECT_EQ(r.groups[0].picked, "r1");
  EXPECT_NEAR(r.groups[0].regret, 1.0 / 9, 1e-15);
  EXPECT_NEAR(r.groups[0].correlation, 0.9, 1e-15);
}

TEST(AccuracyRanking, RegretOfATieIsTheMean) {
  // Of 100, 80 and 50 measured, all projected 9: (0 + 0.25 + 1) / 3.
  const auto r = rank_layouts(group({{100, 9}, {80, 9}, {50, 9}, {40, 8}, {30, 7}})).at("toys");
  EXPECT_NEAR(r.groups[0].regret, 1.25 / 3, 1e-15);
}

TEST(AccuracyRanking, WhoIsNotRanked) {
  std::vector<AccuracyRow> rows = header_example();
  ASSERT_EQ(rank_layouts(rows).size(), 1U);
  const auto with = [&](auto change) {
    std::vector<AccuracyRow> changed = rows;
    change(changed[4]);
    return rank_layouts(changed).size();
  };
  EXPECT_EQ(with([](AccuracyRow& r) { r.suspect = "stall"; }), 0U);
  EXPECT_EQ(with([](AccuracyRow& r) { r.excluded = "stated MFU below 0.2"; }), 0U);
  EXPECT_EQ(with([](AccuracyRow& r) { r.skipped = "gbs not stated"; }), 0U);
  EXPECT_EQ(with([](AccuracyRow& r) { r.measured_speed = 0; }), 0U);
  EXPECT_EQ(with([](AccuracyRow& r) { r.but_layout += " another"; }), 0U);
  EXPECT_EQ(with([](AccuracyRow& r) { r.file = "other.csv"; }), 0U);
  EXPECT_EQ(with([](AccuracyRow& r) { r.from = "mfu"; }), 0U);
  EXPECT_EQ(with([](AccuracyRow& r) { r.layout = "r0"; }), 0U) << "a job run twice is one layout";
  EXPECT_EQ(rank_layouts(group({{5, 1}, {5, 2}, {5, 3}, {5, 4}, {5, 5}})).size(), 0U)
      << "equally fast: nothing to choose";
}

// Two groups, regrets 1/9 and 0, correlations 0.9 and 1: halves and tenths between them.
TEST(AccuracyRanking, FamilyByHand) {
  std::vector<AccuracyRow> rows = header_example();
  for (AccuracyRow& row : group({{5, 50}, {4, 40}, {3, 30}, {2, 20}, {1, 10}}, "another")) {
    rows.push_back(std::move(row));
  }
  const Accuracy a = summarise(rows);
  const Ranking& r = a.ranking.at("toys");
  EXPECT_EQ(r.groups.size(), 2U);
  EXPECT_EQ(r.rows, 10);
  EXPECT_NEAR(r.regret_median, 0.5 / 9, 1e-15);
  EXPECT_NEAR(r.regret_p90, 0.9 / 9, 1e-15);
  EXPECT_NEAR(r.regret_worst, 1.0 / 9, 1e-15);
  EXPECT_NEAR(r.correlation_median, 0.95, 1e-15);
  EXPECT_NEAR(r.correlation_p10, 0.91, 1e-15);
  EXPECT_NEAR(r.correlation_least, 0.9, 1e-15);

  const auto j = nlohmann::json::parse(accuracy_json(rows, "0"))["summary"]["ranking"]["toys"];
  EXPECT_EQ(j["n_groups"], 2);
  EXPECT_EQ(j["n_rows"], 10);
  EXPECT_NEAR(j["regret"]["p90"].get<double>(), 0.1, 1e-9);
  EXPECT_NEAR(j["rank_correlation"]["least"].get<double>(), 0.9, 1e-9);
  EXPECT_EQ(j["groups"][1]["name"], "toy on 8 gpus");
  EXPECT_EQ(j["groups"][1]["picked"], "r1");
  const std::string text = accuracy_text(rows, Style{});
  EXPECT_NE(text.find("layouts of one job, ranked"), std::string::npos) << text;
  EXPECT_NE(text.find("5.6%  10.0%  11.1%"), std::string::npos) << text;
}

// Bands of 0.9 to 1.2 times the projected step. Speeds 100 measured: the measured step is the
// projected speed / 100 of the projected step.
TEST(AccuracyBands, StepByHand) {
  std::vector<AccuracyRow> rows = group({{100, 90}, {100, 89}, {100, 120}, {100, 121}, {100, 100}});
  for (AccuracyRow& row : rows) row.step_band = {0.9, 1.2};
  rows.push_back(rows[1]);
  rows.back().suspect = "stall";
  EXPECT_EQ(rows[0].step_in_band(), true);
  EXPECT_EQ(rows[1].step_in_band(), false);
  EXPECT_EQ(rows[2].step_in_band(), true);
  EXPECT_EQ(rows[3].step_in_band(), false);
  EXPECT_EQ(rows[0].memory_in_band(), std::nullopt);
  const Accuracy a = summarise(rows);
  ASSERT_TRUE(a.by_family.at("toys").throughput.in_band.has_value());
  EXPECT_NEAR(*a.by_family.at("toys").throughput.in_band, 0.6, 1e-15) << "the suspect is apart";
  EXPECT_FALSE(a.all.memory.in_band.has_value());
  EXPECT_FALSE(a.suspect.in_band.has_value());

  const auto j = nlohmann::json::parse(accuracy_json(rows, "0"));
  EXPECT_NEAR(j["summary"]["by_family"]["toys"]["throughput"]["in_band"].get<double>(), 0.6, 1e-9);
  EXPECT_EQ(j["rows"][1]["in_band"]["step"], false);
  EXPECT_EQ(j["rows"][1]["in_band"].count("memory"), 0U);
  EXPECT_NE(accuracy_text(rows, Style{}).find("60.0%"), std::string::npos);
}

// Projected 10 GiB with a band of 0.8 to 1.1: 8 to 11 GiB measured are inside.
TEST(AccuracyBands, MemoryByHand) {
  std::vector<AccuracyRow> rows = group({{0, 0}, {0, 0}, {0, 0}, {0, 0}});
  const double measured[] = {7.9, 8, 11, 11.1};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].memory_band = {0.8, 1.1};
    rows[i].projected_memory = gib(10);
    rows[i].measured_memory = gib(measured[i]);
  }
  EXPECT_EQ(rows[0].memory_in_band(), false);
  EXPECT_EQ(rows[1].memory_in_band(), true);
  EXPECT_EQ(rows[2].memory_in_band(), true);
  EXPECT_EQ(rows[3].memory_in_band(), false);
  EXPECT_EQ(summarise(rows).all.memory.in_band, 0.5);
}

}  // namespace
}  // namespace eratos::report
