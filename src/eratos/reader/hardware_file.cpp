#include "eratos/reader/hardware_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/hardware_names.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

namespace {

using hardware::AcceleratorSpec;
using text::Node;

// Said of a part, but no number of a projection: not worth a warning when the kin's stands in.
constexpr const char* kOnlySaid[] = {"name",
                                     "aliases",
                                     "vendor",
                                     "architecture",
                                     "kind",
                                     "confidence",
                                     "borrowed",
                                     "sources",
                                     "notes",
                                     "power_w",
                                     "kin",
                                     "shared_memory_per_unit_bytes",
                                     "scale_up.topology",
                                     "scale_up.link",
                                     "scale_up.in_switch_reduction",
                                     "nic_link",
                                     "any_layout_fp8",
                                     "gpus_per_node"};

bool only_said(const std::string& path) {
  return std::any_of(std::begin(kOnlySaid), std::end(kOnlySaid), [&](const char* each) {
    return path == each || path.rfind(std::string(each) + '.', 0) == 0;
  });
}

double number_at(const Node& root, const char* path) {
  const Node* node = text::find_at(root, path);
  return node == nullptr || !node->is_scalar() ? 0 : node->as_double().value_or(0);
}

// Distance of a description to a part of the catalogue, by what is stated.
double unlikeness(const Node& own, const Node& kin) {
  double far = 0;
  for (const auto& [key, weight] : {std::pair{"vendor", 1000.0}, {"architecture", 100.0}}) {
    const Node* mine = own.find(key);
    const Node* its = kin.find(key);
    if (mine != nullptr && its != nullptr && mine->raw() != its->raw()) far += weight;
  }
  for (const char* path :
       {"peak_flops_per_s.bf16", "peak_flops_per_s.fp16", "memory.bandwidth_bytes_per_s",
        "memory.visible_bytes", "memory.nominal_bytes", "scale_up.bandwidth_bytes_per_s",
        "nic_bytes_per_s", "clock_hz", "compute_units"}) {
    const double mine = number_at(own, path);
    const double its = number_at(kin, path);
    if (mine > 0 && its > 0) far += std::abs(std::log(mine / its));
    if (mine > 0 && its <= 0) far += 5;
  }
  return far;
}

std::string nearest_kin(const Node& own) {
  std::string best;
  double nearest = std::numeric_limits<double>::infinity();
  for (const std::string& name : names_of(Kind::accelerators)) {
    if (find_file(Kind::calibrations, name) == nullptr) continue;
    const auto tree = load_tree(Kind::accelerators, name);
    if (!tree) continue;
    if (const double far = unlikeness(own, *tree); far < nearest) {
      nearest = far;
      best = name;
    }
  }
  return best;
}

void add_names(const Node* list, std::vector<std::string>& to) {
  if (list == nullptr) return;
  for (const Node& each : list->items()) to.push_back(each.raw());
}

// A field's old number and VALUE to the new one.
Result<double> changed(double old, std::string_view value, const std::string& field) {
  const bool factor = !value.empty() && value.front() == 'x';
  const std::string_view digits = factor ? value.substr(1) : value;
  double number = 0;
  const auto [at, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || at != digits.data() + digits.size() || !(number > 0) ||
      !std::isfinite(number)) {
    return fault({.message = "`" + std::string(value) + "` is no positive number and no factor",
                  .cure = "write a number in the field's unit, or x2 for twice as much",
                  .field = field});
  }
  if (factor && old <= 0) {
    return fault({.message = "the part has no `" + field + "` to take a multiple of",
                  .cure = "give a number",
                  .field = field});
  }
  return factor ? old * number : number;
}

Node count_or_number(double value) {
  return value == std::floor(value) && std::abs(value) < 9e15
             ? Node::integer(static_cast<std::int64_t>(value))
             : Node::number(value);
}

Result<void> change_at(Node& tree, const std::string& path, std::string_view value) {
  const Node* old = text::find_at(tree, path);
  if (old != nullptr && old->is_mapping()) {
    std::vector<std::string> below;
    for (const text::Entry& each : old->entries()) below.push_back(each.key);
    for (const std::string& key : below) {
      if (auto done = change_at(tree, text::join_path(path, key), value); !done) return done;
    }
    return {};
  }
  const double before = old == nullptr ? 0 : old->as_double().value_or(0);
  const auto now = changed(before, value, path);
  if (!now) return faults(now.error());
  return text::set_at(tree, path, count_or_number(*now));
}

Result<hardware::ClusterSpec> with_level(const hardware::ClusterSpec& cluster,
                                         const std::string& field, std::string_view value) {
  Node tree = cluster_to_node(cluster);
  const Node* old = text::find_at(tree, field);
  if (old == nullptr || !old->as_double()) {
    return fault({.message = "unknown field `hardware." + field + "`",
                  .cure = "the cluster has levels 0 to " +
                          std::to_string(cluster.levels.size() - 1) +
                          " with gpus, bandwidth_bytes_per_s and latency_s",
                  .field = "hardware"});
  }
  if (auto done = change_at(tree, field, value); !done) return faults(done.error());
  return decode_cluster(tree);
}

}  // namespace

