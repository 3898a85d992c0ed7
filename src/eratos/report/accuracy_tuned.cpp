#include "eratos/report/accuracy_tuned.h"

#include <algorithm>
#include <cstddef>
#include <map>

#include <fmt/format.h>

#include "eratos/report/accuracy.h"
#include "eratos/report/quantity.h"
#include "eratos/text/dump.h"
#include "eratos/text/tree.h"

namespace eratos::report {

namespace {

using text::Node;
using Groups = std::vector<const TunedGroup*>;

std::map<std::string, Groups> by_family(const std::vector<TunedGroup>& groups) {
  std::map<std::string, Groups> out;
  for (const TunedGroup& g : groups) {
    if (!g.none) out[g.family].push_back(&g);
  }
  return out;
}

double median_of(const Groups& groups, std::size_t budget) {
  std::vector<double> all;
  for (const TunedGroup* g : groups) all.push_back(g->regret[budget]);
  std::sort(all.begin(), all.end());
  return all.empty() ? 0 : percentile(all, 0.5);
}

std::string key_of(std::size_t budget) { return fmt::format("after_{}", kTunedBudgets[budget]); }

}  // namespace

std::string tuned_text(const std::vector<TunedGroup>& groups, const Style& style) {
  std::vector<Column> columns{{"measured rows as the device: regret of the choice"},
                              {"layouts", Align::right},
                              {"out of memory", Align::right}};
  for (const int n : kTunedBudgets) columns.push_back({fmt::format("after {}", n), Align::right});
  columns.push_back({"asked", Align::right});
  columns.push_back({"choice"});
  Table table(columns);
  const auto row = [&](const std::string& name, int n, int oom, const auto& regret,
                       const std::string& asked, const std::string& choice, bool strong) {
    std::vector<std::string> cells{name, thousands(n), thousands(oom)};
    for (std::size_t i = 0; i < kTunedBudgets.size(); ++i) cells.push_back(percent(regret(i)));
    cells.push_back(asked);
    cells.push_back(choice);
    table.row(std::move(cells), strong);
  };
  int none = 0;
  for (const TunedGroup& g : groups) {
    none += g.none ? 1 : 0;
    if (g.none) continue;
    row(
        g.name, g.n, g.n_oom, [&](std::size_t i) { return g.regret[i]; },
        g.measured_oom > 0 ? fmt::format("{} ({} oom)", g.measured, g.measured_oom)
                           : thousands(g.measured),
        g.picked_oom ? "out of memory" : "runs", false);
  }
  for (const auto& [family, list] : by_family(groups)) {
    int n = 0;
    int oom = 0;
    int picked = 0;
    for (const TunedGroup* g : list) {
      n += g->n;
      oom += g->n_oom;
      picked += g->picked_oom ? 1 : 0;
    }
    row(
        fmt::format("{}: median of {} groups", family, list.size()), n, oom,
        [&](std::size_t i) { return median_of(list, i); }, "",
        fmt::format("{} out of memory", picked), true);
  }
  std::string out = table.text(2, style);
  if (none > 0) out += fmt::format("  {} groups have nothing that could be chosen\n", none);
  return out;
}

std::string tuned_json(const std::vector<TunedGroup>& groups, const std::string& version) {
  Node out = Node::mapping();
  out.set("schema", Node::integer(1));
  out.set("eratos", Node::string(version));
  const auto regrets = [](const auto& regret) {
    Node list = Node::mapping();
    for (std::size_t i = 0; i < kTunedBudgets.size(); ++i) {
      list.set(key_of(i), Node::number(regret(i)));
    }
    return list;
  };
  Node families = Node::mapping();
  for (const auto& [family, list] : by_family(groups)) {
    Node one = Node::mapping();
    one.set("n_groups", Node::integer(static_cast<int>(list.size())));
    one.set("regret_median", regrets([&](std::size_t i) { return median_of(list, i); }));
    int picked = 0;
    for (const TunedGroup* g : list) picked += g->picked_oom ? 1 : 0;
    one.set("picked_oom", Node::integer(picked));
    families.set(family, std::move(one));
  }
  out.set("by_family", std::move(families));
  Node list = Node::sequence();
  for (const TunedGroup& g : groups) {
    Node one = Node::mapping();
    one.set("name", Node::string(g.name));
    one.set("family", Node::string(g.family));
    one.set("n", Node::integer(g.n));
    one.set("n_oom", Node::integer(g.n_oom));
    one.set("regret", g.none ? Node::null() : regrets([&](std::size_t i) { return g.regret[i]; }));
    one.set("measured", Node::integer(g.measured));
    one.set("measured_oom", Node::integer(g.measured_oom));
    one.set("picked_oom", Node::boolean(g.picked_oom));
    list.append(std::move(one));
  }
  out.set("groups", std::move(list));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
