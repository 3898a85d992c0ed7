#include "eratos/reader/import_report.h"

#include "eratos/text/dump.h"

namespace eratos::reader {

std::string_view name_of(Origin origin) {
  switch (origin) {
    case Origin::user:
      return "file";
    case Origin::preset:
      return "preset";
    case Origin::framework_default:
      return "default";
    case Origin::derived:
      return "derived";
    case Origin::command_line:
      return "command line";
    case Origin::catalogue:
      return "catalogue";
  }
  return "?";
}

std::vector<std::string> ImportReport::defaults() const {
  std::vector<std::string> out;
  for (const auto& [path, from] : provenance) {
    if (from.origin == Origin::framework_default) out.push_back(path);
  }
  return out;
}

void locate(Diagnostics& diagnostics, const ImportReport& report) {
  for (Diagnostic& d : diagnostics) {
    if (!d.where.file.empty() || d.field.empty()) continue;
    std::string path = d.field;
    while (!path.empty()) {
      const auto exact = report.provenance.find(path);
      if (exact != report.provenance.end() && !exact->second.where.file.empty()) {
        d.where = exact->second.where;
        break;
      }
      // The first value inside the mapping stands for the mapping.
      const auto inside = report.provenance.lower_bound(path + ".");
      if (inside != report.provenance.end() &&
          inside->first.compare(0, path.size() + 1, path + ".") == 0 &&
          !inside->second.where.file.empty()) {
        d.where = inside->second.where;
        break;
      }
      const std::size_t dot = path.rfind('.');
      path.resize(dot == std::string::npos ? 0 : dot);
    }
  }
}

void for_each_value(
    const text::Node& tree, std::string_view prefix,
    const std::function<void(const std::string& path, const text::Node& value)>& see) {
  if (!tree.is_mapping()) {
    see(std::string(prefix), tree);
    return;
  }
  for (const text::Entry& entry : tree.entries()) {
    for_each_value(entry.value, text::join_path(prefix, entry.key), see);
  }
}

std::string shown(const text::Node& value) {
  if (value.is_null()) return "null";
  return value.is_scalar() ? value.raw() : text::to_json(value, 0);
}

void note_leaves(ImportReport& report, const text::Node& tree, std::string_view prefix,
                 Origin origin, std::string_view rule) {
  for_each_value(tree, prefix, [&](const std::string& path, const text::Node& value) {
    if (report.provenance.contains(path)) return;
    report.provenance[path] = {
        .value = shown(value), .origin = origin, .where = value.where(), .rule = std::string(rule)};
  });
}

}  // namespace eratos::reader