const std::vector<HardwareWord>& hardware_words() {
  static const std::vector<HardwareWord> kWords{
      {"compute", {"peak_flops_per_s"}},
      {"bandwidth", {"memory.bandwidth_bytes_per_s"}},
      {"capacity", {"memory.nominal_bytes", "memory.visible_bytes"}},
      {"scale_up", {"scale_up.bandwidth_bytes_per_s"}},
      {"domain", {"scale_up.domain_gpus"}},
      {"network", {"nic_bytes_per_s"}}};
  return kWords;
}

bool is_accelerator(const Node& root) {
  if (root.find("accelerator") != nullptr || root.find("levels") != nullptr) return false;
  for (const char* key : {"kin", "memory", "peak_flops_per_s", "scale_up", "architecture"}) {
    if (root.find(key) != nullptr) return true;
  }
  return false;
}

Result<AcceleratorSpec> complete_accelerator(const Node& own) {
  if (!own.is_mapping() || own.size() == 0) {
    return fault({.where = own.where(),
                  .message = "an accelerator is a name or a mapping",
                  .cure = "state at least `kin`, the part of the catalogue it is nearest to",
                  .field = "accelerator"});
  }
  std::string kin;
  if (const Node* node = own.find("kin"); node != nullptr && node->is_scalar()) {
    kin = node->raw();
  } else {
    kin = nearest_kin(own);
  }
  auto base = load_tree(Kind::accelerators, kin);
  if (!base) {
    Diagnostics bad = base.error();
    for (Diagnostic& d : bad) {
      d.where = own.find("kin") == nullptr ? own.where() : own.find("kin")->where();
      d.field = "kin";
    }
    return faults(std::move(bad));
  }
  const std::string kin_name = base->find("name")->raw();
  std::vector<std::string> borrowed;
  add_names(own.find("borrowed"), borrowed);
  text::for_each_leaf(*base, [&](const std::string& path, const Node&) {
    if (!only_said(path) && text::find_at(own, path) == nullptr) borrowed.push_back(path);
  });
  for (const char* key : {"name", "aliases", "confidence", "borrowed", "sources", "notes"}) {
    base->erase(key);
  }
  Node stated = own;
  stated.erase("kin");
  stated.erase("borrowed");
  // A part without a name is called by its file, and where it has none, by its kin.
  const std::string stem = std::filesystem::path(own.where().file).stem().string();
  const bool whole_file = is_accelerator(own) && own.where().line <= 1 && own.where().column <= 1;
  base->set("name", Node::string(whole_file && !stem.empty() ? stem : "like-" + kin_name));
  base->set("sources", Node::mapping());
  auto part = decode_accelerator(text::merge(*std::move(base), stated));
  if (!part) return part;
  if (part->source.empty()) part->source = "described by the user";
  part->kin = kin_name;
  part->borrowed = std::move(borrowed);
  return part;
}

Result<AcceleratorSpec> accelerator_of(const Node& node) {
  if (!node.is_scalar()) return complete_accelerator(node);
  const std::string& name = node.raw();
  if (find_file(Kind::accelerators, name) != nullptr) return load_accelerator(name);
  const bool path =
      name.find('/') != std::string::npos || name.ends_with(".yaml") || name.ends_with(".yml");
  if (!path) return load_accelerator(name);
  const std::filesystem::path beside =
      std::filesystem::path(node.where().file).parent_path() / name;
  auto tree = text::parse_yaml_file(beside.lexically_normal().string());
  if (!tree) return faults(tree.error());
  return complete_accelerator(*tree);
}

