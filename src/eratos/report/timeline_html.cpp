// The picture of a schedule as a page: the drawing of timeline_svg, a few lines of script that zoom
// and pan it, and a table that says the same without it. Nothing is loaded; without scripts the
// picture stands still and its tooltips are the browser's.
#include <fmt/format.h>

#include "eratos/report/html.h"
#include "eratos/report/quantity.h"
#include "eratos/report/table.h"
#include "eratos/report/timeline.h"
#include "eratos/report/timeline_parts.h"
#include "eratos/report/timeline_script.h"

namespace eratos::report {

namespace {

// On top of page_style() and of the drawing's own colours.
constexpr std::string_view kTimelineStyle = R"(
body { max-width: 100rem; }
figure { margin: .4rem 0; position: relative; overflow-x: auto; }
figure:focus-visible { outline: 2px solid var(--bar); outline-offset: 3px; }
svg.timeline { height: auto; min-width: 44rem; touch-action: pan-y; cursor: grab;
  user-select: none; -webkit-user-select: none; }
svg.held-down { cursor: grabbing; }
svg.timeline .zoom rect.chosen { stroke: var(--ink); stroke-width: 3; }
svg.timeline .zoom rect:hover { filter: brightness(1.12); }
#tools { display: flex; flex-wrap: wrap; gap: .4rem; align-items: center; margin: .8rem 0; }
#tools[hidden], #tip[hidden] { display: none; }
button { font: inherit; color: var(--ink); background: var(--ground); cursor: pointer;
  border: 1px solid var(--line); border-radius: .35rem; padding: .15rem .7rem; min-width: 2.4rem; }
button:hover:enabled { border-color: var(--dim); } button:disabled { opacity: .45; cursor: default; }
#tip { position: fixed; left: 0; top: 0; z-index: 1; pointer-events: none; white-space: pre-line;
  background: var(--ink); color: var(--paper); padding: .3rem .6rem; border-radius: .3rem;
  font-size: .88rem; max-width: 24rem; }
#told { display: block; min-height: 1.5em; }
)";

Table ranks_table(const Timeline& t, const Extent& e) {
  Table out({{"rank"},
             {"computes", Align::right},
             {"share", Align::right},
             {"bubble and transfers", Align::right},
             {"peak memory", Align::right},
             {"first reached at", Align::right}});
  const TimeScale times = time_scale(t, e.span());
  std::int64_t most = 0;
  for (int rank = e.first_rank; rank <= e.last_rank; ++rank) {
    most = std::max(most, peak_of(memory_of(t, rank)).bytes);
  }
  const MemoryScale memory = memory_scale(t, most);
  for (int rank = e.first_rank; rank <= e.last_rank; ++rank) {
    Picoseconds busy = 0;
    const std::vector<ColumnShare> whole = column_shares(t, e, rank, 1);
    for (const Picoseconds time : whole.front().busy) busy += time;
    const schedule::Level peak = peak_of(memory_of(t, rank));
    const double share = static_cast<double>(busy) / static_cast<double>(e.span());
    out.row({label_of(t, rank), times.text(busy), percent(share), percent(1 - share),
             memory.text(peak.bytes), times.text(peak.time)});
  }
  return out;
}

}  // namespace

std::string timeline_html(const Timeline& t, const View& view) {
  const Extent e = extent_of(t, view);
  std::vector<std::string> remarks;
  const std::string drawing = timeline_drawing(t, view, remarks);
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>" +
      escaped(t.title) + "</title>\n<style>";
  out += page_style();
  out += kTimelineStyle;
  out += "</style>\n</head>\n<body>\n<h1>" + escaped(t.title) + "</h1>\n";
  std::string facts;
  for (const std::string& f : t.facts) facts += (facts.empty() ? "" : " · ") + f;
  if (!facts.empty()) out += "<p class=\"dim\">" + escaped(facts) + "</p>\n";
  for (const std::string& r : remarks) out += "<p><em>" + escaped(r) + "</em></p>\n";
  out +=
      "<div id=\"tools\" role=\"toolbar\" aria-label=\"view of the picture\" hidden>\n"
      "<button id=\"in\" aria-label=\"zoom in\">+</button>\n"
      "<button id=\"out\" aria-label=\"zoom out\">−</button>\n"
      "<button id=\"back\" aria-label=\"earlier\">←</button>\n"
      "<button id=\"on\" aria-label=\"later\">→</button>\n"
      "<button id=\"fit\">fit</button>\n"
      "<span class=\"dim\" id=\"hint\">wheel or + − zooms, dragging or ← → moves, 0 fits; n and p "
      "walk the actions, ↑ ↓ the ranks</span>\n</div>\n"
      "<figure id=\"picture\" tabindex=\"0\" role=\"group\" aria-label=\"schedule by time\" "
      "aria-describedby=\"hint\">\n" +
      drawing +
      "</figure>\n<output id=\"told\" class=\"dim\" aria-live=\"polite\"></output>\n"
      "<div id=\"tip\" aria-hidden=\"true\" hidden></div>\n<h2>ranks</h2>\n" +
      table_html(ranks_table(t, e)) + "<p class=\"dim\">eratos " + escaped(t.version) +
      "</p>\n<script>";
  out += kTimelineScript;
  return out + "</script>\n</body>\n</html>\n";
}

}  // namespace eratos::report
