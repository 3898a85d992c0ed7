// Is each number of a file one that such a thing can have?
//
// A table says for each path the least and the most, so that a minus sign, an infinity, a NaN or
// GB/s written where bytes a second are asked for is a fault with line and column, whatever reads
// it later.
//
// Worked example: {"levels.*.latency_s", 0, 1, "s"} refuses `latency_s: -1`:
//   room.yaml:7:16: error: `cluster.levels.1.latency_s` is -1, no number from 0 to 1 s
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

struct Range {
  std::string_view path;  // dotted; `*` stands for every entry of a list or mapping
  double least;
  double most;
  std::string_view unit;  // "" of a count
  bool or_zero = false;   // 0 says that there is none, or that it is not known
};

// Faults every number of `root` that its range forbids. Words where numbers belong are left to the
// reader that asks for them. `prefix` is put before the paths of messages.
void check_ranges(const text::Node& root, std::string_view prefix, std::span<const Range> ranges,
                  Diagnostics& faults);

// "-1, no number from 0 to 1 s", or nothing where the value lies inside.
std::string outside(double value, const Range& range);

// What is wrong with a room of so many accelerators, or nothing.
std::string too_many(int nodes, int gpus_per_node);

}  // namespace eratos::reader
