#include "eratos/reader/catalogue.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "eratos/calibration/borrow.h"
#include "eratos/calibration/parameters.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/error_classes.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/overlay.h"
#include "eratos/reader/ranges.h"
#include "eratos/text/csv.h"
#include "eratos/text/file.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

namespace {

constexpr std::string_view kUsersOwn = "the calibration of --calibration";

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// The value of a top-level `key:` line, found without parsing the file: finding a name must not
// cost the parsing of a whole folder.
std::string_view top_level(const DataFile& file, std::string_view key) {
  const std::string_view text = file.text;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    if (line.size() > key.size() && line[key.size()] == ':' && line.substr(0, key.size()) == key) {
      std::string_view value = line.substr(key.size() + 1);
      while (!value.empty() && value.front() == ' ') value.remove_prefix(1);
      while (!value.empty() && (value.back() == ' ' || value.back() == '\r'))
        value.remove_suffix(1);
      if (value.size() >= 2 && value.front() == '"') value = value.substr(1, value.size() - 2);
      return value;
    }
    at = end + 1;
  }
  return {};
}

std::vector<std::string> aliases_of(const DataFile& file) {
  std::vector<std::string> out;
  std::string word;
  for (const char c : top_level(file, "aliases")) {
    if (c == '[' || c == ']' || c == ',' || c == ' ' || c == '"') {
      if (!word.empty()) out.push_back(word);
      word.clear();
    } else {
      word += c;
    }
  }
  return out;
}

std::string generation_of(const DataFile& file) {
  return std::string(top_level(file, "generation"));
}

bool answers_to(const DataFile& file, const std::string& name) {
  if (lower(file.name) == name || lower(top_level(file, "name")) == name) return true;
  for (const std::string& alias : aliases_of(file)) {
    if (lower(alias) == name) return true;
  }
  return false;
}

const DataFile* find_framework(const std::string& name, const std::string& generation) {
  const DataFile* best = nullptr;
  for (const DataFile& file : data_files()) {
    if (file.folder != folder_of(Kind::frameworks) || !answers_to(file, name)) continue;
    if (!generation.empty() && generation_of(file) != generation) continue;
    if (best == nullptr || generation_of(file) > generation_of(*best)) best = &file;
  }
  return best;
}

Diagnostic unknown_name(Kind kind, std::string_view name) {
  std::vector<std::string> known = names_of(kind);
  Diagnostic d;
  d.message = "unknown " + std::string(word_of(kind)) + " `" + std::string(name) + "`";
  std::vector<std::string> all = known;
  // A framework is named with its generation or without: megatron@2026.06, megatron.
  for (const std::string& full : known) all.push_back(full.substr(0, full.find('@')));
  for (const DataFile& file : data_files()) {
    if (file.folder != folder_of(kind)) continue;
    for (std::string& alias : aliases_of(file)) all.push_back(std::move(alias));
  }
  const std::string near = nearest_name(name, all);
  d.cure = near.empty() ? "`eratos list " + std::string(folder_of(kind)) + "` shows the known ones"
                        : "did you mean `" + near + "`?";
  return d;
}

// Splits the last -NxM off. `nodes` stays 0 where there is none. Numbers beyond any cluster stop at
// one more than the most.
void split_size(std::string_view name, std::string_view& part, int& nodes, int& gpus) {
  part = name;
  nodes = 0;
  gpus = 0;
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return;
  const std::string_view size = name.substr(dash + 1);
  const std::size_t x = size.find_first_of("xX");
  if (x == std::string_view::npos || x == 0 || x + 1 == size.size()) return;
  const auto number = [](std::string_view digits) {
    int value = 0;
    for (const char c : digits) {
      if (c < '0' || c > '9') return -1;
      value = std::min(value * 10 + (c - '0'), hardware::kMostAccelerators + 1);
    }
    return value;
  };
  const int n = number(size.substr(0, x));
  const int m = number(size.substr(x + 1));
  if (n < 0 || m < 0) return;
  part = name.substr(0, dash);
  nodes = n;
  gpus = m;
}

