#include "eratos/reader/ranges.h"

#include <cstdint>

#include <fmt/format.h>

#include "eratos/hardware/cluster.h"

namespace eratos::reader {

namespace {

void check(const text::Node& node, const std::string& path, std::string_view rest,
           const Range& range, Diagnostics& faults) {
  if (rest.empty()) {
    if (!node.is_scalar() || node.is_null()) return;
    const auto value = node.as_double(path);
    if (!value) return;
    std::string message = outside(*value, range);
    if (message.empty()) return;
    faults.push_back({.where = node.where(),
                      .message = "`" + path + "` is " + message,
                      .cure = {},
                      .field = path});
    return;
  }
  const std::size_t dot = rest.find('.');
  const std::string_view key = rest.substr(0, dot);
  const std::string_view below = dot == std::string_view::npos ? "" : rest.substr(dot + 1);
  if (node.is_mapping()) {
    for (const text::Entry& entry : node.entries()) {
      if (key != "*" && key != entry.key) continue;
      check(entry.value, text::join_path(path, entry.key), below, range, faults);
    }
  } else if (node.is_sequence() && key == "*") {
    for (std::size_t i = 0; i < node.items().size(); ++i) {
      check(node.items()[i], text::join_path(path, i), below, range, faults);
    }
  }
}

}  // namespace

std::string outside(double value, const Range& range) {
  if ((value >= range.least && value <= range.most) || (range.or_zero && value == 0)) return {};
  const std::string unit = range.unit.empty() ? "" : " " + std::string(range.unit);
  return fmt::format("{:g}, no number from {:g} to {:g}{}{}", value, range.least, range.most, unit,
                     range.or_zero ? ", nor 0" : "");
}

std::string too_many(int nodes, int gpus_per_node) {
  const auto all = static_cast<std::int64_t>(nodes) * gpus_per_node;
  if (all <= hardware::kMostAccelerators) return {};
  return fmt::format("a cluster of {} x {} = {} accelerators; at most {} are projected", nodes,
                     gpus_per_node, all, hardware::kMostAccelerators);
}

void check_ranges(const text::Node& root, std::string_view prefix, std::span<const Range> ranges,
                  Diagnostics& faults) {
  for (const Range& range : ranges) check(root, std::string(prefix), range.path, range, faults);
}

}  // namespace eratos::reader
