// The SVG, the page around it, and the terminal.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/report/table.h"
#include "eratos/report/timeline.h"
#include "eratos/report/timeline_parts.h"
#include "timeline_hand.h"

namespace eratos::report {
namespace {

std::size_t occurrences(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Why `xml` is not well formed, or "": tags that close in turn, attributes quoted and given once,
// no stray < or &.
std::string fault_of(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; at < xml.size();) {
    if (xml[at] == '&') {
      const std::string entity = xml.substr(at, xml.find(';', at) - at + 1);
      if (entity != "&amp;" && entity != "&lt;" && entity != "&gt;" && entity != "&quot;") {
        return "entity " + entity.substr(0, 10);
      }
    }
    if (xml[at] != '<') {
      ++at;
      continue;
    }
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return "no > after byte " + std::to_string(at);
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos) return "< in <" + tag;
    at = end + 1;
    if (tag[0] == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return "closes " + tag;
      open.pop_back();
      continue;
    }
    std::set<std::string> keys;
    const std::size_t name_end = std::min(tag.find_first_of(" /"), tag.size());
    std::size_t i = name_end;
    while ((i = tag.find('=', i)) != std::string::npos) {
      const std::size_t begin = tag.find_last_of(" \n", i) + 1;
      if (!keys.insert(tag.substr(begin, i - begin)).second) return "twice in <" + tag;
      if (tag[i + 1] != '"') return "not quoted in <" + tag;
      i = tag.find('"', i + 2);
      if (i == std::string::npos) return "quote never closed in <" + tag;
    }
    if (tag.back() != '/') open.push_back(tag.substr(0, name_end));
  }
  return open.empty() ? "" : "never closes " + open.back();
}

TEST(TimelineSvg, EveryActionOnceWithItsTimes) {
  for (const Case& c : kTimelineCases) {
    for (const Times times : {Times::equal, Times::uneven}) {
      SCOPED_TRACE(c.name);
      const Drawn d(c.name, c.p, c.v, c.m, times);
      const std::string svg = timeline_svg(d.timeline);
      EXPECT_EQ(fault_of(svg), "");
      std::map<std::string, std::size_t> drawn;
      for (int rank = 0; rank < c.p; ++rank) {
        for (const schedule::Action& a : d.order.of(rank)) {
          ++drawn["<title>" + name_of(a, d.order.shape) + " "];
        }
      }
      for (const auto& [title, n] : drawn) EXPECT_EQ(occurrences(svg, title), n) << title;
      EXPECT_EQ(svg, timeline_svg(d.timeline));
    }
  }
}

TEST(TimelineSvg, HoverSaysTheTimes) {
  const Drawn d("1f1b", 4, 1, 12);
  // Rank 3's forward of micro-batch 0 waits for three forwards of 10 us.
  EXPECT_NE(timeline_svg(d.timeline)
                .find("F0 forward, micro-batch 0\nrank 3\n30 to 40 us, 10 us long</title>"),
            std::string::npos);
  EXPECT_NE(timeline_svg(d.timeline).find("memory at most 48 bytes, first at 30 us"),
            std::string::npos);
}

TEST(TimelineSvg, NumbersWhereTheyFit) {
  const Drawn few("1f1b", 4, 1, 12);
  const std::string svg = timeline_svg(few.timeline);
  const auto numbers = [](const std::string& s) {
    return occurrences(s, "<text class=\"lightink\"") + occurrences(s, "<text class=\"darkink\"");
  };
  EXPECT_EQ(numbers(svg), 96U);
  const Drawn many("interleaved-1f1b", 16, 4, 64);
  EXPECT_EQ(numbers(timeline_svg(many.timeline)), 0U);
  // A part of the same step has room again.
  EXPECT_GT(numbers(timeline_svg(many.timeline, {.from = 400'000'000, .to = 700'000'000})), 200U);
}

TEST(TimelineSvg, LabelsAreText) {
  Drawn d("1f1b", 2, 1, 2);
  d.timeline.title = "a < b & \"c\"\x01";
  d.timeline.facts = {"<script>"};
  d.timeline.ranks.resize(2);
  d.timeline.ranks[0].name = "stage <0> with a name that is far too long to stand beside a row";
  d.timeline.ranks[1].spans = {{"a&b", Stream::dp, 0, 5, 0}};
  const std::string svg = timeline_svg(d.timeline);
  EXPECT_EQ(fault_of(svg), "");
  EXPECT_EQ(svg.find("<script>"), std::string::npos);
  EXPECT_EQ(svg.find('\x01'), std::string::npos);
  EXPECT_EQ(fault_of("<a><b></a>"), "closes /a");
  EXPECT_NE(fault_of("<a x=\"1\" x=\"2\"/>"), "");
}

TEST(TimelineSvg, TooManyActionsBecomeColumnsAndSaySo) {
  const Drawn d("1f1b", 16, 1, 1024);
  const std::string svg = timeline_svg(d.timeline);
  EXPECT_EQ(fault_of(svg), "");
  EXPECT_NE(svg.find("32768 actions are too many to show one by one (at most 20000)"),
            std::string::npos);
  EXPECT_LT(svg.size(), 2'000'000U);
  EXPECT_EQ(svg.find("<title>F0 "), std::string::npos);
  const std::string whole = timeline_svg(d.timeline, {.most_actions = 40'000});
  EXPECT_EQ(whole.find("too many"), std::string::npos);
  EXPECT_EQ(occurrences(whole, "<title>F0 "), 16U);
}

TEST(TimelineSvg, WithoutTitleTheLegendIsFirst) {
  Drawn d("1f1b", 2, 1, 4);
  d.timeline.title.clear();
  const std::string svg = timeline_svg(d.timeline);
  EXPECT_EQ(svg.find("ink title"), std::string::npos);
  EXPECT_NE(svg.find("<title id"), std::string::npos);
  EXPECT_EQ(timeline_text(d.timeline, {60, true, true}).substr(0, 4), "rank");
}

TEST(TimelineSvg, CapacityAndBaseAreDrawn) {
  Drawn d("1f1b", 2, 1, 4);
  EXPECT_EQ(timeline_svg(d.timeline).find("class=\"limit\""), std::string::npos);
  d.timeline.ranks = {{"", 60LL << 30, 80LL << 30, {}}, {"", 60LL << 30, 80LL << 30, {}}};
  const std::string svg = timeline_svg(d.timeline);
  EXPECT_EQ(occurrences(svg, "class=\"limit\""), 3U);  // two rows and the legend
  EXPECT_NE(svg.find("capacity 80 GiB"), std::string::npos);
  EXPECT_NE(svg.find("of it 60 GiB all the time"), std::string::npos);
}

// Pictures on one page keep to themselves.
TEST(TimelineSvg, IdsDiffer) {
  Drawn a("1f1b", 2, 1, 4);
  Drawn b("gpipe", 2, 1, 4);
  const auto id = [](const std::string& svg) {
    const std::size_t at = svg.find("id=\"timeline-");
    return svg.substr(at, svg.find('"', at + 4) - at);
  };
  EXPECT_NE(id(timeline_svg(a.timeline)), id(timeline_svg(b.timeline)));
}

TEST(TimelineHtml, LoadsNothingAndWorksWithoutScripts) {
  Drawn d("zbv", 4, 2, 12);
  d.timeline.title = "</script><b>";
  const std::string html = timeline_html(d.timeline);
  EXPECT_EQ(occurrences(html, "<script>"), 1U);
  EXPECT_EQ(occurrences(html, "</script>"), 1U);
  EXPECT_EQ(occurrences(html, "http"), 3U);  // two names of SVG's namespace, and http-equiv
  EXPECT_EQ(occurrences(html, "http://www.w3.org/2000/svg"), 2U);
  for (const char* word : {"src=", "href=", "@import", "fetch(", "eval(", "innerHTML = '"}) {
    EXPECT_EQ(html.find(word), std::string::npos) << word;
  }
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
  // The same numbers as a table, for readers who cannot see the picture.
  EXPECT_NE(html.find("<td>rank 3</td>"), std::string::npos);
  EXPECT_EQ(occurrences(html, "<title>F0."), 8U);  // and the browser's tooltips
}

// Each rank of ZBV with F = B = W works all but the fill; 4 ranks of 12 micro-batches, 60 us each.
TEST(TimelineHtml, TableOfRanks) {
  const Drawn d("1f1b", 4, 1, 12);
  const std::string html = timeline_html(d.timeline);
  EXPECT_NE(
      html.find("<td>rank 0</td><td class=\"r\">360 us</td><td class=\"r\">80.0%</td><td "
                "class=\"r\">20.0%</td><td class=\"r\">48 bytes</td><td class=\"r\">30 us</td>"),
      std::string::npos);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

std::string without_paint(const std::string& s) {
  std::string out;
  for (std::size_t i = 0; i < s.size(); ++i) {
    if (s[i] == '\x1b') {
      i = s.find('m', i);
      continue;
    }
    out += s[i];
  }
  return out;
}

TEST(TimelineText, FitsEveryWidth) {
  for (const Case& c : kTimelineCases) {
    Drawn d(c.name, c.p, c.v, c.m, Times::uneven);
    d.timeline.title = std::string(c.name) + ", a title of some words";
    d.timeline.facts = {"bubble 20.0%", "step 12.345 ms"};
    for (int columns = 20; columns <= 300; ++columns) {
      for (const bool unicode : {true, false}) {
        for (const bool colour : {true, false}) {
          const std::string text = timeline_text(d.timeline, {columns, colour, unicode});
          for (const std::string& line : lines_of(text)) {
            ASSERT_LE(width(without_paint(line)), static_cast<std::size_t>(columns))
                << c.name << ": " << line;
          }
          ASSERT_EQ(text.find('\x1b') != std::string::npos, colour);
          if (!unicode) {
            ASSERT_TRUE(std::all_of(text.begin(), text.end(), [](char ch) {
              return static_cast<unsigned char>(ch) < 0x80;
            })) << text;
          }
        }
      }
    }
    // Beyond the widest and narrowest: those.
    EXPECT_EQ(timeline_text(d.timeline, {5, false, true}),
              timeline_text(d.timeline, {20, false, true}));
    EXPECT_EQ(timeline_text(d.timeline, {4000, false, true}),
              timeline_text(d.timeline, {300, false, true}));
  }
}

// F = 10, BW = 20, free sends: rank 1 runs F0 10-20, BW0 20-40, F1 40-50, BW1 50-70, and rank 0 BW0
// 40-60, BW1 70-90. 36 columns of 2.5 us: F has 4, BW 8.
TEST(TimelineText, TwoRanksByHand) {
  Drawn d("1f1b", 2, 1, 2);
  d.timeline.title = "1f1b";
  d.timeline.memory = {"micro-batches", 12};
  EXPECT_EQ(timeline_text(d.timeline, {44, false, false}),
            "1f1b\n"
            "rank 0  0---1---........0=======....1=======\n"
            "     2  ++++####################++++++++++++\n"
            "rank 1  ....0---0=======1---1=======........\n"
            "     1      ++++++++++++++++++++++++\n"
            "    us  0                   50\n"
            "- F forward  = BW backward  . bubble\n"
            "below: memory, micro-batches, peak at the\n"
            "left\n");
}

TEST(TimelineText, SaysWhereItIsCompressed) {
  const Drawn d("1f1b", 4, 1, 12);
  const std::string wide = timeline_text(d.timeline, {120, false, true});
  EXPECT_EQ(wide.find("≈"), std::string::npos) << wide;
  const std::string narrow = timeline_text(d.timeline, {30, false, true});
  EXPECT_NE(narrow.find("≈ compressed"), std::string::npos) << narrow;
  EXPECT_NE(timeline_text(d.timeline, {30, false, false}).find("~ compressed"), std::string::npos);
}

// Compressed, a third of the busy cells of 1F1B with F = BW / 2 are forwards.
TEST(TimelineText, CompressedColumnsKeepTheShares) {
  const Drawn d("1f1b", 4, 1, 400);
  const std::vector<std::string> lines = lines_of(timeline_text(d.timeline, {300, false, false}));
  const auto& row = lines[1];
  const auto forwards = static_cast<double>(std::count(row.begin(), row.end(), '-'));
  const auto backwards = static_cast<double>(std::count(row.begin(), row.end(), '='));
  EXPECT_NEAR(forwards / (forwards + backwards), 1.0 / 3, 0.02) << row;
}

}  // namespace
}  // namespace eratos::report
