#include "eratos/reader/overlay.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "eratos/calibration/parameters.h"
#include "eratos/reader/decode.h"
#include "eratos/reader/fields.h"
#include "eratos/reader/ranges.h"
#include "eratos/text/yaml.h"

namespace eratos::reader {

namespace {

using text::Node;

constexpr std::string_view kPartSections[] = {"gemm", "attention", "elementwise", "collectives",
                                              "network"};
constexpr std::string_view kFrameworkSections[] = {"host", "overlap", "kernel", "memory", "loss"};

void check_sections(const Node& entry, const std::string& path,
                    std::span<const std::string_view> known, Diagnostics& bad) {
  if (!entry.is_mapping()) {
    bad.push_back(entry.mismatch(path, "a mapping"));
    return;
  }
  for (const text::Entry& section : entry.entries()) {
    if (std::find(known.begin(), known.end(), section.key) != known.end()) continue;
    bad.push_back(
        {.where = section.key_location(),
         .message = fmt::format("a calibration does not change `{}.{}`", path, section.key),
         .cure = fmt::format("it has {}", list_of({known.begin(), known.end()})),
         .field = text::join_path(path, section.key)});
  }
}

// Bytes of the loss decide what is held, and whether it is fused what is launched: not a fit's.
void check_loss(const Node& entry, const std::string& path, Diagnostics& bad) {
  const Node* loss = entry.find("loss");
  if (loss == nullptr) return;
  for (const text::Entry& each : loss->entries()) {
    const std::string key = "loss." + each.key;
    if (calibration::find_parameter(key) != nullptr) continue;
    bad.push_back({.where = each.key_location(),
                   .message = fmt::format("a calibration does not change `{}.{}`", path, key),
                   .cure = "say it in the job, under `framework`",
                   .field = text::join_path(path, key)});
  }
}

void check_numbers(const Node& root, Diagnostics& bad) {
  std::vector<std::string> paths;
  for (const calibration::Parameter& p : calibration::parameters()) {
    const bool part = p.owner == calibration::Owner::part;
    paths.push_back((part ? "parts.*." : "frameworks.*.") + std::string(p.path));
  }
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const calibration::Parameter& p = calibration::parameters()[i];
    const bool or_zero = p.owner == calibration::Owner::framework;
    ranges.push_back({paths[i], p.least, std::max(p.most, or_zero ? 1.0 : p.most), "", or_zero});
  }
  check_ranges(root, "", ranges, bad);
}

void append(const Diagnostics& more, Diagnostics& to) { to.insert(to.end(), more.begin(), more.end()); }

void check_framework(const text::Entry& entry, const Overlay& overlay, Diagnostics& bad) {
  const DataFile* file = find_file(Kind::frameworks, entry.key);
  if (file == nullptr) {
    const std::string near = nearest_name(entry.key, names_of(Kind::frameworks));
    bad.push_back({.where = entry.key_location(),
                   .message = fmt::format("unknown framework `{}`", entry.key),
                   .cure = near.empty() ? "`eratos list frameworks` shows the known ones"
                                        : fmt::format("did you mean `{}`?", near),
                   .field = text::join_path("frameworks", entry.key)});
    return;
  }
  auto whole = load_tree(Kind::frameworks, entry.key, &overlay);
  if (!whole) return append(whole.error(), bad);
  if (auto decoded = decode_framework(*whole, "frameworks." + entry.key); !decoded) {
    append(decoded.error(), bad);
  }
}

// Parts that the catalogue does not have are the user's own descriptions; a name close to a known
// one is taken for a typing error.
void check_part(const text::Entry& entry, const Overlay& overlay, Diagnostics& bad) {
  if (find_file(Kind::accelerators, entry.key) == nullptr) {
    const std::string near = nearest_name(entry.key, names_of(Kind::accelerators));
    if (near.empty()) return;
    bad.push_back({.where = entry.key_location(),
                   .message = fmt::format("unknown accelerator `{}`", entry.key),
                   .cure = fmt::format("did you mean `{}`?", near),
                   .field = text::join_path("parts", entry.key)});
    return;
  }
  auto part = load_accelerator(entry.key);
  if (!part) return append(part.error(), bad);
  if (auto loaded = load_calibration(*part, &overlay); !loaded) append(loaded.error(), bad);
}

// `of_job` where it differs from `known`, else `changed`.
Node chosen(const Node& of_job, const Node& known, const Node& changed) {
  if (!of_job.is_mapping()) return of_job == known ? changed : of_job;
  Node out = Node::mapping();
  for (const text::Entry& entry : of_job.entries()) {
    const Node* was = known.find(entry.key);
    const Node* now = changed.find(entry.key);
    out.set(entry.key,
            was != nullptr && now != nullptr ? chosen(entry.value, *was, *now) : entry.value);
  }
  return out;
}

}  // namespace

