#include "eratos/report/anchored.h"
#include "eratos/report/error_node.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/text/csv.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

constexpr std::size_t kWorst = 10;
constexpr std::size_t kNameColumns = 56;

AnchoredGroup group_of(const std::vector<AnchoredRow>& rows,
                       const std::function<bool(const AnchoredRow&)>& takes) {
  std::vector<double> errors, unanchored, memory, memory_unanchored;
  std::set<std::pair<std::string, std::string>> anchors;
  int inside = 0;
  for (const AnchoredRow& r : rows) {
    if (!takes(r)) continue;
    anchors.emplace(r.file, r.anchor);
    errors.push_back(r.error);
    unanchored.push_back(r.unanchored);
    inside += r.in_band ? 1 : 0;
    if (!r.memory_error || !r.memory_unanchored) continue;
    memory.push_back(*r.memory_error);
    memory_unanchored.push_back(*r.memory_unanchored);
  }
  AnchoredGroup out{static_cast<int>(anchors.size()), summarise(errors), summarise(unanchored),
                    summarise(memory), summarise(memory_unanchored)};
  if (!errors.empty()) out.error.in_band = inside / static_cast<double>(errors.size());
  return out;
}

std::vector<std::string> cells(const std::string& name, const AnchoredGroup& g) {
  return {name,
          thousands(g.anchors),
          thousands(g.error.n),
          percent(g.error.median_abs),
          percent(g.error.p90_abs),
          signed_percent(g.error.mean),
          g.error.in_band ? percent(*g.error.in_band) : "-",
          percent(g.unanchored.median_abs),
          percent(g.unanchored.p90_abs)};
}

std::string shortened(const std::string& name) {
  if (width(name) <= kNameColumns) return name;
  return name.substr(0, kNameColumns - 3) + "...";
}

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string memory_table(const AnchoredAccuracy& a, const Style& style) {
  if (a.all.memory.n == 0) return "";
  Table table({{"peak memory by source"},
               {"runs", Align::right},
               {"median |e|", Align::right},
               {"90% |e|", Align::right},
               {"alone, median", Align::right},
               {"90%", Align::right}});
  const auto row = [&](const std::string& name, const AnchoredGroup& g, bool strong) {
    if (g.memory.n == 0) return;
    table.row({name, thousands(g.memory.n), percent(g.memory.median_abs), percent(g.memory.p90_abs),
               percent(g.memory_unanchored.median_abs), percent(g.memory_unanchored.p90_abs)},
              strong);
  };
  for (const auto& [name, group] : a.by_source) row(shortened(name), group, false);
  row("all", a.all, true);
  return '\n' + table.text(2, style);
}

std::string worst_table(const std::vector<AnchoredRow>& rows, const Style& style) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::abs(rows[a].error) > std::abs(rows[b].error);
  });
  Table table({{"furthest off"},
               {"from"},
               {"e", Align::right},
               {"alone", Align::right},
               {"what differs besides size"}});
  for (std::size_t i = 0; i < std::min(kWorst, order.size()); ++i) {
    const AnchoredRow& r = rows[order[i]];
    table.row(
        {r.id, r.anchor, signed_percent(r.error), signed_percent(r.unanchored), joined(r.differs)});
  }
  return '\n' + table.text(2, style);
}

Node group_node(const AnchoredGroup& g) {
  Node out = Node::mapping();
  out.set("anchors", Node::integer(g.anchors));
  out.set("throughput", summary_node(g.error));
  out.set("throughput_unanchored", summary_node(g.unanchored));
  out.set("memory", summary_node(g.memory));
  out.set("memory_unanchored", summary_node(g.memory_unanchored));
  return out;
}

Node like_node(const AnchoredRow& r) {
  Node out = Node::mapping();
  out.set("source", Node::string(r.source));
  out.set("model", Node::string(r.model));
  out.set("framework", Node::string(r.like.framework));
  out.set("architecture", Node::string(r.like.architecture));
  out.set("experts", Node::boolean(r.like.experts));
  out.set("busy", number(r.like.busy));
  out.set("gpus", number(r.like.gpus));
  out.set("parameters", number(r.like.parameters));
  return out;
}

Node errors_node(double throughput, const std::optional<double>& memory) {
  Node out = Node::mapping();
  out.set("throughput", number(throughput));
  if (memory) out.set("memory", number(*memory));
  return out;
}

