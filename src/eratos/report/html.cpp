#include "eratos/report/html.h"

#include <algorithm>
#include <cstddef>

namespace eratos::report {

namespace {

// Colours: Okabe and Ito, as timeline_parts.h has them, lighter on a dark ground.
// Wide tables scroll inside their own box, so that the page itself never does on a phone.
constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5d6b7d; --paper: #fff; --line: #dfe5ec;
  --bar: #0072b2; --good: #16784a; --bad: #b3261e;
  --c0: #0072b2; --c1: #e69f00; --c2: #009e73; --c3: #cc79a7; --c4: #d55e00; --c5: #9aa7b5;
  --c6: #57697c; --c7: #56b4e9; --c8: #d9c72e; --c9: #7a4b2a; --ground: #f1f4f8;
  --hatch: #c9d3df; --edge: #4a5a70; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --dim: #9aa8b8; --paper: #12171e;
  --line: #2b3542; --bar: #56b4e9; --good: #5ccf95; --bad: #ff8a80;
  --c0: #56b4e9; --c1: #e69f00; --c2: #1fb58a; --c3: #d58fb6; --c4: #e8722a; --c5: #6d7b8a;
  --c6: #a9b8c8; --c7: #3a6fd8; --c8: #f0e442; --c9: #b98a63; --ground: #1a222c;
  --hatch: #33404f; --edge: #a9b8c8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 64rem; padding: 1rem; background: var(--paper);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.35rem; margin: .5rem 0; } h2 { font-size: 1.05rem; margin: 1.8rem 0 .2rem; }
h1, .dim, td.prose, .stacks span { white-space: pre-wrap; }
p { margin: .2rem 0; } .dim, figcaption { color: var(--dim); font-size: .9em; }
.scroll { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th { color: var(--dim); font-weight: 500; text-align: left; }
th, td { padding: .22rem .7rem .22rem 0; border-bottom: 1px solid var(--line); }
td, thead th { white-space: nowrap; }
td.r, th.r { text-align: right; } tr.strong td { font-weight: 600; }
.good { color: var(--good); font-weight: 600; } .bad { color: var(--bad); font-weight: 600; }
.bars { display: grid; grid-template-columns: max-content max-content max-content minmax(6rem, 1fr);
  gap: .25rem .8rem; align-items: center; margin: .5rem 0; font-variant-numeric: tabular-nums; }
.bars .r { text-align: right; }
svg { display: block; width: 100%; height: 1rem; }
figure { margin: .5rem 0; overflow-x: auto; } figure svg { height: auto; min-width: 40rem; }
svg.timeline .paper { fill: var(--paper); } svg.timeline .ink { fill: var(--ink); }
svg.timeline .dim { fill: var(--dim); } svg.timeline .ground { fill: var(--ground); }
svg.timeline .hatch { stroke: var(--hatch); } svg.timeline .grid { stroke: var(--line); }
svg.timeline .zoom rect { stroke: var(--paper); } svg.timeline .edge { stroke: var(--edge); }
svg.timeline .limit { stroke: var(--bad); }
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

}  // namespace

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
        if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
          out += "\xef\xbf\xbd";
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string_view page_style() { return kStyle; }

std::string table_html(const Table& table) {
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

}  // namespace eratos::report
