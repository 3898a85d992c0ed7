// Points in a plane stand where their figures say; medians of a family are of its groups.
#include "eratos/report/plot.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "eratos/report/accuracy_tuned.h"

namespace eratos::report {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    out.push_back(text.substr(begin, end - begin));
  }
  return out;
}

TEST(Plot, OppositeCornersAndALimit) {
  Plot plot{.x = "GiB", .y = "speed"};
  plot.series.push_back({.name = "tried", .points = {{1, 10, "a<b"}, {3, 20, ""}}});
  plot.limit_x = 4;
  plot.limit = "capacity";
  const Drawing d = draw(plot);
  const std::vector<std::string> lines = lines_of(d.text);
  ASSERT_GT(lines.size(), 15U);
  EXPECT_EQ(lines[0], "speed");
  EXPECT_EQ(lines[1].substr(0, 4), "20 |");  // the most of y, no mark at the left edge
  EXPECT_EQ(lines[1].find('*'), 4U + 42U);   // two thirds of 63
  EXPECT_EQ(lines[14].substr(0, 5), "10 |*");
  EXPECT_EQ(lines[1].back(), '|');  // the limit stands at the right edge
  EXPECT_NE(d.svg.find("<title>a&lt;b</title>"), std::string::npos);
  EXPECT_NE(d.svg.find("capacity"), std::string::npos);
  EXPECT_EQ(draw(Plot{}).text, "");
}

TEST(Tuned, TheMedianOfAFamilyLeavesOutWhatHasNoChoice) {
  std::vector<TunedGroup> groups(4);
  const double regret[] = {0.02, 0.10, 0.04};
  for (std::size_t i = 0; i < 3; ++i) {
    groups[i] = {.name = "g", .family = "f", .n = 20, .regret = {regret[i], 0, 0}};
  }
  groups[3] = {.name = "none", .family = "f", .n = 20, .none = true};
  const std::string text = tuned_text(groups, {});
  EXPECT_NE(text.find("f: median of 3 groups"), std::string::npos) << text;
  EXPECT_NE(text.find("1 groups have nothing"), std::string::npos) << text;
  const std::string json = tuned_json(groups, "v");
  EXPECT_NE(json.find("\"after_0\": 0.04"), std::string::npos) << json;
}

}  // namespace
}  // namespace eratos::report
