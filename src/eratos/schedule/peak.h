// How many bytes does each rank hold at most between forwards and their backwards, and when?
// The order alone answers; times change nothing, since a rank runs one action at a time.
//
// Worked example: 1F1B, p = 2, m = 2, 10 bytes held a micro-batch: rank 0 peaks at 20 in its
// action 1 (F1), rank 1 at 10 in its action 0 (F0).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/schedule/registry.h"

namespace eratos::schedule {

struct ChunkCost;  // simulate.h

struct RankPeak {
  std::int64_t held = 0;     // bytes, the micro-batch in the forward that runs included
  std::int64_t peak_at = 0;  // index into Order::of(rank): the first forward that reaches it
};

struct Peaks {
  std::vector<RankPeak> ranks;          // [p]
  std::vector<std::int32_t> in_flight;  // [p * v] by slot: micro-batches held at that moment
};

// Walks every action. chunks is [p * v] by slot; bytes a micro-batch holds there must not be
// negative. Allocates only to grow `peaks`.
void find_peaks(const Order& order, std::span<const ChunkCost> chunks, Peaks& peaks);

// The same peaks and counts without ordering all micro-batches. `order` is scratch: the schedule
// may leave the order of fewer micro-batches there, or nothing. peak_at is then an index into that
// order; it differs from the whole order's only when the tail of the step peaks.
// Errors: as make_order.
Result<void> find_peaks(const Schedule& schedule, const Shape& shape,
                        std::span<const ChunkCost> chunks, Order& order, Peaks& peaks);

}  // namespace eratos::schedule
