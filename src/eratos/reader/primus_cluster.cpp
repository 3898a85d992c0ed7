#include "eratos/reader/primus_cluster.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/ranges.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

namespace {

namespace fs = std::filesystem;
using text::Node;

constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;

// The ranges of decode_cluster.cpp in the units of these files.
constexpr Range kRanges[] = {
    {"target_cluster.num_nodes", 1, hardware::kMostAccelerators, ""},
    {"target_cluster.gpus_per_node", 1, hardware::kMostAccelerators, ""},
    {"hardware_config.node_bw", 1e-3, 1e7, "GB/s"},
    {"hardware_config.pod_bw", 1e-3, 1e7, "GB/s"},
    {"hardware_config.cluster_bw", 1e-3, 1e7, "GB/s", true},
    {"hardware_config.node_lat", 0, 1e6, "us"},
    {"hardware_config.pod_lat", 0, 1e6, "us"},
    {"hardware_config.cluster_lat", 0, 1e6, "us"},
    {"hardware_config.node_size", 1, hardware::kMostAccelerators, ""},
    {"hardware_config.pod_size", 1, hardware::kMostAccelerators, "", true},
    {"hardware_config.nics_per_node", 1, hardware::kMostAccelerators, "", true},
};

// A path of the checkout, from any folder inside it.
fs::path find_above(const std::string& file, const std::string& path) {
  std::error_code failed;
  if (fs::exists(path, failed)) return path;
  fs::path folder = fs::absolute(file, failed).lexically_normal().parent_path();
  for (;;) {
    if (fs::exists(folder / path, failed)) return folder / path;
    if (folder == folder.parent_path()) return {};
    folder = folder.parent_path();
  }
}

Node level(const char* name, const char* kind, Node gpus, double bandwidth, double latency,
           const char* topology) {
  Node out = Node::mapping();
  out.set("name", Node::string(name));
  out.set("kind", Node::string(kind));
  out.set("gpus", std::move(gpus));
  out.set("bandwidth_bytes_per_s", Node::number(bandwidth));
  out.set("latency_s", Node::number(latency));
  out.set("topology", Node::string(topology));
  return out;
}

// What the file says of its levels, in the catalogue's keys.
Result<Node> levels_of(const Node& root, bool amd) {
  Diagnostics bad;
  Fields top(root.find("hardware_config"), "hardware_config", bad);
  double node_bw = 0;
  double node_lat = 0;
  double pod_bw = 0;
  double pod_lat = 0;
  double cluster_bw = 0;
  double cluster_lat = 0;
  int node_size = 8;
  int pod_size = 0;
  int nics = 0;
  bool switched = true;
  std::string topology = "switch";
  top.require("node_bw", node_bw);
  top.read("node_lat", node_lat);
  top.require("pod_bw", pod_bw);
  top.read("pod_lat", pod_lat);
  top.read("cluster_bw", cluster_bw);
  top.read("cluster_lat", cluster_lat);
  top.read("node_size", node_size);
  top.read("pod_size", pod_size);
  top.read("nics_per_node", nics);
  top.read("switch_topology", switched);
  top.read("node_topology", topology);
  top.skip("vector_flops");
  top.finish();
  check_ranges(root, "", kRanges, bad);
  if (!bad.empty()) return faults(std::move(bad));
  if (nics < 1) nics = node_size;
  const double share = std::min(1.0, static_cast<double>(nics) / node_size);
  const char* inside = topology == "mesh" || topology == "xgmi" ? "mesh" : "switch";
  Node levels = Node::sequence();
  levels.append(level("node", amd ? "xgmi" : "nvlink", Node::integer(node_size), node_bw * kGiga,
                      node_lat * kMicro, inside));
  const bool beyond = pod_size > node_size && cluster_bw > 0;
  levels.append(level("pod", "roce", beyond ? Node::integer(pod_size) : Node::string("all"),
                      pod_bw * share * kGiga, pod_lat * kMicro, "switch"));
  if (beyond) {
    levels.append(level("cluster", "roce", Node::string("all"), cluster_bw * share * kGiga,
                        cluster_lat * kMicro, "switch"));
  }
  return levels;
}

}  // namespace

bool is_primus_cluster(const Node& root) {
  for (const char* key : {"hardware_config", "target_cluster"}) {
    const Node* part = root.find(key);
    if (part != nullptr && part->is_mapping()) return true;
  }
  return false;
}

Result<Node> primus_cluster_tree(const Node& root) {
  const std::string file = root.where().file;
  std::string part = fs::path(file).stem().string();
  std::string name = "primus-" + part;
  int nodes = 1;
  int per_node = 0;
  Node hardware = root;
  Location part_at = root.where();
  if (const Node* target = root.find("target_cluster"); target != nullptr) {
    Diagnostics bad;
    Fields top(target, "target_cluster", bad);
    std::string path;
    top.read("name", name);
    top.require("num_nodes", nodes);
    top.read("gpus_per_node", per_node);
    if (top.require("gpu_arch", part)) part_at = target->find("gpu_arch")->where();
    top.read("hardware_config", path);
    top.skip("gpu_clock_mhz");  // primus_target.h
    top.finish();
    check_ranges(root, "", kRanges, bad);
    if (!bad.empty()) return faults(std::move(bad));
    if (root.find("hardware_config") == nullptr) {
      const fs::path found = path.empty() ? fs::path() : find_above(file, path);
      if (found.empty()) {
        return fault({.where = target->where(),
                      .message = path.empty() ? "`target_cluster.hardware_config` is missing"
                                              : "there is no `" + path + "` here or above",
                      .cure = "keep the file inside its Primus checkout",
                      .field = "cluster"});
      }
      auto read = text::parse_yaml_file(found.string());
      if (!read) return faults(read.error());
      hardware = std::move(*read);
    }
  }
  auto accelerator = load_accelerator(part);
  if (!accelerator) {
    Diagnostics bad = accelerator.error();
    for (Diagnostic& d : bad) {
      d.where = part_at;
      if (d.cure.empty()) d.cure = "name the file after its part, such as mi355x.yaml";
    }
    return faults(std::move(bad));
  }
  auto levels = levels_of(hardware, accelerator->vendor == "amd");
  if (!levels) return faults(levels.error());
  const Node* config = hardware.find("hardware_config");
  const Node* size = config == nullptr ? nullptr : config->find("node_size");
  if (per_node < 1) {
    per_node = size == nullptr ? accelerator->gpus_per_node
                               : static_cast<int>(size->as_int64().value_or(8));
  }
  Node out = Node::mapping(root.place());
  out.set("name", Node::string(name));
  out.set("accelerator", Node::string(accelerator->name));
  out.set("nodes", Node::integer(nodes));
  out.set("gpus_per_node", Node::integer(per_node));
  out.set("levels", std::move(*levels));
  out.set("source", Node::string(file));
  return out;
}

}  // namespace eratos::reader