// How unlike two parts are, for borrowing measurements: another architecture weighs more than any
// difference of peaks, another vendor more than that.
double unlikeness(const hardware::AcceleratorSpec& a, const hardware::AcceleratorSpec& b) {
  double far = 0;
  if (a.vendor != b.vendor) far += 1000;
  if (a.architecture != b.architecture) far += 100;
  const double pa = a.peak_of(DType::bf16).value;
  const double pb = b.peak_of(DType::bf16).value;
  if ((pa > 0) != (pb > 0)) far += 50;  // its tables would not have the format
  if (pa > 0 && pb > 0) far += std::abs(std::log(pa / pb));
  return far;
}

// A number of the parameter table said of a section that the part takes from its kin.
struct LateChange {
  const calibration::Parameter* parameter = nullptr;
  double value = 0;
};

// `change` without the numbers that alone do not make a section of `tree`.
text::Node without_late(const text::Node& tree, const text::Node& change,
                        std::vector<LateChange>& late) {
  text::Node out = change;
  for (const calibration::Parameter& p : calibration::parameters()) {
    if (p.owner != calibration::Owner::part) continue;
    const std::string path(p.path);
    const text::Node* said = text::find_at(change, path);
    const std::string section = path.substr(0, path.rfind('.'));
    if (said == nullptr || text::find_at(tree, section) != nullptr) continue;
    if (text::find_at(change, section)->size() > 1) continue;
    if (auto value = said->as_double(path)) late.push_back({&p, *value});
    const std::string above = section.substr(0, section.find('.'));
    if (above == section) {
      out.erase(above);
    } else {
      out.find(above)->erase(section.substr(above.size() + 1));
    }
  }
  return out;
}

void put_in(const std::vector<LateChange>& late, calibration::PartCalibration& part) {
  for (const LateChange& change : late) change.parameter->in_part(part) = change.value;
}

// The part's own tree with what is said instead of it. What is said of a section that is the kin's
// stays behind in `late`.
Result<calibration::Calibration> own_calibration(const hardware::AcceleratorSpec& part,
                                                 const DataFile* file, const text::Node& change,
                                                 std::vector<LateChange>& late) {
  text::Node tree = text::Node::mapping();
  tree.set("part", text::Node::string(part.name));
  tree.set("source", text::Node::string(std::string(kUsersOwn)));
  if (file != nullptr) {
    auto own = load_tree(Kind::calibrations, part.name);
    if (!own) return faults(own.error());
    tree = *std::move(own);
  }
  if (change.is_mapping()) tree = text::merge(std::move(tree), without_late(tree, change, late));
  return decode_calibration(tree);
}

Result<calibration::Calibration> calibration_of(const hardware::AcceleratorSpec& part, int depth,
                                                const Overlay* overlay) {
  // A description never has measurements of its own, whatever it is called.
  const DataFile* file = part.kin.empty() ? find_file(Kind::calibrations, part.name) : nullptr;
  const text::Node change = overlay != nullptr ? overlay->of_part(part.name) : text::Node();
  std::vector<LateChange> late;
  calibration::Calibration out;
  if (file != nullptr || change.is_mapping()) {
    auto own = own_calibration(part, file, change, late);
    if (!own) return faults(own.error());
    out = *std::move(own);
  }
  if (file == nullptr) {
    out.name = part.name;
    out.part.part = part.name;
    out.part.borrowed = part.kin;
    double nearest = std::numeric_limits<double>::infinity();
    for (const std::string& name : names_of(Kind::calibrations)) {
      if (!part.kin.empty()) break;
      auto kin = load_accelerator(name);
      if (!kin || kin->kind != part.kind) continue;
      if (const double far = unlikeness(part, *kin); far < nearest) {
        nearest = far;
        out.part.borrowed = name;
      }
    }
    if (out.part.borrowed.empty()) {
      return fault({.message = "nothing is measured of `" + part.name + "` or any of its kin"});
    }
    if (!change.is_mapping()) out.part.source = "borrowed from " + out.part.borrowed;
  }
  if (out.part.borrowed.empty()) {
    put_in(late, out.part);
    return out;
  }
  if (depth > 8) {
    return fault({.message = "the calibration of `" + part.name + "` borrows in a circle"});
  }
  auto kin_spec = load_accelerator(out.part.borrowed);
  if (!kin_spec) return faults(kin_spec.error());
  auto kin = calibration_of(*kin_spec, depth + 1, overlay);
  if (!kin) return faults(kin.error());
  calibration::borrow_from(out.part, part, kin->part, *kin_spec);
  put_in(late, out.part);
  if (file == nullptr) out.unmeasured = calibration::unmeasured(part, *kin_spec);
  return out;
}