Node accelerator_to_node(const AcceleratorSpec& part) {
  Node out = Node::mapping();
  out.set("name", Node::string(part.name));
  if (!part.kin.empty()) out.set("kin", Node::string(part.kin));
  out.set("vendor", Node::string(part.vendor));
  out.set("architecture", Node::string(part.architecture));
  out.set("kind", Node::string(part.kind));
  const auto put = [](Node& to, std::string_view key, double value) {
    if (value > 0) to.set(key, count_or_number(value));
  };
  put(out, "compute_units", part.compute_units);
  put(out, "clock_hz", part.clock_hz);
  Node peaks = Node::mapping();
  for (const DType t :
       {DType::fp32, DType::tf32, DType::fp16, DType::bf16, DType::fp8, DType::fp4}) {
    put(peaks, name_of(t), part.peak_of(t).value);
  }
  out.set("peak_flops_per_s", std::move(peaks));
  Node memory = Node::mapping();
  put(memory, "nominal_bytes", part.memory_nominal.value);
  put(memory, "visible_bytes", part.memory_visible.value);
  put(memory, "bandwidth_bytes_per_s", part.memory_bandwidth.value);
  out.set("memory", std::move(memory));
  Node cache = Node::mapping();
  put(cache, "l2_bytes", part.l2_cache.value);
  put(cache, "last_level_bytes", part.last_level_cache.value);
  if (cache.size() > 0) out.set("cache", std::move(cache));
  Node links = Node::mapping();
  put(links, "bandwidth_bytes_per_s", part.scale_up.bandwidth.value);
  put(links, "domain_gpus", part.scale_up.domain_gpus);
  links.set("topology", Node::string(name_in(part.scale_up.topology, kTopologies)));
  links.set("link", Node::string(name_in(part.scale_up.link, kLinks)));
  links.set("in_switch_reduction", Node::boolean(part.scale_up.in_switch_reduction));
  out.set("scale_up", std::move(links));
  put(out, "host_link_bytes_per_s", part.host_link.value);
  put(out, "nic_bytes_per_s", part.nic_per_gpu.value);
  out.set("nic_link", Node::string(name_in(part.nic_link, kLinks)));
  if (part.any_layout_fp8) out.set("any_layout_fp8", Node::boolean(true));
  put(out, "gpus_per_node", part.gpus_per_node);
  put(out, "power_w", part.board_power_w);
  if (!part.confidence.empty()) out.set("confidence", Node::string(part.confidence));
  if (!part.borrowed.empty()) {
    Node list = Node::sequence();
    for (const std::string& field : part.borrowed) list.append(Node::string(field));
    out.set("borrowed", std::move(list));
  }
  return out;
}

Result<hardware::ClusterSpec> with_hardware(const hardware::ClusterSpec& cluster,
                                            std::string_view field, std::string_view value) {
  const std::string name(field);
  if (name.rfind("levels.", 0) == 0) return with_level(cluster, name, value);
  const AcceleratorSpec& before = cluster.accelerator;
  Node tree = accelerator_to_node(before);
  std::vector<std::string> paths;
  std::vector<std::string> known;
  for (const HardwareWord& each : hardware_words()) {
    known.emplace_back(each.word);
    if (each.word == field) paths.assign(each.paths.begin(), each.paths.end());
  }
  text::for_each_leaf(tree, [&](const std::string& path, const Node& leaf) {
    if (leaf.as_double()) known.push_back(path);
  });
  if (name == "peak_flops_per_s" ||
      (paths.empty() && std::find(known.begin(), known.end(), name) != known.end())) {
    paths.push_back(name);
  }
  if (paths.empty()) {
    return fault({.message = "unknown field `hardware." + name + "`",
                  .cure = suggestion(name, known),
                  .field = "hardware"});
  }
  for (const std::string& path : paths) {
    if (auto done = change_at(tree, path, value); !done) return faults(done.error());
  }
  if (tree == accelerator_to_node(before)) return cluster;
  // A part of the catalogue becomes its own kin: everything but the one field is measured.
  tree.set("kin", Node::string(before.kin.empty() ? before.name : before.kin));
  const std::string word = name + "=" + std::string(value);
  const std::size_t open = before.name.find('(');
  const std::string all = open == std::string::npos
                              ? before.name + "(" + word + ")"
                              : before.name.substr(0, before.name.size() - 1) + ", " + word + ")";
  tree.set("name", Node::string(all));
  auto part = complete_accelerator(tree);
  if (!part) return faults(part.error());
  part->borrowed = before.borrowed;
  part->source = before.source;
  hardware::ClusterSpec out = hardware::with_part(cluster, *part);
  const std::string size =
      "-" + std::to_string(cluster.nodes) + "x" + std::to_string(cluster.gpus_per_node);
  std::string room = cluster.name;
  if (room.ends_with(size)) room.resize(room.size() - size.size());
  const std::size_t at = room.find('(');
  room = at == std::string::npos ? room + "(" + word + ")"
                                 : room.substr(0, room.size() - 1) + ", " + word + ")";
  out.name = room + size;
  return out;
}

}  // namespace eratos::reader
