#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>

#include "eratos/report/page.h"

namespace eratos::report {

namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Wide tables scroll inside their own box, so that the page itself never does on a phone.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5d6b7d; --paper: #fff; --line: #dfe5ec;
  --bar: #2f7ed8; --good: #16784a; --bad: #b3261e;
  --c0: #2f7ed8; --c1: #e08a1e; --c2: #3a9d6e; --c3: #9a5fc2; --c4: #c9504d; --c5: #9aa7b5;
  --c6: #57697c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --dim: #9aa8b8; --paper: #12171e;
  --line: #2b3542; --bar: #5aa2f0; --good: #5ccf95; --bad: #ff8a80;
  --c0: #5aa2f0; --c1: #f0aa50; --c2: #62c596; --c3: #bb8ae0; --c4: #ea7a77; --c5: #6d7b8a;
  --c6: #a9b8c8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: .5rem 0; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .2rem; }
p { margin: .2rem 0; } .dim, figcaption { color: var(--dim); font-size: .9em; }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { color: var(--dim); font-weight: 500; text-align: left; }
th, td { padding: .22rem .7rem .22rem 0; border-bottom: 1px solid var(--line); }
td { white-space: nowrap; } td.prose { white-space: normal; }
td.r, th.r { text-align: right; } tr.strong td { font-weight: 600; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.bars { display: grid; grid-template-columns: max-content max-content max-content minmax(6rem, 1fr);
  gap: .25rem .8rem; align-items: center; margin: .5rem 0; font-variant-numeric: tabular-nums; }
.bars .r { text-align: right; }
svg { display: block; width: 100%; height: 1rem; }
.stacks { display: grid; grid-template-columns: max-content max-content minmax(6rem, 1fr);
  gap: .25rem .8rem; align-items: center; margin: .5rem 0; font-variant-numeric: tabular-nums; }
.legend span { display: inline-block; margin-right: 1rem; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .35em;
  vertical-align: -.05em; }
@media (max-width: 34rem) { .bars { grid-template-columns: 1fr max-content max-content; }
  .bars .bar { grid-column: 1 / -1; } .stacks { grid-template-columns: 1fr max-content; }
  .stacks .bar { grid-column: 1 / -1; } }
)";

std::string class_of(const Column& c) { return c.align == Align::right ? " class=\"r\"" : ""; }

std::string table_of(const Table& table) {
  std::string out = "<div class=\"scroll\"><table>\n";
  const bool headed = std::any_of(table.columns().begin(), table.columns().end(),
                                  [](const Column& c) { return !c.head.empty(); });
  if (headed) {
    out += "<thead><tr>";
    for (const Column& c : table.columns()) {
      out += "<th" + class_of(c) + '>' + escaped(c.head) + "</th>";
    }
    out += "</tr></thead>\n";
  }
  out += "<tbody>\n";
  for (const Table::Row& r : table.rows()) {
    out += r.strong ? "<tr class=\"strong\">" : "<tr>";
    for (std::size_t i = 0; i < r.cells.size(); ++i) {
      out += "<td" + class_of(table.columns()[i]) + '>' + escaped(r.cells[i]) + "</td>";
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

// Rectangles of one bar. Widths are in hundredths of a percent of the bar's box.
std::string bar_svg(const std::vector<std::pair<double, std::size_t>>& parts, bool plain,
                    const std::string& title) {
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
                       plain ? std::string("bar") : fmt::format("c{}", colour % 7));
    at += wide;
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
    out += fmt::format("<span><i style=\"background:var(--c{})\"></i>{}</span>", i % 7,
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
           bar_svg(parts, false, title) + '\n';
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
  out += kStyle;
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
    out += stacks_of(s.stacks) + bars_of(s.bars);
    for (const Table& table : s.tables) out += table_of(table);
    for (const std::string& sentence : s.sentences) out += "<p>" + escaped(sentence) + "</p>\n";
  }
  if (!page.notes.empty()) out += "<h2>notes</h2>\n<ul>\n";
  for (const std::string& note : page.notes) out += "<li>" + escaped(note) + "</li>\n";
  if (!page.notes.empty()) out += "</ul>\n";
  out += "<p class=\"dim\">eratos " + escaped(page.version) + "</p>\n</body>\n</html>\n";
  return out;
}

}  // namespace eratos::report