// A table of errors of published runs: what bands are made from.
Result<std::vector<calibration::ErrorClass>> load_classes(std::string_view name) {
  const std::string path = "data/" + std::string(name) + ".csv";
  for (const DataFile& file : data_files()) {
    if (!file.folder.empty() || file.name != name) continue;
    auto table = text::parse_csv(file.text, path);
    if (!table) return faults(table.error());
    return read_error_classes(*table);
  }
  return fault({.message = path + " is not part of the program"});
}

// What the program was built with stays as it is: each file is parsed once, and copied.
Result<text::Node> tree_of(const DataFile& file) {
  static std::mutex guard;
  static std::unordered_map<const DataFile*, Result<text::Node>> known;
  const Result<text::Node>* tree = nullptr;
  {
    const std::scoped_lock lock(guard);
    auto at = known.find(&file);
    if (at == known.end()) {
      const std::string path =
          "data/" + std::string(file.folder) + "/" + std::string(file.name) + ".yaml";
      at = known.emplace(&file, text::parse_yaml(file.text, path)).first;
    }
    tree = &at->second;  // stays where it is, whatever is added
  }
  return *tree;
}

}  // namespace

Result<std::vector<calibration::ErrorClass>> load_anchored_classes(bool same_layout) {
  return load_classes(same_layout ? "anchored_residuals" : "anchored_residuals_other_layout");
}

std::string_view folder_of(Kind kind) {
  switch (kind) {
    case Kind::accelerators:
      return "accelerators";
    case Kind::clusters:
      return "clusters";
    case Kind::models:
      return "models";
    case Kind::frameworks:
      return "frameworks";
    case Kind::calibrations:
      return "calibrations";
  }
  return "";
}

std::string_view word_of(Kind kind) {
  std::string_view folder = folder_of(kind);
  return folder.substr(0, folder.size() - 1);
}

