// describe_job, describe_cluster, list_axes: what is there before anything is tried.
#include <algorithm>

#include "eratos/agent/json_parts.h"
#include "eratos/agent/tool_parts.h"
#include "eratos/search/axes.h"

namespace eratos::agent {

using text::Node;

ToolResult describe_job(Desk& desk, const Node& /*arguments*/) {
  const job::JobSpec& base = desk.session.space().base;
  Node out = object({{"job", desk.write_job ? desk.write_job(base) : Node::null()}});
  out.set("accelerators", Node::integer(base.cluster.gpus()));
  out.set("may_measure", Node::boolean(!desk.session.workshop().measures_with().empty() &&
                                       !desk.session.budget(Fidelity::measure).off()));
  return out;
}

ToolResult describe_cluster(Desk& desk, const Node& /*arguments*/) {
  const hardware::ClusterSpec& cluster = desk.session.space().base.cluster;
  const hardware::AcceleratorSpec& part = cluster.accelerator;
  const double margin = desk.session.workshop().options().memory_margin;
  Node peaks = Node::mapping();
  constexpr double kTera = 1e12;
  for (const DType format : {DType::fp32, DType::bf16, DType::fp8}) {
    const double peak = part.peak[static_cast<std::size_t>(format)].value;
    if (peak > 0) peaks.set(name_of(format), number_node(peak / kTera));
  }
  Node levels = Node::sequence();
  constexpr double kGiga = 1e9;
  for (const hardware::NetworkLevel& level : cluster.levels) {
    levels.append(object({{"accelerators", Node::integer(level.gpus)},
                          {"gb_per_s_of_one", number_node(level.bandwidth.value / kGiga)}}));
  }
  return object({{"name", string_node(cluster.name)},
                 {"accelerator", string_node(part.name)},
                 {"nodes", Node::integer(cluster.nodes)},
                 {"accelerators_per_node", Node::integer(cluster.gpus_per_node)},
                 {"memory_gib", gib_node(part.memory_visible.value)},
                 {"may_be_used_gib", gib_node(part.memory_visible.value * (1 - margin))},
                 {"memory_gb_per_s", number_node(part.memory_bandwidth.value / kGiga)},
                 {"peak_tflops", std::move(peaks)},
                 {"network", std::move(levels)}});
}

ToolResult list_axes(Desk& desk, const Node& arguments) {
  const search::Space& space = desk.session.space();
  const Node* asked = arguments.find("axis");
  std::size_t most = 24;
  std::optional<search::AxisId> only;
  if (asked != nullptr) {
    const auto axis = axis_of(asked->raw());
    if (!axis) return tl::unexpected<std::vector<std::string>>(axis.error());
    only = *axis;
    most = 255;
  }
  Node axes = Node::mapping();
  Node pinned = Node::mapping();
  for (const search::AxisFacts& f : search::kAxisFacts) {
    if (only && *only != f.id) continue;
    const std::vector<search::Value>& values = space.values(f.id);
    const std::string own = search::value_of_job(space, f.id).word;
    if (values.size() < 2 && !only) {
      pinned.set(f.name, string_node(values.empty() ? own : values[0].word));
      continue;
    }
    Node words = Node::sequence();
    for (std::size_t i = 0; i < std::min(values.size(), most); ++i) {
      words.append(string_node(values[i].word));
    }
    Node axis = object({{"what", string_node(f.what)}, {"own", string_node(own)}});
    if (values.size() > most) axis.set("of", Node::integer(static_cast<int>(values.size())));
    axis.set("values", std::move(words));
    axes.set(f.name, std::move(axis));
  }
  return object({{"axes", std::move(axes)}, {"cannot_change", std::move(pinned)}});
}

}  // namespace eratos::agent
