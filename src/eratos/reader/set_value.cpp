#include "eratos/reader/set_value.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "eratos/reader/catalogue.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/hardware_file.h"
#include "eratos/reader/job_yaml.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

namespace {

using text::Node;

// Everything at or below `node` stands on the command line.
void place_all(Node& node, const Location& where) {
  node.set_place(where);
  if (node.is_sequence()) {
    for (Node& item : node.items()) place_all(item, where);
  } else if (node.is_mapping()) {
    for (text::Entry& entry : node.entries()) {
      entry.key_place = where;
      place_all(entry.value, where);
    }
  }
}

// A value is YAML; what is none is text (layout strings may start with `*`).
Node value_of(const std::string& text, const Location& where) {
  auto parsed = text::parse_yaml(text, where.file);
  Node out = parsed ? std::move(*parsed) : Node::string(text);
  place_all(out, where);
  return out;
}

// The path's first component that `tree` does not have is unknown. Keys that follow are compared
// with their siblings first, then with the last words of all paths ("tp" for "parallel.tp").
Diagnostic unknown_path(const Node& tree, const std::string& path, const Location& where) {
  Diagnostic d{.where = where, .message = "unknown key `" + path + "`", .field = path};
  std::vector<std::string> paths;
  std::vector<std::string> words;
  text::for_each_leaf(tree, [&](const std::string& each, const Node&) {
    paths.push_back(each);
    words.push_back(each.substr(each.rfind('.') == std::string::npos ? 0 : each.rfind('.') + 1));
  });
  const std::string last =
      path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
  std::string near;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != last) continue;
    if (!near.empty()) near += "` or `";
    near += paths[i];
  }
  if (near.empty()) near = nearest_name(path, paths);
  if (near.empty()) {
    const std::string word = nearest_name(last, words);
    for (std::size_t i = 0; i < words.size() && near.empty(); ++i) {
      if (!word.empty() && words[i] == word) near = paths[i];
    }
  }
  d.cure = near.empty() ? "`eratos import JOB` lists every key" : "did you mean `" + near + "`?";
  return d;
}

// `path` names a key of the written job, or something below one that takes mappings or lists.
bool is_known(const Node& tree, const std::string& path) {
  if (text::find_at(tree, path) != nullptr) return true;
  std::string parent = path;
  while (parent.rfind('.') != std::string::npos) {
    parent.resize(parent.rfind('.'));
    const Node* above = text::find_at(tree, parent);
    if (above == nullptr) continue;
    // Keys that a written model leaves out (its MoE part, say) are checked when it is read again.
    return above->is_sequence() || parent == "model" || parent.rfind("model.", 0) == 0;
  }
  return false;
}

constexpr std::string_view kHardware = "hardware.";

// hardware.FIELD changes the part or the network of the job's cluster, which no other set does.
void set_hardware(JobRead& read, const std::string& set, Diagnostics& bad) {
  const Location where{"--set " + set};
  if (read.job.cluster.accelerator.name.empty()) {
    bad.push_back({.where = where,
                   .message = "there is no cluster to change the hardware of",
                   .cure = "name one with --cluster",
                   .field = "cluster"});
    return;
  }
  const std::size_t equals = set.find('=');
  auto changed = with_hardware(
      read.job.cluster, std::string_view(set).substr(kHardware.size(), equals - kHardware.size()),
      std::string_view(set).substr(equals + 1));
  if (!changed) {
    for (Diagnostic d : changed.error()) {
      d.where = where;
      bad.push_back(std::move(d));
    }
    return;
  }
  read.job.cluster = *std::move(changed);
  auto& provenance = read.report.provenance;
  for (auto it = provenance.lower_bound("cluster.");
       it != provenance.end() && it->first.rfind("cluster.", 0) == 0;) {
    it = provenance.erase(it);
  }
  provenance["cluster"] = {
      .value = read.job.cluster.name, .origin = Origin::command_line, .where = where};
}

}  // namespace

Result<void> apply_cluster(JobRead& read, const std::string& cluster, int nodes) {
  hardware::ClusterSpec spec = read.job.cluster;
  bool sized_by_file = false;
  if (!cluster.empty()) {
    // A file keeps what it says of networks beyond its own number of nodes.
    const bool file = cluster.find('/') != std::string::npos || cluster.ends_with(".yaml") ||
                      cluster.ends_with(".yml");
    sized_by_file = file && nodes > 0;
    const auto sized_file = [&]() -> Result<hardware::ClusterSpec> {
      auto tree = text::parse_yaml_file(cluster);
      return tree ? decode_cluster(*tree, nodes) : faults(tree.error());
    };
    auto found = sized_by_file ? sized_file() : load_cluster(cluster);
    if (!found) {
      Diagnostics bad = found.error();
      for (Diagnostic& d : bad) {
        if (d.where.file.empty()) d.where.file = "--cluster " + cluster;
      }
      return faults(std::move(bad));
    }
    spec = std::move(*found);
  }
  if (nodes != 0 && !sized_by_file) {
    if (spec.accelerator.name.empty()) {
      return fault({.where = {"--nodes " + std::to_string(nodes)},
                    .message = "there is no cluster to change the number of nodes of",
                    .cure = "name one with --cluster",
                    .field = "cluster"});
    }
    auto sized = with_nodes(spec, nodes);
    if (!sized) {
      Diagnostics bad = sized.error();
      for (Diagnostic& d : bad) d.where.file = "--nodes " + std::to_string(nodes);
      return faults(std::move(bad));
    }
    spec = std::move(*sized);
  }
  if (cluster.empty() && nodes == 0) return {};
  read.job.cluster = std::move(spec);
  read.has_cluster = true;
  auto& provenance = read.report.provenance;
  for (auto it = provenance.lower_bound("cluster.");
       it != provenance.end() && it->first.rfind("cluster.", 0) == 0;) {
    it = provenance.erase(it);
  }
  provenance["cluster"] = {
      .value = read.job.cluster.name,
      .origin = Origin::command_line,
      .where = {nodes != 0 && cluster.empty() ? "--nodes " + std::to_string(nodes)
                                              : "--cluster " + cluster}};
  return {};
}

