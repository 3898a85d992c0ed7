// Between which two times does the makespan lie, and how many micro-batches does a rank hold at
// most, without ordering or simulating anything?
//
// A search may throw away a job on `lower` alone: it is proven, never above simulate()'s answer.
//
// Lower, for every schedule: a rank cannot start before a micro-batch has come down to its first
// virtual stage (fill), then runs all its work, and after its last backward a gradient has to go
// up from there to stage 0 (drain). Also: one micro-batch has to go down and up the whole model.
// A schedule adds what its own order forbids (Schedule::lower); 1F1B: a rank holds only p - r
// micro-batches, so each turn down the pipeline and back, transfers included, carries only so many.
//
// Upper: with more time for an action nothing ends earlier, so the makespan is at most the one with
// every chunk as slow as the slowest and every transfer spent computing (Schedule::upper_equal);
// and at most all work of all ranks one after another.
//
// Worked example: 1F1B, p = 2, m = 2, F = 10, B = 20, every send 3, overlapped: rank 1 has a fill
// of 10 + 3, work 2 (10 + 20) and a drain of 3 + 20: lower is 96, which is also simulate()'s
// answer. Upper is (2 + 1)(13 + 23) = 108.
#pragma once

#include <cstdint>
#include <optional>

#include "eratos/base/units.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

struct Bounds {
  Picoseconds lower = 0;
  Picoseconds upper = 0;
};

// O(p v), for 1f1b O(p^2); no allocation. Requires a shape that the schedule does not refuse.
Bounds bounds(const Schedule& schedule, const Shape& shape, const Costs& costs);

// Most micro-batch chunks (one chunk, one micro-batch) that `rank` holds at once, exactly, or
// nothing when the schedule has no closed form; find_peaks() then answers. For v = 1 a micro-batch
// chunk is a micro-batch of the stage.
//   gpipe m      1f1b min(m, p - rank)
//   interleaved-1f1b min(m v, 2 (p - rank - 1) + (v - 1) g + 1) for m a multiple of the group g
std::optional<std::int64_t> in_flight(const Schedule& schedule, const Shape& shape, int rank);

}  // namespace eratos::schedule
