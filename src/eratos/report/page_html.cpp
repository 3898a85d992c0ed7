#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "eratos/report/html.h"
#include "eratos/report/page.h"

namespace eratos::report {

namespace {

// As many as the step has parts; html.cpp names them --c0 to --c9.
constexpr std::size_t kColours = 10;

// Rectangles of one bar. Widths are in hundredths of a percent of the bar's box.
std::string bar_svg(const std::vector<std::pair<double, std::size_t>>& parts, bool plain,
                    const std::string& title, double limit = 1) {
  std::string out =
      "<svg class=\"bar\" viewBox=\"0 0 10000 100\" preserveAspectRatio=\"none\" role=\"img\">"
      "<title>" +
      escaped(title) + "</title>";
  if (!plain) out += "<rect width=\"10000\" height=\"100\" fill=\"var(--line)\"/>";
  long at = 0;
  for (const auto& [share, colour] : parts) {
    const long wide = std::lround(std::clamp(share, 0.0, 1.0) * 10000);
    if (wide <= 0) continue;
    out += fmt::format("<rect x=\"{}\" width=\"{}\" height=\"100\" fill=\"var(--{})\"/>", at, wide,
                       plain ? std::string("bar") : fmt::format("c{}", colour % kColours));
    at += wide;
  }
  if (limit < 1) {
    out += fmt::format(
        "<line x1=\"{0}\" x2=\"{0}\" y2=\"100\" stroke=\"var(--ink)\" stroke-width=\"2\" "
        "vector-effect=\"non-scaling-stroke\"/>",
        std::lround(limit * 10000));
  }
  return out + "</svg>";
}

std::string bars_of(const std::vector<Bar>& bars) {
  if (bars.empty()) return "";
  double most = 0;
  for (const Bar& b : bars) most = std::max(most, b.share);
  std::string out = "<div class=\"bars\">\n";
  for (const Bar& b : bars) {
    const double share = most > 0 ? b.share / most : 0;
    out += fmt::format("<span>{}</span><span class=\"r\">{}</span><span class=\"r dim\">{}</span>",
                       escaped(b.name), escaped(b.value), escaped(b.note)) +
           bar_svg({{share, 0}}, true, b.name + ": " + b.value + " " + b.note) + '\n';
  }
  return out + "</div>\n";
}

std::string stacks_of(const std::vector<Stack>& stacks) {
  if (stacks.empty()) return "";
  std::string out = "<p class=\"legend\">";
  for (std::size_t i = 0; i < stacks[0].parts.size(); ++i) {
    // A part that no bar shows needs no colour explained.
    const bool seen = std::any_of(stacks.begin(), stacks.end(), [&](const Stack& s) {
      return std::lround(s.parts[i].second * 10000) > 0;
    });
    if (!seen) continue;
    out += fmt::format("<span><i style=\"background:var(--c{})\"></i>{}</span>", i % kColours,
                       escaped(stacks[0].parts[i].first));
  }
  out += "</p>\n<div class=\"stacks\">\n";
  for (const Stack& s : stacks) {
    std::vector<std::pair<double, std::size_t>> parts;
    std::string title = s.name + ":";
    for (std::size_t i = 0; i < s.parts.size(); ++i) {
      parts.emplace_back(s.parts[i].second, i);
      title += fmt::format(" {} {:.1f}%", s.parts[i].first, s.parts[i].second * 100);
    }
    out += fmt::format("<span>{}</span><span>{}</span>", escaped(s.name), escaped(s.value)) +
           bar_svg(parts, false, title, s.limit) + '\n';
  }
  return out + "</div>\n";
}

}  // namespace

std::string page_html(const Page& page) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>" +
      escaped(page.title) + "</title>\n<style>";
  out += page_style();
  out += "</style>\n</head>\n<body>\n<h1>" + escaped(page.title) + "</h1>\n";
  for (const std::string& line : page.lead) {
    out += "<p class=\"dim\">" + escaped(line) + "</p>\n";
  }
  if (!page.facts.empty()) {
    out += "<div class=\"scroll\"><table>\n";
    for (std::size_t i = 0; i < page.facts.size(); ++i) {
      const char* mark = i > 0 ? "" : page.good ? " good" : " bad";
      out += fmt::format("<tr><th>{}</th><td class=\"prose{}\">{}</td></tr>\n",
                         escaped(page.facts[i].first), mark, escaped(page.facts[i].second));
    }
    out += "</table></div>\n";
  }
  for (const Section& s : page.sections) {
    out += "<h2>" + escaped(s.heading) + "</h2>\n";
    if (!s.note.empty()) out += "<p class=\"dim\">" + escaped(s.note) + "</p>\n";
    if (!s.drawing.svg.empty()) out += "<figure>" + s.drawing.svg + "</figure>\n";
    out += stacks_of(s.stacks) + bars_of(s.bars);
    for (const Table& table : s.tables) out += table_html(table);
    for (const std::string& sentence : s.sentences) out += "<p>" + escaped(sentence) + "</p>\n";
  }
  if (!page.notes.empty()) out += "<h2>notes</h2>\n<ul>\n";
  for (const std::string& note : page.notes) out += "<li>" + escaped(note) + "</li>\n";
  if (!page.notes.empty()) out += "</ul>\n";
  out += "<p class=\"dim\">eratos " + escaped(page.version) + "</p>\n</body>\n</html>\n";
  return out;
}

}  // namespace eratos::report
