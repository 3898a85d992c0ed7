#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/hardware_file.h"
#include "eratos/reader/hardware_names.h"
#include "eratos/reader/primus_cluster.h"
#include "eratos/reader/ranges.h"

namespace eratos::reader {

namespace {

using hardware::kMostAccelerators;
using hardware::NetworkLevel;

// Wide: what no link has had or will have. Those of the part itself are in decode_accelerator.cpp.
constexpr Range kRanges[] = {
    {"nodes", 1, kMostAccelerators, ""},
    {"gpus_per_node", 1, kMostAccelerators, ""},
    {"levels.*.gpus", 1, kMostAccelerators, ""},
    {"levels.*.bandwidth_bytes_per_s", 1e6, 1e16, "bytes/s"},
    {"levels.*.latency_s", 0, 1, "s"},
    {"price_per_gpu_hour", 1e-6, 1e9, ""},
    {"power.load_w", 1, 1e6, "W"},
    {"power.idle_w", 1, 1e6, "W"},
    {"power.host_w", 0, 1e6, "W"},
    {"power.pue", 1, 10, ""},
};

void read_running(Fields& top, hardware::RunningCost& out) {
  top.read("price_per_gpu_hour", out.price_per_gpu_hour);
  Fields power = top.child("power");
  power.read("load_w", out.load_w);
  power.read("idle_w", out.idle_w);
  power.read("host_w", out.host_w);
  power.read("pue", out.pue);
  power.finish();
}

// What was said and no more.
void put_running(const hardware::RunningCost& cost, text::Node& out) {
  using text::Node;
  if (cost.price_per_gpu_hour > 0) {
    out.set("price_per_gpu_hour", Node::number(cost.price_per_gpu_hour));
  }
  Node power = Node::mapping();
  if (cost.load_w > 0) power.set("load_w", Node::number(cost.load_w));
  if (cost.idle_w > 0) power.set("idle_w", Node::number(cost.idle_w));
  if (cost.host_w > 0) power.set("host_w", Node::number(cost.host_w));
  if (cost.pue != 1) power.set("pue", Node::number(cost.pue));
  if (power.size() > 0) out.set("power", std::move(power));
}

// Levels that reach beyond the cluster stop at its edge; levels that add nothing go.
void add_level(hardware::ClusterSpec& cluster, NetworkLevel level, Diagnostics& bad,
               const Fields& at) {
  level.gpus = std::min(level.gpus, cluster.gpus());
  const int inside = cluster.levels.empty() ? 1 : cluster.levels.back().gpus;
  if (!cluster.levels.empty() && level.gpus <= inside) return;
  if (level.gpus % inside != 0) {
    bad.push_back({.where = at.where(),
                   .message = "a network level of " + std::to_string(level.gpus) +
                              " GPUs does not hold whole domains of " + std::to_string(inside),
                   .cure = "give each level a multiple of the one inside it",
                   .field = at.path()});
    return;
  }
  if (cluster.levels.size() == decltype(cluster.levels)::capacity()) {
    bad.push_back({.where = at.where(),
                   .message = "more than 4 network levels",
                   .cure = "join levels of the same rate",
                   .field = at.path()});
    return;
  }
  cluster.levels.push_back(level);
}

}  // namespace

Result<hardware::ClusterSpec> decode_cluster(const text::Node& root, int nodes, int gpus_per_node) {
  if (is_primus_cluster(root)) {
    auto tree = primus_cluster_tree(root);
    return tree ? decode_cluster(*tree, nodes, gpus_per_node) : faults(tree.error());
  }
  if (is_accelerator(root)) {
    auto part = complete_accelerator(root);
    if (!part) return faults(part.error());
    const int each = gpus_per_node > 0 ? gpus_per_node : part->gpus_per_node;
    if (std::string many = too_many(std::max(1, nodes), each); !many.empty()) {
      return fault({.message = std::move(many), .cure = "choose fewer nodes", .field = "cluster"});
    }
    return hardware::derive_cluster(*part, std::max(1, nodes), each);
  }
  Diagnostics bad;
  hardware::ClusterSpec cluster;
  Fields top(&root, "cluster", bad);
  std::string file_name;
  top.read("name", file_name);
  top.read("nodes", cluster.nodes);
  if (const text::Node* part = top.need("accelerator"); part != nullptr) {
    if (auto spec = accelerator_of(*part); spec) {
      cluster.accelerator = std::move(*spec);
    } else if (part->is_scalar() && spec.error().front().where.file.empty()) {
      for (const Diagnostic& d : spec.error()) top.fail("accelerator", d.message, d.cure);
    } else {
      bad.insert(bad.end(), spec.error().begin(), spec.error().end());
    }
  }
  if (file_name.empty()) {
    file_name = std::filesystem::path(root.where().file).stem().string();
    if (file_name.empty()) file_name = cluster.accelerator.name;
  }
  cluster.gpus_per_node = cluster.accelerator.gpus_per_node;
  top.read("gpus_per_node", cluster.gpus_per_node);
  if (nodes > 0) cluster.nodes = nodes;
  if (gpus_per_node > 0) cluster.gpus_per_node = gpus_per_node;
  check_ranges(root, "cluster", kRanges, bad);
  cluster.nodes = std::clamp(cluster.nodes, 1, kMostAccelerators);
  cluster.gpus_per_node = std::clamp(cluster.gpus_per_node, 1, kMostAccelerators);
  if (const std::string many = too_many(cluster.nodes, cluster.gpus_per_node); !many.empty()) {
    top.fail("nodes", many, "choose fewer nodes or accelerators a node");
    cluster.nodes = 1;
    cluster.gpus_per_node = 1;
  }
  cluster.name =
      file_name + "-" + std::to_string(cluster.nodes) + "x" + std::to_string(cluster.gpus_per_node);
  cluster.source = "described by the user";
  top.read("source", cluster.source);
  top.skip("notes");
  read_running(top, cluster.running);

  const text::Node* levels = top.get("levels");
  if (levels == nullptr && bad.empty()) {
    cluster.levels =
        hardware::derive_cluster(cluster.accelerator, cluster.nodes, cluster.gpus_per_node).levels;
  }
  if (levels != nullptr) {
    if (!levels->is_sequence() || levels->size() == 0) {
      top.fail("levels", "`cluster.levels` must be a list of network levels, innermost first");
    }
    for (std::size_t i = 0; i < levels->items().size(); ++i) {
      Fields each(&levels->items()[i], text::join_path("cluster.levels", i), bad);
      NetworkLevel level;
      each.skip("name");
      each.read_name("kind", level.kind, kLinks);
      if (const text::Node* gpus = each.need("gpus"); gpus != nullptr && gpus->raw() == "all") {
        level.gpus = cluster.gpus();
      } else if (gpus != nullptr) {
        each.read("gpus", level.gpus);
      }
      level.gpus = std::max(1, level.gpus);
      each.require("bandwidth_bytes_per_s", level.bandwidth.value);
      each.require("latency_s", level.latency.value);
      each.read_name("topology", level.topology, kTopologies);
      each.read("in_switch_reduction", level.in_switch_reduction);
      each.finish();
      add_level(cluster, level, bad, each);
    }
  }
  top.finish();
  if (!bad.empty()) return faults(std::move(bad));
  return cluster;
}

text::Node cluster_to_node(const hardware::ClusterSpec& cluster) {
  using text::Node;
  Node out = Node::mapping();
  std::string name = cluster.name;
  const std::string size =
      "-" + std::to_string(cluster.nodes) + "x" + std::to_string(cluster.gpus_per_node);
  if (name.size() > size.size() &&
      name.compare(name.size() - size.size(), size.size(), size) == 0) {
    name.resize(name.size() - size.size());
  }
  out.set("name", Node::string(name));
  out.set("accelerator", cluster.accelerator.kin.empty()
                             ? Node::string(cluster.accelerator.name)
                             : accelerator_to_node(cluster.accelerator));
  out.set("nodes", Node::integer(cluster.nodes));
  out.set("gpus_per_node", Node::integer(cluster.gpus_per_node));
  Node levels = Node::sequence();
  for (const NetworkLevel& level : cluster.levels) {
    Node each = Node::mapping();
    each.set("kind", Node::string(name_in(level.kind, kLinks)));
    each.set("gpus", Node::integer(level.gpus));
    each.set("bandwidth_bytes_per_s", Node::number(level.bandwidth.value));
    each.set("latency_s", Node::number(level.latency.value));
    each.set("topology", Node::string(name_in(level.topology, kTopologies)));
    each.set("in_switch_reduction", Node::boolean(level.in_switch_reduction));
    levels.append(std::move(each));
  }
  out.set("levels", std::move(levels));
  put_running(cluster.running, out);
  out.set("source", Node::string(cluster.source));
  return out;
}

}  // namespace eratos::reader
