#include "eratos/report/accuracy.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace eratos::report {
namespace {

AccuracyRow row_with(const std::string& id, double measured, double projected) {
  AccuracyRow row;
  row.file = "runs.csv";
  row.id = id;
  row.family = "toys";
  row.framework = "megatron";
  row.gpu = "toy";
  row.from = "tokens_per_s_per_gpu";
  row.measured_speed = measured;
  row.projected_speed = projected;
  return row;
}

TEST(Accuracy, SummaryByHand) {
  const ErrorSummary s = summarise({-0.1, 0.0, 0.3});
  EXPECT_EQ(s.n, 3);
  EXPECT_DOUBLE_EQ(s.median_abs, 0.1);
  EXPECT_DOUBLE_EQ(s.p90_abs, 0.26);  // 0.1 + 0.8 * (0.3 - 0.1)
  EXPECT_DOUBLE_EQ(s.mean, 0.2 / 3);
  EXPECT_DOUBLE_EQ(s.within_10, 2.0 / 3);
  EXPECT_EQ(summarise(std::vector<double>{}).n, 0);
}

// Four runs of one job under three schedules, by hand: 100, 102, 110, 80 measured. 100 and 102 are
// too near to judge; of the other five pairs c, d are of one schedule, so four are judged.
TEST(Accuracy, SchedulesOfOneJobAreSetAgainstOneAnother) {
  std::vector<AccuracyRow> rows = {row_with("a", 100, 50), row_with("b", 102, 49),
                                   row_with("c", 110, 52), row_with("d", 80, 51)};
  const char* const schedules[] = {"1f1b", "zb-h1", "zbv", "zbv"};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].but_schedule = "the job";
    rows[i].schedule = schedules[i];
  }
  rows[0].measured_memory = gib(10);
  rows[0].projected_memory = gib(8);
  rows[2].measured_memory = gib(20);
  rows[2].projected_memory = gib(16.7);  // 2.0875 times: within 5% of twice
  rows[3].measured_memory = gib(30);
  rows[3].projected_memory = gib(26);  // 3.25 times: not within 5% of three times
  rows.push_back(row_with("other job", 500, 1));
  rows.back().but_schedule = "another job";
  rows.push_back(row_with("no pipeline", 500, 1));
  const Accuracy a = summarise(rows);
  ASSERT_EQ(a.schedules.size(), 1U);
  const SchedulePairs& pairs = a.schedules.at("toys");
  EXPECT_EQ(pairs.speed_pairs, 4);  // a-c, a-d, b-c, b-d
  EXPECT_EQ(pairs.ordered, 2);      // a-c, b-c: d is projected faster than a and b
  EXPECT_EQ(pairs.memory_pairs, 2);
  EXPECT_EQ(pairs.close, 1);
}

TEST(Accuracy, SuspectTimeIsApartAndItsMemoryCounts) {
  AccuracyRow good = row_with("good", 100, 90);
  AccuracyRow stalled = row_with("stalled", 10, 100);
  stalled.suspect = "stall";
  stalled.measured_memory = gib(10);
  stalled.projected_memory = gib(11);
  AccuracyRow slow = row_with("slow", 10, 20);
  slow.excluded = "stated MFU below 0.2";
  const Accuracy a = summarise({good, stalled, slow});
  EXPECT_EQ(a.all.throughput.n, 1);
  EXPECT_NEAR(a.all.throughput.mean, -0.1, 1e-15);
  EXPECT_EQ(a.suspect.n, 1);
  EXPECT_NEAR(a.suspect.mean, 9, 1e-15);
  EXPECT_EQ(a.all.memory.n, 1);
  EXPECT_NEAR(a.all.memory.mean, 0.1, 1e-12);
  EXPECT_EQ(a.by_family.at("toys").throughput.n, 1);
}

TEST(Accuracy, FeasibilityCountsBothWays) {
  const auto outcome = [](const std::string& measured, bool fits) {
    AccuracyRow row = row_with("x", 0, 0);
    row.from = "";
    row.outcome = measured;
    row.fits = fits;
    return row;
  };
  const Feasibility f =
      summarise({outcome("fits", true), outcome("fits", false), outcome("oom", true),
                 outcome("oom", false), outcome("oom", false)})
          .feasibility;
  EXPECT_EQ(f.n_fits, 2);
  EXPECT_EQ(f.false_oom, 1);
  EXPECT_EQ(f.n_oom, 3);
  EXPECT_EQ(f.false_fits, 1);
}

TEST(Accuracy, JsonKeepsEveryRow) {
  AccuracyRow skipped = row_with("skipped", 0, 0);
  skipped.from = "";
  skipped.skipped = "gbs not stated";
  const auto j = nlohmann::json::parse(accuracy_json({row_with("a", 100, 110), skipped}, "0"));
  ASSERT_EQ(j["rows"].size(), 2U);
  EXPECT_EQ(j["rows"][0]["status"], "ok");
  EXPECT_EQ(j["rows"][0]["measured"]["from"], "tokens_per_s_per_gpu");
  EXPECT_NEAR(j["rows"][0]["error"]["throughput"].get<double>(), 0.1, 1e-12);
  EXPECT_EQ(j["rows"][1]["status"], "skipped");
  EXPECT_EQ(j["rows"][1]["reason"], "gbs not stated");
  EXPECT_EQ(j["summary"]["skipped"]["by_reason"]["gbs not stated"], 1);
  EXPECT_EQ(j["summary"]["throughput"]["n"], 1);
}

// Runs that state no more than their MFU can be drawn beside those that state tokens.
TEST(Accuracy, JsonSaysProjectedTokensWhateverIsCompared) {
  AccuracyRow row = row_with("a", 0.4, 0.5);
  row.from = "mfu";
  row.projected_tokens = 1234;
  const auto projected = nlohmann::json::parse(accuracy_json({row}, "0"))["rows"][0]["projected"];
  EXPECT_EQ(projected["mfu"], 0.5);
  EXPECT_EQ(projected["tokens_per_s_per_gpu"], 1234);
}

TEST(Accuracy, CsvQuotesWhatNeedsIt) {
  AccuracyRow row = row_with("a", 100, 110);
  row.suspect = "late, and \"odd\"";
  const std::string csv = accuracy_csv({row});
  EXPECT_NE(csv.find(",\"late, and \"\"odd\"\"\","), std::string::npos) << csv;
}

}  // namespace
}  // namespace eratos::report
