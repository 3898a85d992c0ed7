// How many bytes does each rank hold at most, and when? A micro-batch holds `held` bytes of a chunk
// from the start of F to the end of B or BW, `kept` from the end of B to the end of W, and its
// rank's share of a cut output layer from S to T. The order alone answers; times change nothing,
// since a rank runs one action at a time.
//
// Worked example: 1F1B, p = 2, m = 2, 10 bytes held a micro-batch: rank 0 peaks at 20 in its
// action 1 (F1), rank 1 at 10 in its action 0 (F0).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/schedule/registry.h"

namespace eratos::schedule {

struct ChunkCost;   // simulate.h
struct Costs;       // simulate.h
struct Interval;    // simulate.h
struct OutputCost;  // simulate.h

struct RankPeak {
  std::int64_t held = 0;     // bytes, what the action that runs adds included
  std::int64_t peak_at = 0;  // index into Order::of(rank): the first action that reaches it
};

// What an action does to the bytes of its rank.
struct Change {
  std::int64_t most = 0;   // at its highest moment, against before
  std::int64_t after = 0;  // once it is over, against before
};

struct Peaks {
  std::vector<RankPeak> ranks;          // [p]
  std::vector<std::int32_t> in_flight;  // [p * v] by slot: between F and B at that moment
  std::vector<std::int32_t> waiting;    // [p * v] by slot: between B and W at that moment
  std::vector<std::int32_t> outputs;    // [p] between S and T at that moment

  // Scratch, of one rank: by chunk and kind.
  std::vector<Change> changes;
  std::vector<std::int32_t> counts;
};

// Walks every action. chunks is [p * v] by slot, outputs [p] or empty; bytes must not be negative.
// Allocates only to grow `peaks`.
void find_peaks(const Order& order, std::span<const ChunkCost> chunks,
                std::span<const OutputCost> outputs, Peaks& peaks);

// Bytes a rank holds, as steps: `bytes` from `time` on. For pictures and traces.
struct Level {
  Picoseconds time = 0;
  std::int64_t bytes = 0;
};
// timeline is simulate()'s. One curve, from the rank's first action to its last.
std::vector<Level> memory_curve(const Order& order, int rank, const Costs& costs,
                                std::span<const Interval> timeline);

// The same peaks and counts without ordering all micro-batches. `order` is scratch: the schedule
// may leave the order of fewer micro-batches there, or nothing. peak_at is then an index into that
// order; it differs from the whole order's only when the tail of the step peaks.
// Errors: as make_order.
Result<void> find_peaks(const Schedule& schedule, const Shape& shape, const Costs& costs,
                        Order& order, Peaks& peaks);

}  // namespace eratos::schedule
