#include "eratos/report/accuracy_picks.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "eratos/report/accuracy.h"

namespace eratos::report {
namespace {

AccuracyRow run(const std::string& id, double measured, double projected, bool fits = true) {
  AccuracyRow row;
  row.file = "runs.csv";
  row.id = id;
  row.layout = id;
  row.family = "toys";
  row.from = "mfu";
  row.but_layout = "toy on 8 gpus\nthe model";
  row.measured_speed = measured;
  row.projected_speed = projected;
  row.projected_tokens = projected * 1000;
  row.fits = fits;
  return row;
}

AccuracyRow ran_out(const std::string& id, double projected, bool said_to_fit) {
  AccuracyRow row = run(id, 0, 0, said_to_fit);
  row.file = "sweep.csv";
  row.from = "";
  row.outcome = "oom";
  row.projected_tokens = projected * 1000;
  return row;
}

// The header's example: 20 layouts, the slow ones alike.
std::vector<AccuracyRow> header_example() {
  std::vector<AccuracyRow> rows{run("r0", 100, 100), run("r1", 90, 110)};
  for (int i = 2; i < 20; ++i) rows.push_back(run("r" + std::to_string(i), 80, 80));
  return rows;
}

TEST(AccuracyPicks, OneThatIsKnownNotToFitChangesNothing) {
  std::vector<AccuracyRow> rows = header_example();
  rows.push_back(ran_out("o0", 120, false));
  const Picks p = pick_layouts(rows);
  ASSERT_EQ(p.groups.size(), 1U);
  const PickedGroup& g = p.groups[0];
  EXPECT_EQ(g.name, "toy on 8 gpus");
  EXPECT_EQ(g.n, 20);
  EXPECT_EQ(g.n_oom, 1);
  EXPECT_EQ(g.denied, 0);
  EXPECT_EQ(g.best, "r0");
  EXPECT_EQ(g.picked, "r1");
  EXPECT_FALSE(g.picked_oom);
  EXPECT_NEAR(g.regret, 1.0 / 9, 1e-15);
  EXPECT_EQ(g.top, 10);
  EXPECT_EQ(g.top_oom, 0);
}

TEST(AccuracyPicks, OneThatIsSaidToFitTakesAPlaceAndThePick) {
  std::vector<AccuracyRow> rows = header_example();
  rows.push_back(ran_out("o0", 120, true));
  rows.push_back(ran_out("o1", 70, true));  // behind the tenth
  const Picks p = pick_layouts(rows);
  ASSERT_EQ(p.groups.size(), 1U);
  EXPECT_EQ(p.groups[0].picked, "o0");
  EXPECT_TRUE(p.groups[0].picked_oom);
  EXPECT_NEAR(p.groups[0].regret, 1.0 / 9, 1e-15) << "of the measured ones";
  EXPECT_EQ(p.groups[0].top_oom, 1);
  EXPECT_EQ(p.picks_oom, 1);
  EXPECT_EQ(p.top, 10);
  EXPECT_EQ(p.top_oom, 1);
  EXPECT_EQ(p.rows_oom, 2);
  // As fast as the fastest measured: who is picked is luck.
  rows[20] = ran_out("o0", 110, true);
  EXPECT_TRUE(pick_layouts(rows).groups[0].picked_oom);
}

TEST(AccuracyPicks, AMeasuredOneThatIsSaidNotToFitIsNotPicked) {
  std::vector<AccuracyRow> rows = header_example();
  rows[1].fits = false;
  const PickedGroup g = pick_layouts(rows).groups.at(0);
  EXPECT_EQ(g.picked, "r0");
  EXPECT_EQ(g.denied, 1);
  EXPECT_EQ(g.regret, 0);
  rows[0].fits = false;  // the best: what is left is 100 / 80 - 1 behind
  EXPECT_NEAR(pick_layouts(rows).groups.at(0).regret, 0.25, 1e-15);
  for (AccuracyRow& row : rows) row.fits = false;
  EXPECT_TRUE(pick_layouts(rows).groups.empty());
  EXPECT_EQ(pick_layouts(rows).none, 1);
}

TEST(AccuracyPicks, FewerThanTwentyLayoutsAreNoGroup) {
  std::vector<AccuracyRow> rows = header_example();
  rows[19].layout = "r18";
  EXPECT_TRUE(pick_layouts(rows).groups.empty());
  rows[19].layout = "r19";
  rows[19].suspect = "stall";
  EXPECT_TRUE(pick_layouts(rows).groups.empty());
  // Of another model: not its layouts.
  rows[19].suspect = "";
  rows.push_back(ran_out("o0", 120, true));
  rows.back().but_layout = "toy on 8 gpus\nanother model";
  EXPECT_EQ(pick_layouts(rows).groups.at(0).n_oom, 0);
}

TEST(AccuracyPicks, ARunOfTwoFilesIsOne) {
  std::vector<AccuracyRow> rows = header_example();
  rows.push_back(ran_out("o0", 120, false));
  const std::vector<AccuracyRow> once = rows;
  for (AccuracyRow row : once) {
    row.file = "copy.csv";
    rows.push_back(row);
  }
  const Picks p = pick_layouts(rows);
  ASSERT_EQ(p.groups.size(), 1U);
  EXPECT_EQ(p.groups[0].n, 20);
  EXPECT_EQ(p.groups[0].n_oom, 1);
}

// One group with a run out of memory, one without.
TEST(AccuracyPicks, PlacesAreCountedApartWhereSomethingRanOut) {
  std::vector<AccuracyRow> rows = header_example();
  for (AccuracyRow row : header_example()) {
    row.id = "b" + row.id;
    row.but_layout = "bigger toy\nanother model";
    rows.push_back(row);
  }
  rows.push_back(ran_out("o0", 120, true));
  const Picks p = pick_layouts(rows);
  EXPECT_EQ(p.groups.size(), 2U);
  EXPECT_EQ(p.top, 20);
  EXPECT_EQ(p.top_oom, 1);
  EXPECT_EQ(p.top_beside_oom, 10);
}

TEST(AccuracyPicks, TextAndJsonSayThem) {
  std::vector<AccuracyRow> rows = header_example();
  rows.push_back(ran_out("o0", 120, true));
  const auto j = nlohmann::json::parse(accuracy_json(rows, "0"))["summary"]["picks"];
  EXPECT_EQ(j["n_groups"], 1);
  EXPECT_EQ(j["n_rows"], 20);
  EXPECT_EQ(j["n_oom"], 1);
  EXPECT_EQ(j["picked_oom"], 1);
  EXPECT_EQ(j["top_places"], 10);
  EXPECT_EQ(j["top_places_oom"], 1);
  EXPECT_NEAR(j["regret"]["median"].get<double>(), 1.0 / 9, 1e-9);
  EXPECT_EQ(j["groups"][0]["picked"], "o0");
  EXPECT_EQ(j["groups"][0]["picked_oom"], true);
  EXPECT_EQ(j["groups"][0]["n_said_not_to_fit"], 0);
  const std::string text = accuracy_text(rows, Style{});
  EXPECT_NE(text.find("picks of 20 layouts and more"), std::string::npos) << text;
  EXPECT_NE(text.find("1 of 10"), std::string::npos) << text;
}

}  // namespace
}  // namespace eratos::report
