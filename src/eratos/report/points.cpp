#include "eratos/report/points.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/text/csv.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const std::size_t below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

PointErrors errors_of(const std::vector<const PointRow*>& rows, bool held_out) {
  PointErrors out;
  std::vector<double> sizes;
  for (const PointRow* row : rows) {
    if (row->held_out != held_out) continue;
    sizes.push_back(std::abs(row->error()));
    out.mean += row->error();
    out.mean_abs += sizes.back();
  }
  if (sizes.empty()) return out;
  std::sort(sizes.begin(), sizes.end());
  out.n = static_cast<int>(sizes.size());
  out.mean /= out.n;
  out.mean_abs /= out.n;
  out.median_abs = quantile(sizes, 0.5);
  out.p90_abs = quantile(sizes, 0.9);
  return out;
}

std::vector<std::string> cells(const std::string& name, const PointGroup& g) {
  const auto figures = [](const PointErrors& e) {
    if (e.n == 0) return std::vector<std::string>{"0", "-", "-", "-", "-"};
    return std::vector<std::string>{thousands(e.n), percent(e.mean_abs), percent(e.median_abs),
                                    percent(e.p90_abs), signed_percent(e.mean)};
  };
  std::vector<std::string> out{name};
  for (const PointErrors* e : {&g.held_out, &g.seen}) {
    const std::vector<std::string> four = figures(*e);
    out.insert(out.end(), four.begin(), four.end());
  }
  return out;
}

Table errors_table(const std::string& head) {
  return Table({{head},
                {"held out", Align::right},
                {"mean |e|", Align::right},
                {"median", Align::right},
                {"90%", Align::right},
                {"mean e", Align::right},
                {"seen", Align::right},
                {"mean |e|", Align::right},
                {"median", Align::right},
                {"90%", Align::right},
                {"mean e", Align::right}});
}

Node errors_node(const PointErrors& e) {
  Node out = Node::mapping();
  out.set("n", Node::integer(e.n));
  if (e.n == 0) return out;
  out.set("mean_abs", number(e.mean_abs));
  out.set("median_abs", number(e.median_abs));
  out.set("p90_abs", number(e.p90_abs));
  out.set("mean", number(e.mean));
  return out;
}

Node groups_node(const std::map<std::string, std::map<std::string, PointGroup>>& tables) {
  Node out = Node::mapping();
  for (const auto& [table, groups] : tables) {
    Node all = Node::mapping();
    for (const auto& [name, group] : groups) {
      Node one = Node::mapping();
      one.set("held_out", errors_node(group.held_out));
      one.set("seen", errors_node(group.seen));
      all.set(name, std::move(one));
    }
    out.set(table, std::move(all));
  }
  return out;
}

Node row_node(const PointRow& row) {
  Node out = Node::mapping();
  out.set("table", Node::string(row.table));
  out.set("file", Node::string(row.file));
  out.set("line", Node::integer(row.line));
  out.set("part", Node::string(row.part));
  out.set("group", Node::string(row.group));
  out.set("source", Node::string(row.source));
  out.set("held_out", Node::boolean(row.held_out));
  out.set("status", Node::string(row.skipped.empty() ? "ok" : "skipped"));
  if (!row.skipped.empty()) {
    out.set("reason", Node::string(row.skipped));
    return out;
  }
  out.set("measured_s", number(row.measured_s));
  out.set("priced_s", number(row.priced_s));
  out.set("error", number(row.error()));
  return out;
}

}  // namespace

PointSummary summarise(const std::vector<PointRow>& rows) {
  using Rows = std::map<std::string, std::map<std::string, std::vector<const PointRow*>>>;
  PointSummary out;
  Rows parts;
  Rows groups;
  for (const PointRow& row : rows) {
    ++out.rows;
    if (!row.skipped.empty()) {
      ++out.skipped[row.table + ": " + row.skipped];
      continue;
    }
    ++out.priced;
    parts[row.table][row.part].push_back(&row);
    // A system's name says its part.
    const bool named = row.table == "collective";
    groups[row.table][named ? row.group : row.part + " " + row.group].push_back(&row);
  }
  const auto fill = [](const Rows& from, auto& to) {
    for (const auto& [table, lists] : from) {
      for (const auto& [name, list] : lists) {
        to[table][name] = {errors_of(list, true), errors_of(list, false)};
      }
    }
  };
  fill(parts, out.by_part);
  fill(groups, out.by_group);
  return out;
}

std::string points_text(const std::vector<PointRow>& rows, const Style& style) {
  const PointSummary s = summarise(rows);
  std::string out =
      style.bold(fmt::format("{} points, {} priced", thousands(s.rows), thousands(s.priced))) +
      style.dim("   e = priced / measured - 1\n\n");
  for (const auto& [table, parts] : s.by_part) {
    Table errors = errors_table(table + ", by part");
    for (const auto& [name, group] : parts) errors.row(cells(name, group), true);
    out += errors.text(2, style) + '\n';
    Table each = errors_table(table);
    for (const auto& [name, group] : s.by_group.at(table)) each.row(cells(name, group));
    out += each.text(2, style) + '\n';
  }
  if (!s.skipped.empty()) {
    Table skipped({{"not priced, because"}, {"points", Align::right}});
    for (const auto& [reason, n] : s.skipped) skipped.row({reason, thousands(n)});
    out += skipped.text(2, style) + '\n';
  }
  out.pop_back();
  return out;
}

std::string points_json(const std::vector<PointRow>& rows, const std::string& version) {
  const PointSummary s = summarise(rows);
  Node out = document(version);
  Node list = Node::sequence();
  for (const PointRow& row : rows) list.append(row_node(row));
  out.set("points", std::move(list));
  Node summary = Node::mapping();
  summary.set("points", Node::integer(s.rows));
  summary.set("priced", Node::integer(s.priced));
  summary.set("by_part", groups_node(s.by_part));
  summary.set("by_group", groups_node(s.by_group));
  Node skipped = Node::mapping();
  for (const auto& [reason, n] : s.skipped) skipped.set(reason, Node::integer(n));
  summary.set("skipped", std::move(skipped));
  out.set("summary", std::move(summary));
  return text::to_json(out) + '\n';
}

std::string points_csv(const std::vector<PointRow>& rows) {
  std::string out =
      "table,file,line,part,group,held_out,status,reason,measured_s,priced_s,error,source\n";
  for (const PointRow& row : rows) {
    const bool priced = row.skipped.empty();
    out += fmt::format("{},{},{},{},{},{},{},{},", row.table, text::csv_field(row.file), row.line,
                       text::csv_field(row.part), text::csv_field(row.group),
                       row.held_out ? "yes" : "no", priced ? "ok" : "skipped",
                       text::csv_field(row.skipped));
    out += priced ? fmt::format("{},{},{},", row.measured_s, row.priced_s, row.error()) : ",,,";
    out += text::csv_field(row.source) + '\n';
  }
  return out;
}

}  // namespace eratos::report
