// A user's own times of a pipeline's stages: measured, or taken from another tool.
//
// A file has one entry for each virtual stage (a place in the model), in model order; or one for
// each chunk of each rank, told by `rank` and `chunk`. YAML and JSON hold a list, or a mapping with
// `stages`; CSV one row an entry. Every number has a unit: at the value (`12.1 ms`), in the key
// (`forward_ms`), or, in a mapping, once for all (`time_unit`, `memory_unit`).
//
// Worked example: the CSV
//   forward_ms,input_gradient_ms,weight_gradient_ms,held_gib
//   10,11,9,1.5
// has one stage: F 10 ms, B 11 ms, W 9 ms, BW 20 ms, 1.5 GiB held between F and B.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// One virtual stage, one micro-batch.
struct StageTimes {
  Picoseconds forward = 0;
  Picoseconds backward = 0;  // input_gradient + weight_gradient where only these are stated
  Picoseconds input_gradient = 0;
  Picoseconds weight_gradient = 0;
  Picoseconds send_forward = 0;   // to the stage after it
  Picoseconds send_backward = 0;  // to the stage before it
  std::int64_t held = 0;          // bytes
  std::int64_t kept = 0;          // bytes; `held` where the file does not say
};

struct Times {
  std::vector<StageTimes> stages;  // in model order
  bool split = false;              // every stage states input and weight gradient
  bool bytes = false;              // every stage states what it holds
  bool kept = false;               // and what of it waits for the weight gradient
  bool sends = false;              // at least one stage states a transfer
  int ranks = 0;                   // where the file tells ranks and chunks apart, else 0
};

// Keys: docs/USING.md, "Times of your own". Errors, all at once: unknown keys (with the nearest), a
// number without a unit, negative, not finite or too long, stages missing or given twice, a value
// that some stages have and others lack.
Result<Times> decode_times(const text::Node& root);
// By its name's end: .csv, .json, otherwise YAML. Errors as above, and those of the format.
Result<Times> read_times(const std::string& path);

// "12.1ms", "12.1 ms", "3e-3 s": s, ms, us, ns, ps. "1.5GiB": B, kB, MB, GB, TB, KiB, MiB, GiB,
// TiB. Nothing for other words, negative numbers and those that are not finite.
std::optional<Seconds> duration_of(std::string_view word);
std::optional<Bytes> size_of(std::string_view word);

}  // namespace eratos::reader