Node Overlay::of_part(std::string_view name) const {
  for (const text::Entry& entry : parts.entries()) {
    const DataFile* known = find_file(Kind::accelerators, entry.key);
    if (entry.key == name || (known != nullptr && known->name == name)) return entry.value;
  }
  return {};
}

Node Overlay::of_framework(const DataFile& wanted) const {
  for (const text::Entry& entry : frameworks.entries()) {
    if (find_file(Kind::frameworks, entry.key) == &wanted) return entry.value;
  }
  return {};
}

std::string Overlay::name() const {
  if (rows == 0) return fmt::format("calibrated ({})", file);
  return fmt::format("calibrated ({}, {} row{})", file, rows, rows == 1 ? "" : "s");
}

Result<Overlay> overlay_of(const Node& root, const std::string& file) {
  Diagnostics bad;
  Overlay out;
  out.file = file;
  Fields top(&root, "", bad);
  if (const Node* parts = top.get("parts")) out.parts = *parts;
  if (const Node* frameworks = top.get("frameworks")) out.frameworks = *frameworks;
  for (const char* of_the_fit : {"schema", "eratos", "source"}) top.skip(of_the_fit);
  if (const Node* fit = top.get("fit"); fit != nullptr && fit->find("rows") != nullptr) {
    if (auto rows = fit->find("rows")->as_int64("fit.rows")) {
      out.rows = static_cast<int>(*rows);
    } else {
      append(rows.error(), bad);
    }
  }
  top.finish();
  for (const auto& [node, key] : {std::pair{&out.parts, "parts"}, {&out.frameworks, "frameworks"}}) {
    if (!node->is_null() && !node->is_mapping()) bad.push_back(node->mismatch(key, "a mapping"));
  }
  if (root.is_mapping() && out.parts.is_null() && out.frameworks.is_null()) {
    bad.push_back({.where = root.where(),
                   .message = "a calibration has `parts` or `frameworks`; this file has neither",
                   .cure = "`eratos calibrate` writes one"});
  }
  const Node& parts = out.parts;
  const Node& frameworks = out.frameworks;
  for (const text::Entry& part : parts.entries()) {
    check_sections(part.value, "parts." + part.key, kPartSections, bad);
  }
  for (const text::Entry& profile : frameworks.entries()) {
    check_sections(profile.value, "frameworks." + profile.key, kFrameworkSections, bad);
    check_loss(profile.value, "frameworks." + profile.key, bad);
  }
  check_numbers(root, bad);
  if (!bad.empty()) return faults(std::move(bad));
  for (const text::Entry& part : parts.entries()) check_part(part, out, bad);
  for (const text::Entry& profile : frameworks.entries()) check_framework(profile, out, bad);
  if (!bad.empty()) return faults(std::move(bad));
  return out;
}

Result<Overlay> read_overlay(const std::string& file) {
  const auto tree = text::parse_yaml_file(file);
  if (!tree) return faults(tree.error());
  return overlay_of(*tree, file);
}

Result<framework::FrameworkProfile> with_overlay(const framework::FrameworkProfile& of_job,
                                                 const Overlay& overlay) {
  if (overlay.frameworks.is_null()) return of_job;
  const std::string name = of_job.name + "@" + of_job.generation;
  const auto known = load_framework(name);
  const auto changed = load_framework(name, &overlay);
  if (!known) return faults(known.error());
  if (!changed) return faults(changed.error());
  Node tree = chosen(framework_to_node(of_job), framework_to_node(*known),
                     framework_to_node(*changed));
  auto out = decode_framework(tree, "framework");
  if (out) out->source = of_job.source;
  return out;
}

bool speaks_of(const Overlay& overlay, const job::JobSpec& job) {
  std::string part = job.cluster.accelerator.name;
  for (int depth = 0; depth < 8 && !part.empty(); ++depth) {
    if (overlay.of_part(part).is_mapping()) return true;
    const auto spec = depth == 0 ? Result<hardware::AcceleratorSpec>(job.cluster.accelerator)
                                 : load_accelerator(part);
    const auto loaded = spec ? load_calibration(*spec) : Result<calibration::Calibration>{};
    part = loaded ? loaded->part.borrowed : "";
  }
  const std::string name = job.framework.name + "@" + job.framework.generation;
  const auto known = load_tree(Kind::frameworks, name);
  const auto changed = load_tree(Kind::frameworks, name, &overlay);
  return known && changed && !(*known == *changed);
}

}  // namespace eratos::reader