std::vector<std::string> names_of(Kind kind) {
  std::vector<std::string> out;
  for (const DataFile& file : data_files()) {
    if (file.folder != folder_of(kind)) continue;
    if (kind == Kind::frameworks) {
      out.push_back(std::string(top_level(file, "name")) + "@" + generation_of(file));
    } else {
      out.emplace_back(file.name);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

const DataFile* find_file(Kind kind, std::string_view name) {
  const std::string wanted = lower(name);
  if (kind == Kind::frameworks) {
    const std::size_t at = wanted.find('@');
    return find_framework(wanted.substr(0, at),
                          at == std::string::npos ? std::string() : wanted.substr(at + 1));
  }
  for (const DataFile& file : data_files()) {
    if (file.folder == folder_of(kind) && file.name == wanted) return &file;
  }
  for (const DataFile& file : data_files()) {
    if (file.folder == folder_of(kind) && answers_to(file, wanted)) return &file;
  }
  return nullptr;
}

Result<text::Node> load_tree(Kind kind, std::string_view name) {
  return load_tree(kind, name, nullptr);
}

Result<text::Node> load_tree(Kind kind, std::string_view name, const Overlay* overlay) {
  const DataFile* file = find_file(kind, name);
  if (file == nullptr) return fault(unknown_name(kind, name));
  Result<text::Node> tree = tree_of(*file);
  if (!tree || kind != Kind::frameworks) return tree;
  const text::Node change = overlay != nullptr ? overlay->of_framework(*file) : text::Node();
  const auto changed = [&](text::Node whole) {
    return change.is_mapping() ? text::merge(std::move(whole), change) : whole;
  };
  // A profile that says only what it changes stands on another one, which stands on none.
  const text::Node* base = tree->find("based_on");
  if (base == nullptr) return changed(*std::move(tree));
  const DataFile* under = find_file(kind, base->raw());
  if (under == nullptr || top_level(*under, "based_on") != std::string_view{}) {
    return fault({.where = base->where(),
                  .message = "`based_on: " + base->raw() + "` names no complete profile",
                  .cure = "name one whose file has no `based_on`",
                  .field = "based_on"});
  }
  auto whole = load_tree(kind, base->raw(), overlay);
  if (!whole) return whole;
  whole->erase("aliases");
  text::Node own = *std::move(tree);
  own.erase("based_on");
  return changed(text::merge(*std::move(whole), own));
}

Result<hardware::AcceleratorSpec> load_accelerator(std::string_view name) {
  auto tree = load_tree(Kind::accelerators, name);
  if (!tree) return faults(tree.error());
  return decode_accelerator(*tree);
}

Result<hardware::ClusterSpec> load_cluster(std::string_view name) {
  std::string_view part;
  int nodes = 0;
  int gpus = 0;
  split_size(name, part, nodes, gpus);
  if (part.size() != name.size() && (nodes < 1 || gpus < 1)) {
    return fault(
        {.message = "`" + std::string(name) + "` has no accelerators",
         .cure = "write PART-NxM with N and M at least 1, such as `" + std::string(part) + "-8x8`",
         .field = "cluster"});
  }
  if (const std::string many = too_many(nodes, gpus); !many.empty()) {
    return fault({.message = "`" + std::string(name) + "` has more than " +
                             std::to_string(hardware::kMostAccelerators) + " accelerators",
                  .cure = "choose fewer nodes or accelerators a node",
                  .field = "cluster"});
  }
  if (find_file(Kind::clusters, part) != nullptr) {
    auto tree = load_tree(Kind::clusters, part);
    if (!tree) return faults(tree.error());
    return decode_cluster(*tree, nodes, gpus);
  }
  if (find_file(Kind::accelerators, part) != nullptr) {
    auto spec = load_accelerator(part);
    if (!spec) return faults(spec.error());
    return hardware::derive_cluster(*spec, std::max(1, nodes),
                                    gpus > 0 ? gpus : spec->gpus_per_node);
  }
  const bool path = name.find('/') != std::string_view::npos ||
                    (name.size() > 5 && (name.substr(name.size() - 5) == ".yaml" ||
                                         name.substr(name.size() - 4) == ".yml"));
  if (path) {
    auto tree = text::parse_yaml_file(std::string(name));
    if (!tree) return faults(tree.error());
    return decode_cluster(*tree);
  }
  // A known part and something behind it: the size is what is wrong.
  if (const std::size_t dash = name.rfind('-'); dash != std::string_view::npos && part == name) {
    std::string_view known = name.substr(0, dash);
    while (known.ends_with('-')) known.remove_suffix(1);
    if (find_file(Kind::clusters, known) != nullptr ||
        find_file(Kind::accelerators, known) != nullptr) {
      return fault({.message = "`" + std::string(name.substr(dash + 1)) + "` of `" +
                               std::string(name) + "` is no size",
                    .cure = "write PART-NxM for N nodes of M accelerators, such as `" +
                            std::string(known) + "-8x8`",
                    .field = "cluster"});
    }
  }
  std::vector<std::string> known = names_of(Kind::accelerators);
  for (std::string& each : names_of(Kind::clusters)) known.push_back(std::move(each));
  const std::string near = nearest_name(lower(part), known);
  return fault({.message = "unknown accelerator or cluster `" + std::string(part) + "`",
                .cure = near.empty() ? "`eratos list accelerators` and `eratos list clusters` "
                                       "show the known ones; a file is given by its path"
                                     : "did you mean `" + near + "`?",
                .field = "cluster"});
}

Result<hardware::ClusterSpec> with_nodes(const hardware::ClusterSpec& cluster, int nodes) {
  if (nodes < 1) {
    return fault({.message = "a cluster has at least 1 node, not " + std::to_string(nodes),
                  .field = "cluster.nodes"});
  }
  if (std::string many = too_many(nodes, cluster.gpus_per_node); !many.empty()) {
    return fault(
        {.message = std::move(many), .cure = "choose fewer nodes", .field = "cluster.nodes"});
  }
  std::string_view part;
  int old_nodes = 0;
  int old_gpus = 0;
  split_size(cluster.name, part, old_nodes, old_gpus);
  const std::string wanted =
      std::string(part) + "-" + std::to_string(nodes) + "x" + std::to_string(cluster.gpus_per_node);
  const bool described = !cluster.accelerator.kin.empty();
  if (!described && (find_file(Kind::clusters, part) != nullptr ||
                     find_file(Kind::accelerators, part) != nullptr)) {
    return load_cluster(wanted);
  }
  if (hardware::follows_from_part(cluster)) {
    hardware::ClusterSpec out =
        hardware::derive_cluster(cluster.accelerator, nodes, cluster.gpus_per_node);
    out.name = wanted;
    out.source = cluster.source;
    return out;
  }
  hardware::ClusterSpec out = cluster;
  const int before = cluster.gpus();
  out.nodes = nodes;
  out.name = wanted;
  out.levels.clear();
  for (hardware::NetworkLevel level : cluster.levels) {
    if (level.gpus == before) level.gpus = out.gpus();
    level.gpus = std::min(level.gpus, out.gpus());
    if (out.levels.empty() || level.gpus > out.levels.back().gpus) out.levels.push_back(level);
  }
  return out;
}

Result<model::Architecture> load_model(std::string_view name) {
  auto tree = load_tree(Kind::models, name);
  if (!tree) return faults(tree.error());
  return decode_model(*tree);
}

std::string model_called(const std::string& name) {
  if (find_file(Kind::models, name) != nullptr) return name;
  for (const std::string& each : names_of(Kind::models)) {
    auto tree = load_tree(Kind::models, each);
    const text::Node* hub = tree ? tree->find("hf_id") : nullptr;
    if (hub != nullptr && hub->raw() == name) return each;
  }
  return {};
}

Result<framework::FrameworkProfile> load_framework(std::string_view name, const Overlay* overlay) {
  auto tree = load_tree(Kind::frameworks, name, overlay);
  if (!tree) return faults(tree.error());
  return decode_framework(*tree);
}

Result<calibration::Calibration> load_calibration(std::string_view accelerator) {
  auto part = load_accelerator(accelerator);
  if (!part) return faults(part.error());
  return load_calibration(*part);
}

Result<calibration::Calibration> load_calibration(const hardware::AcceleratorSpec& part,
                                                  const Overlay* overlay) {
  if (part.kind != "gpu" && part.kind != "cpu") {
    return fault({.message = "`" + part.name + "` is a " + part.kind + ", only GPUs and cores are modelled",
                  .field = "cluster"});
  }
  auto out = calibration_of(part, 0, overlay);
  if (!out) return out;
  auto errors = load_classes("residuals");
  if (!errors) return faults(errors.error());
  out->errors = *std::move(errors);
  return out;
}

}  // namespace eratos::reader