Node row_node(const AnchoredRow& r) {
  Node out = Node::mapping();
  out.set("id", Node::string(r.id));
  out.set("anchor", Node::string(r.anchor));
  out.set("file", Node::string(r.file));
  out.set("family", Node::string(r.family));
  out.set("gpu", Node::string(r.gpu));
  out.set("gpus", Node::integer(r.gpus));
  out.set("anchor_gpus", Node::integer(r.anchor_gpus));
  Node differs = Node::sequence();
  for (const std::string& path : r.differs) differs.append(Node::string(path));
  out.set("differs", std::move(differs));
  out.set("error", errors_node(r.error, r.memory_error));
  out.set("unanchored", errors_node(r.unanchored, r.memory_unanchored));
  if (!r.memory_kind.empty()) out.set("memory_kind", Node::string(r.memory_kind));
  out.set("in_band", Node::boolean(r.in_band));
  out.set("like", like_node(r));
  return out;
}

}  // namespace

AnchoredAccuracy summarise(const std::vector<AnchoredRow>& rows) {
  AnchoredAccuracy out;
  out.all = group_of(rows, [](const AnchoredRow&) { return true; });
  out.same_layout = group_of(rows, [](const AnchoredRow& r) { return r.differs.empty(); });
  out.other_layout = group_of(rows, [](const AnchoredRow& r) { return !r.differs.empty(); });
  std::set<std::string> sources;
  for (const AnchoredRow& r : rows) sources.insert(r.source);
  for (const std::string& source : sources) {
    out.by_source[source] =
        group_of(rows, [&](const AnchoredRow& r) { return r.source == source; });
  }
  return out;
}

std::string anchored_text(const std::vector<AnchoredRow>& rows, const Style& style) {
  if (rows.empty()) {
    return "no two runs of one source share model, part, format, micro-batch and software on "
           "different numbers of accelerators\n";
  }
  const AnchoredAccuracy a = summarise(rows);
  Table table({{"throughput by source"},
               {"anchors", Align::right},
               {"runs", Align::right},
               {"median |e|", Align::right},
               {"90% |e|", Align::right},
               {"mean e", Align::right},
               {"in band", Align::right},
               {"alone, median", Align::right},
               {"90%", Align::right}});
  for (const auto& [name, group] : a.by_source) table.row(cells(shortened(name), group));
  if (a.same_layout.error.n > 0) table.row(cells("the anchor's layout", a.same_layout));
  if (a.other_layout.error.n > 0) table.row(cells("another layout", a.other_layout));
  table.row(cells("all", a.all), true);
  std::string out =
      style.bold(fmt::format("{} run{}, each projected from the smallest of its kind",
                             thousands(a.all.error.n), a.all.error.n == 1 ? "" : "s"));
  out += style.dim("   e = projected / measured - 1; alone: without the anchor") + "\n\n";
  return out + table.text(2, style) + memory_table(a, style) + worst_table(rows, style);
}

std::string anchored_json(const std::vector<AnchoredRow>& rows, const std::string& version) {
  const AnchoredAccuracy a = summarise(rows);
  Node summary = Node::mapping();
  summary.set("all", group_node(a.all));
  summary.set("same_layout", group_node(a.same_layout));
  summary.set("other_layout", group_node(a.other_layout));
  Node sources = Node::mapping();
  for (const auto& [name, group] : a.by_source) sources.set(name, group_node(group));
  summary.set("by_source", std::move(sources));
  Node list = Node::sequence();
  for (const AnchoredRow& r : rows) list.append(row_node(r));
  Node out = document(version);
  out.set("summary", std::move(summary));
  out.set("rows", std::move(list));
  return text::to_json(out) + '\n';
}

std::string anchored_csv(const std::vector<AnchoredRow>& rows) {
  std::string out =
      "id,anchor,file,source,family,gpu,gpus,anchor_gpus,differs,throughput_error,"
      "throughput_unanchored,memory_kind,memory_error,memory_unanchored,in_band\n";
  const auto cell = [](const std::optional<double>& v) { return v ? fmt::format("{}", *v) : ""; };
  for (const AnchoredRow& r : rows) {
    for (const std::string& text :
         {r.id, r.anchor, r.file, r.source, r.family, r.gpu, std::to_string(r.gpus),
          std::to_string(r.anchor_gpus), joined(r.differs)}) {
      out += text::csv_field(text) + ',';
    }
    out +=
        fmt::format("{},{},{},{},{},{}\n", r.error, r.unanchored, r.memory_kind,
                    cell(r.memory_error), cell(r.memory_unanchored), r.in_band ? "true" : "false");
  }
  return out;
}

}  // namespace eratos::report
