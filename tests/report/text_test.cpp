#include "eratos/report/text.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "eratos/report/annotated_yaml.h"
#include "eratos/report/check.h"
#include "eratos/report/quantity.h"
#include "eratos/text/yaml.h"
#include "hand_filled.h"

namespace eratos::report {
namespace {

// Compares with tests/report/golden/NAME; ERATOS_UPDATE_GOLDEN=1 writes it anew.
void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(ERATOS_SOURCE_DIR) + "/tests/report/golden/" + name;
  if (std::getenv("ERATOS_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path, std::ios::binary) << text;
    return;
  }
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in.good()) << path;
  std::ostringstream golden;
  golden << in.rdbuf();
  EXPECT_EQ(text, golden.str());
}

std::size_t widest_line(const std::string& text) {
  std::size_t most = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) most = std::max(most, width(line));
  return most;
}

TEST(ReportText, Project) {
  const HandFilled hand;
  const std::string text = project_text(hand.answer, {});
  expect_golden("project.txt", text);
  EXPECT_LE(widest_line(text), 100U);
}

TEST(ReportText, Memory) {
  const HandFilled hand;
  const std::string text = memory_text(hand.answer, {});
  expect_golden("memory.txt", text);
  EXPECT_LE(widest_line(text), 100U);
}

TEST(ReportText, ColourIsOnlyPaint) {
  const HandFilled hand;
  std::string coloured = project_text(hand.answer, {.colour = true});
  EXPECT_NE(coloured.find("\x1b[1;32mfits\x1b[0m"), std::string::npos);
  for (std::size_t at = coloured.find('\x1b'); at != std::string::npos;
       at = coloured.find('\x1b')) {
    coloured.erase(at, coloured.find('m', at) - at + 1);
  }
  EXPECT_EQ(coloured, project_text(hand.answer, {}));
}

TEST(ReportText, CheckSaysWhatIsLargeAndWhatWouldFit) {
  HandFilled hand;
  hand.projection.memory.fits = false;
  hand.projection.memory.capacity = gib(48);
  expect_golden("check.txt", check_text(hand.answer,
                                        {{"recompute.granularity=full", gib(31), Seconds{11.2}},
                                         {"batch.micro=1", gib(40), Seconds{10.4}}},
                                        {}));
}

TEST(ReportText, VerdictNamesTheRoom) {
  projection::MemoryAnswer m;
  m.capacity = gib(80);
  m.device_peak = gib(78);
  m.least_peak = gib(77);
  EXPECT_EQ(verdict(m, {}),
            "does not fit  78.0 GiB of 80.0 GiB a GPU (stage 0), inside the 5.0% margin");
  m.device_peak = gib(102);
  m.least_peak = gib(100);
  EXPECT_NE(verdict(m, {}).find("24.0 GiB too much"), std::string::npos);  // over 76 GiB
  m.fits = true;
  m.device_peak = gib(82);
  m.least_peak = gib(75);
  EXPECT_NE(verdict(m, {}).find("75.0 GiB once cached segments are given back"), std::string::npos);
}

TEST(ReportText, ExplanationIsATree) {
  const projection::Explanation leaf{"tokens", "8192 tokens", "", "job.yaml:3:3", "input", {}};
  const projection::Explanation middle{"compute", "7 s", "flops / rate", "", "calibrated", {leaf}};
  const projection::Explanation root{"time.step_s",   "10 s",     "compute + bubble",
                                     "docs/MODEL.md", "analytic", {middle, leaf}};
  expect_golden("explain.txt", explanation_text(root, {}));
}

TEST(ReportText, AnnotatedYamlReadsBack) {
  const std::string yaml =
      "model: toy\nparallel:\n  tp: 2\n  order: [tp, dp]\nmoe: {}\nstages:\n  - {layers: 2}\n"
      "  - layers: 3\n    output: true\nlayout: null\n";
  const text::Node tree = *text::parse_yaml(yaml, "a.yaml");
  const std::string text = annotated_yaml(
      tree, [](const std::string& path) { return path == "parallel.tp" ? "job.yaml:3" : ""; });
  EXPECT_NE(text.find("  tp: 2            # job.yaml:3\n"), std::string::npos) << text;
  const auto back = text::parse_yaml(text, "b.yaml");
  ASSERT_TRUE(back.has_value()) << text;
  EXPECT_EQ(*back, tree) << text;
}

TEST(Quantity, Words) {
  EXPECT_EQ(gib_text(gib(78)), "78.0 GiB");
  EXPECT_EQ(gib_text(mib(10)), "0.010 GiB");
  EXPECT_EQ(duration(Seconds{0.01234}), "12.3 ms");
  EXPECT_EQ(duration(Seconds{12.3456}), "12.346 s");
  EXPECT_EQ(duration(Seconds{2.5e-6}), "2.5 us");
  // What is not nothing is not shown as 0.
  EXPECT_EQ(duration(Seconds{1e-7}), "0.1 us");
  EXPECT_EQ(duration(Seconds{3e-9}), "3 ns");
  EXPECT_EQ(duration(Seconds{1e-12}), "0.001 ns");
  EXPECT_EQ(gib_text(mib(1)), "0.001 GiB");
  EXPECT_EQ(gib_text(Bytes{1000}), "9.3e-07 GiB");
  EXPECT_EQ(count(140620634112.0), "140.6 B");
  EXPECT_EQ(count(8030261248.0), "8.03 B");
  EXPECT_EQ(thousands(226176), "226,176");
  EXPECT_EQ(thousands(-1234.6), "-1,235");
  EXPECT_EQ(thousands(999), "999");
  EXPECT_EQ(percent(0.4149), "41.5%");
  EXPECT_EQ(signed_percent(-0.02), "-2.0%");
}

TEST(Table, LinesUp) {
  Table t({{"stage"}, {"GiB", Align::right}});
  t.row({"0", "71.2"});
  EXPECT_EQ(t.text(2), "  stage   GiB\n  0      71.2\n");
  EXPECT_EQ(width("a█µ"), 3U);
  EXPECT_EQ(bar(0.5, 4), "██");
  EXPECT_EQ(bar(0.001, 4), "▏");
  EXPECT_EQ(bar(0, 4), "");
  EXPECT_EQ(wrapped("one two three", 7, "  "), "one two\n  three");
}

}  // namespace
}  // namespace eratos::report
