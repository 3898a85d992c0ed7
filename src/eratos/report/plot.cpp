#include "eratos/report/plot.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include <fmt/format.h>

#include "eratos/report/html.h"

namespace eratos::report {

namespace {

constexpr int kWide = 720;
constexpr int kHigh = 300;
constexpr int kLeft = 64;
constexpr int kBottom = 40;
constexpr int kTop = 14;
constexpr int kRight = 14;
constexpr int kColumns = 64;
constexpr int kLines = 14;
constexpr std::size_t kColours = 10;

struct Range {
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();

  void take(double v) {
    least = std::min(least, v);
    most = std::max(most, v);
  }
  // 0 to 1; a range of one value is all in its middle.
  double share(double v) const { return most > least ? (v - least) / (most - least) : 0.5; }
};

struct Frame {
  Range x;
  Range y;
};

Frame frame_of(const Plot& plot) {
  Frame out;
  for (const PlotSeries& s : plot.series) {
    for (const PlotPoint& p : s.points) {
      out.x.take(p.x);
      out.y.take(p.y);
    }
  }
  if (plot.limit_x > 0) out.x.take(plot.limit_x);
  return out;
}

std::string label(double v) {
  return std::abs(v) >= 100 ? fmt::format("{:.0f}", v) : fmt::format("{:.3g}", v);
}

std::string svg_of(const Plot& plot, const Frame& f) {
  const auto px = [&](double x) { return kLeft + f.x.share(x) * (kWide - kLeft - kRight); };
  const auto py = [&](double y) {
    return kHigh - kBottom - f.y.share(y) * (kHigh - kBottom - kTop);
  };
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" style=\"max-width:{}px;width:100%\">"
      "<title>{} against {}</title>",
      kWide, kHigh, kWide, escaped(plot.y), escaped(plot.x));
  out += fmt::format(
      "<path d=\"M{0} {1}V{2}H{3}\" fill=\"none\" stroke=\"var(--line)\" stroke-width=\"1\"/>",
      kLeft, kTop, kHigh - kBottom, kWide - kRight);
  const auto text = [&](double x, double y, const char* anchor, const std::string& what) {
    out += fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.0f}\" font-size=\"12\" fill=\"var(--ink)\" "
        "text-anchor=\"{}\">{}</text>",
        x, y, anchor, escaped(what));
  };
  text(kLeft - 6, kHigh - kBottom, "end", label(f.y.least));
  text(kLeft - 6, kTop + 10, "end", label(f.y.most));
  text(kLeft, kHigh - kBottom + 16, "start", label(f.x.least));
  text(kWide - kRight, kHigh - kBottom + 16, "end", label(f.x.most));
  text(kWide / 2.0, kHigh - 6, "middle", plot.x);
  text(kLeft + 6, kTop + 10, "start", plot.y);
  if (plot.limit_x > 0) {
    out +=
        fmt::format("<path d=\"M{0:.1f} {1}V{2}\" stroke=\"var(--ink)\" stroke-dasharray=\"4 3\"/>",
                    px(plot.limit_x), kTop, kHigh - kBottom);
    text(px(plot.limit_x) - 4, kTop + 24, "end", plot.limit);
  }
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    const PlotSeries& s = plot.series[i];
    const std::string colour = fmt::format("var(--c{})", i % kColours);
    if (s.line && !s.points.empty()) {
      std::string path = fmt::format("M{:.1f} {:.1f}", px(s.points[0].x), py(s.points[0].y));
      for (std::size_t k = 1; k < s.points.size(); ++k) {
        path += fmt::format("H{:.1f}V{:.1f}", px(s.points[k].x), py(s.points[k].y));
      }
      out += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>", path,
                         colour);
      continue;
    }
    for (const PlotPoint& p : s.points) {
      out += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}</title></circle>",
          px(p.x), py(p.y), colour, escaped(p.title));
    }
  }
  out += "</svg>\n<p class=\"legend\">";
  for (std::size_t i = 0; i < plot.series.size(); ++i) {
    out += fmt::format("<span><i style=\"background:var(--c{})\"></i>{}</span>", i % kColours,
                       escaped(plot.series[i].name));
  }
  return out + "</p>";
}

std::string text_of(const Plot& plot, const Frame& f) {
  std::vector<std::string> cells(kLines, std::string(kColumns, ' '));
  const auto put = [&](double x, double y, char mark) {
    const auto column = static_cast<std::size_t>(std::lround(f.x.share(x) * (kColumns - 1)));
    const auto line = static_cast<std::size_t>(std::lround((1 - f.y.share(y)) * (kLines - 1)));
    cells[line][column] = mark;
  };
  if (plot.limit_x > 0) {
    for (int i = 0; i < kLines; ++i) {
      put(plot.limit_x, f.y.least + (f.y.most - f.y.least) * i / (kLines - 1), '|');
    }
  }
  for (const PlotSeries& s : plot.series) {
    for (const PlotPoint& p : s.points) put(p.x, p.y, s.mark);
  }
  std::string out = plot.y + '\n';
  const std::size_t margin = std::max(label(f.y.least).size(), label(f.y.most).size());
  for (int i = 0; i < kLines; ++i) {
    const std::string at = i == 0            ? label(f.y.most)
                           : i == kLines - 1 ? label(f.y.least)
                                             : std::string();
    std::string line = fmt::format("{:>{}} |{}", at, margin, cells[static_cast<std::size_t>(i)]);
    line.resize(line.find_last_not_of(' ') + 1);
    out += line + '\n';
  }
  out += fmt::format("{:>{}} {}\n", "", margin, '+' + std::string(kColumns, '-'));
  const std::string least = label(f.x.least);
  const std::string most = label(f.x.most);
  const std::size_t room = kColumns - std::min<std::size_t>(kColumns, least.size() + most.size());
  out += fmt::format("{:>{}}  {}{:^{}}{}\n", "", margin, least, plot.x, room, most);
  for (const PlotSeries& s : plot.series) out += fmt::format("{} {}   ", s.mark, s.name);
  if (plot.limit_x > 0) out += "| " + plot.limit;
  out.resize(out.find_last_not_of(' ') + 1);
  return out + '\n';
}

}  // namespace

Drawing draw(const Plot& plot) {
  const Frame f = frame_of(plot);
  if (f.y.most < f.y.least) return {};
  return {text_of(plot, f), svg_of(plot, f)};
}

}  // namespace eratos::report