Result<void> apply_sets(JobRead& read, const std::vector<std::string>& sets,
                        const std::string& schedule) {
  std::vector<std::pair<std::string, Location>> all_sets;
  if (!schedule.empty()) {
    all_sets.push_back({"schedule.algorithm=" + schedule, {"--schedule " + schedule}});
  }
  for (const std::string& each : sets) all_sets.push_back({each, {"--set " + each}});
  if (all_sets.empty()) return {};
  Diagnostics bad;
  JobRead out = read;
  for (const std::string& each : sets) {
    if (each.rfind(kHardware, 0) != 0 || each.find('=') == std::string::npos) continue;
    set_hardware(out, each, bad);
  }
  if (!bad.empty()) return faults(std::move(bad));
  Node tree = job_to_node(out.job);
  restore_places(tree, out.report);
  // With adapters, so that their keys are known where the job has none.
  job::JobSpec adapted = out.job;
  adapted.lora.rank = std::max(1, adapted.lora.rank);
  const Node all = job_to_node(adapted, {.model = true, .framework = true, .cluster = true});
  std::set<std::string> touched;
  int nodes = 0;
  Location nodes_at;
  for (const auto& [each, where] : all_sets) {
    const std::size_t equals = each.find('=');
    if (equals == std::string::npos || equals == 0) {
      bad.push_back(
          {.where = where, .message = "no KEY=VALUE", .cure = "write --set parallel.tp=4"});
      continue;
    }
    const std::string path = each.substr(0, equals);
    if (path.rfind(kHardware, 0) == 0) continue;  // applied above
    Node value = value_of(each.substr(equals + 1), where);
    if (path == "cluster.nodes") {
      if (auto n = value.as_int64(path); n && *n >= 1 && *n <= 1'000'000) {
        nodes = static_cast<int>(*n);
        nodes_at = where;
      } else {
        bad.push_back(
            {.where = where, .message = "`cluster.nodes` must be an integer of 1 or more"});
      }
      continue;
    }
    if (!is_known(all, path)) {
      bad.push_back(unknown_path(all, path, where));
      continue;
    }
    const std::string top = path.substr(0, path.find('.'));
    Node* old = tree.find(top);
    if (top == "lora" && path != top && old != nullptr && old->is_null()) {
      *old = Node::mapping(old->place());
    }
    if (path.size() > top.size() && old != nullptr && old->is_scalar()) {
      if (top == "framework") {
        Node expanded = Node::mapping(old->place());
        expanded.set("profile", *old);
        *old = std::move(expanded);
      } else if (top == "model" || top == "cluster") {
        *old = *all.find(top);
      }
    }
    if (auto done = text::set_at(tree, path, std::move(value)); !done) {
      for (Diagnostic d : done.error()) {
        d.where = where;
        bad.push_back(std::move(d));
      }
      continue;
    }
    touched.insert(path);
    auto& provenance = out.report.provenance;
    for (auto it = provenance.lower_bound(path);
         it != provenance.end() && it->first.compare(0, path.size(), path) == 0;) {
      const bool below = it->first.size() == path.size() || it->first[path.size()] == '.';
      it = below ? provenance.erase(it) : std::next(it);
    }
    provenance[path] = {
        .value = each.substr(equals + 1), .origin = Origin::command_line, .where = where};
  }

  // Values that follow another one keep following it, unless they are set themselves.
  if (touched.contains("parallel.tp") && !touched.contains("parallel.etp")) {
    const auto etp = out.report.provenance.find("parallel.etp");
    if (etp != out.report.provenance.end() && etp->second.rule == kEtpFollowsTp) {
      (void)text::set_at(tree, "parallel.etp", *text::find_at(tree, "parallel.tp"));
    }
  }
  if (!bad.empty()) return faults(std::move(bad));
  auto job = decode_job(tree);
  if (!job) {
    Diagnostics found = job.error();
    locate(found, out.report);
    return faults(std::move(found));
  }
  out.job = std::move(*job);
  out.has_cluster = !out.job.cluster.accelerator.name.empty();
  if (nodes > 0) {
    if (auto done = apply_cluster(out, "", nodes); !done) {
      Diagnostics all_bad = done.error();
      for (Diagnostic& d : all_bad) d.where = nodes_at;
      return faults(std::move(all_bad));
    }
  }
  read = std::move(out);
  return {};
}

}  // namespace eratos::reader
