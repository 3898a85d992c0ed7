#include "eratos/report/check.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/json.h"
#include "eratos/report/memory_table.h"
#include "eratos/report/quantity.h"
#include "eratos/report/text.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

// "activations 61.2 GiB (74.1%), optimizer 9.8 GiB (11.9%), ...", the largest first.
std::string holders(const memory::StageMemory& s) {
  std::vector<std::pair<const char*, Bytes>> parts{{"weights", s.parameters},
                                                   {"gradients", s.gradients},
                                                   {"optimizer", s.optimizer},
                                                   {"activations", s.activations},
                                                   {"transient", s.transient},
                                                   {"communicators", s.communication},
                                                   {"context and the like", s.framework},
                                                   {"allocator reserve", s.reserved - s.allocated}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& x, const auto& y) { return y.second < x.second; });
  std::string out;
  for (const auto& [name, bytes] : parts) {
    const double share = bytes / s.device;
    if (share < 0.01) break;
    out +=
        fmt::format("{}{} {} ({})", out.empty() ? "" : ", ", name, gib_text(bytes), percent(share));
  }
  return out;
}

}  // namespace

std::string nearby_table(const std::vector<Nearby>& nearby, const std::string& title,
                         const Style& style) {
  if (nearby.empty()) {
    return "no change of up to three settings, on up to 64 times the nodes, was found that fits\n";
  }
  Table table({{title}, {"device GiB", Align::right}, {"step at least", Align::right}});
  for (const Nearby& n : nearby) {
    table.row({n.change, gib_number(n.device_peak), duration(n.step_lower_bound)});
  }
  return table.text(0, style);
}

Node nearby_node(const std::vector<Nearby>& nearby) {
  Node list = Node::sequence();
  for (const Nearby& n : nearby) {
    Node one = Node::mapping();
    one.set("change", Node::string(n.change));
    one.set("device_peak_bytes", number(std::round(n.device_peak.value)));
    one.set("step_lower_bound_s", number(n.step_lower_bound.value));
    list.append(std::move(one));
  }
  return list;
}

std::string illegal_text(const std::vector<Nearby>& nearby, const Style& style) {
  return style.bad("not legal") + "\n\n" + nearby_table(nearby, "nearest that fits", style);
}

std::string check_text(const Answer& a, const std::vector<Nearby>& nearby, const Style& style) {
  const projection::MemoryAnswer& m = a.projection->memory;
  Table facts({{""}, {""}});
  facts.row({"legal", "yes"});
  facts.row({"memory", verdict(m, style)});
  if (!m.routing.even) facts.row({"routing", uneven_routing(m.routing)});
  const auto peak = static_cast<std::size_t>(m.peak_stage);
  if (!m.fits && peak < m.stages.size()) {
    facts.row({"", wrapped(holders(m.stages[peak]), 84, "        ")});
  }
  std::string out = headline(a, style) + '\n' + facts.text(0, style);
  if (!m.fits) out += '\n' + nearby_table(nearby, "nearest that fits", style);
  return out;
}

std::string check_json(const Answer& a, const std::vector<Nearby>& nearby) {
  const projection::MemoryAnswer& m = a.projection->memory;
  Node out = document(a.version);
  out.set("job", a.job);
  out.set("legal", Node::boolean(true));
  out.set("fits", Node::boolean(m.fits));
  out.set("memory", memory_node(m));
  out.set("nearest_that_fit", nearby_node(nearby));
  return text::to_json(out) + '\n';
}

std::string illegal_json(const Diagnostics& faults, const std::vector<Nearby>& nearby,
                         const std::string& version) {
  Node list = Node::sequence();
  for (const Diagnostic& d : faults) {
    Node one = Node::mapping();
    if (!d.where.file.empty()) one.set("file", Node::string(d.where.file));
    if (d.where.line > 0) one.set("line", Node::integer(d.where.line));
    if (d.where.column > 0) one.set("column", Node::integer(d.where.column));
    if (!d.field.empty()) one.set("field", Node::string(d.field));
    one.set("message", Node::string(d.message));
    if (!d.cure.empty()) one.set("cure", Node::string(d.cure));
    list.append(std::move(one));
  }
  Node out = document(version);
  out.set("legal", Node::boolean(false));
  out.set("faults", std::move(list));
  out.set("nearest_that_fit", nearby_node(nearby));
  return text::to_json(out) + '\n';
}

}  // namespace eratos::report
