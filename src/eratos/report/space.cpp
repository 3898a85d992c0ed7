#include "eratos/report/space.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/quantity.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

std::string whole(std::uint64_t n) { return thousands(static_cast<double>(n)); }

Node whole_node(std::uint64_t n) { return Node::integer(static_cast<std::int64_t>(n)); }

std::string words(const std::vector<search::Value>& values) {
  std::string out;
  for (const search::Value& v : values) out += (out.empty() ? "" : " ") + v.word;
  return out;
}

constexpr std::size_t kLastColumn = 56;  // of either table, broken over rows

// A row whose last cell takes as many lines as it needs.
void row(Table& table, std::vector<std::string> cells, std::string_view last) {
  std::string lines = wrapped(last, kLastColumn, "");
  while (true) {
    const std::size_t end = lines.find('\n');
    cells.push_back(lines.substr(0, end));
    const std::size_t columns = cells.size();
    table.row(std::move(cells));
    if (end == std::string::npos) return;
    lines.erase(0, end + 1);
    cells.assign(columns - 1, "");
  }
}

// "offload 100; sharding none, zero1".
std::string unsaid_values(const search::Space& space) {
  std::string out;
  const search::Space::LeftOut* before = nullptr;
  for (const search::Space::LeftOut& v : space.left_out) {
    const bool same = before != nullptr && before->axis == v.axis;
    out += (out.empty() ? "" : same ? ", " : "; ");
    if (!same) out += std::string(search::facts_of(v.axis).name) + " ";
    out += v.word;
    before = &v;
  }
  return out;
}

// Rules of the framework that the job itself breaks: they are not asked.
std::string left_out(const search::Space& space) {
  const std::vector<const search::Rule*> asked = search::rules_of(space);
  std::string out;
  for (const search::Rule& r : search::rules()) {
    if (std::find(asked.begin(), asked.end(), &r) != asked.end()) continue;
    out += (out.empty() ? "" : ", ") + std::string(r.name);
  }
  return out;
}

}  // namespace

std::string space_text(const search::Space& space, const search::Count& count, const Style& style) {
  std::string out = style.bold(fmt::format("{} candidate{}, {} of them legal", whole(count.raw),
                                           count.raw == 1 ? "" : "s", whole(count.legal))) +
                    "\n\n";
  Table axes({{"axis"}, {"values", Align::right}, {"left", Align::right}, {""}});
  std::uint64_t left = count.raw;
  std::string pinned;
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    const search::AxisFacts& f = search::kAxisFacts[i];
    const std::vector<search::Value>& values = space.axes[i];
    left -= count.removed.at_axis[i];
    if (values.size() == 1 && count.removed.at_axis[i] == 0) {
      pinned += fmt::format("{}{} {}", pinned.empty() ? "" : ", ", f.name, values[0].word);
      continue;
    }
    row(axes, {std::string(f.name), std::to_string(values.size()), whole(left)}, words(values));
  }
  out += axes.text(0, style);
  if (!pinned.empty()) out += "\n" + wrapped("pinned: " + pinned, 96, "        ") + "\n";
  out += "\n";
  Table rules({{"rule"}, {"removed", Align::right}, {"what it asks for"}});
  for (std::size_t i = 0; i < search::rules().size(); ++i) {
    if (count.removed.by_rule[i] == 0) continue;
    const search::Rule& r = search::rules()[i];
    const std::string repeats = r.ground == search::Ground::repeat ? "repeat: " : "";
    row(rules, {std::string(r.name), whole(count.removed.by_rule[i])},
        repeats + std::string(r.reason));
  }
  out += rules.text(0, style);
  if (const std::string unsaid = unsaid_values(space); !unsaid.empty()) {
    out += "\n" +
           wrapped("left out, as the framework's own file cannot say them: " + unsaid, 96, "") +
           "\n";
  }
  if (const std::string without = left_out(space); !without.empty()) {
    out += "\n" + wrapped("not asked, as the job itself breaks them: " + without, 96, "") + "\n";
  }
  out += fmt::format("\n{} = {} removed + {} legal\n", whole(count.raw),
                     whole(count.removed.total()), whole(count.legal));
  return out;
}

Node rules_node(const std::vector<const search::Rule*>& rules) {
  Node out = Node::sequence();
  for (const search::Rule* r : rules) out.append(Node::string(std::string(r->name)));
  return out;
}

Node space_node(const search::Space& space, const search::Count& count) {
  Node out = Node::mapping();
  out.set("raw", whole_node(count.raw));
  out.set("legal", whole_node(count.legal));
  Node axes = Node::sequence();
  std::uint64_t left = count.raw;
  for (std::size_t i = 0; i < search::kAxes; ++i) {
    left -= count.removed.at_axis[i];
    Node one = Node::mapping();
    one.set("axis", Node::string(std::string(search::kAxisFacts[i].name)));
    Node values = Node::sequence();
    for (const search::Value& v : space.axes[i]) values.append(Node::string(v.word));
    one.set("values", std::move(values));
    one.set("left", whole_node(left));
    axes.append(std::move(one));
  }
  out.set("axes", std::move(axes));
  Node unsaid = Node::sequence();
  for (const search::Space::LeftOut& v : space.left_out) {
    Node one = Node::mapping();
    one.set("axis", Node::string(std::string(search::facts_of(v.axis).name)));
    one.set("value", Node::string(v.word));
    unsaid.append(std::move(one));
  }
  out.set("left_out", std::move(unsaid));
  Node rules = Node::sequence();
  for (std::size_t i = 0; i < search::rules().size(); ++i) {
    const search::Rule& r = search::rules()[i];
    Node one = Node::mapping();
    one.set("rule", Node::string(std::string(r.name)));
    one.set("ground", Node::string(std::string(search::name_of(r.ground))));
    one.set("removed", whole_node(count.removed.by_rule[i]));
    one.set("reason", Node::string(std::string(r.reason)));
    one.set("source", Node::string(std::string(r.source)));
    rules.append(std::move(one));
  }
  out.set("rules", std::move(rules));
  return out;
}

std::string space_json(const search::Space& space, const search::Count& count,
                       const std::string& version) {
  Node out = document(version);
  out.set("space", space_node(space, count));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
