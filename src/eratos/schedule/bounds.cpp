#include "eratos/schedule/bounds.h"

#include <algorithm>
#include <cstddef>

#include "eratos/base/check.h"

namespace eratos::schedule {
namespace {

const ChunkCost& chunk_at(const Costs& costs, int slot) {
  return costs.chunks[static_cast<std::size_t>(slot)];
}

// Time of the transfers between virtual stages `stage` and `stage + 1`: 0 on one rank.
struct Boundary {
  Picoseconds down = 0;
  Picoseconds up = 0;
};

Boundary boundary_below(const Schedule& schedule, const Shape& s, const Costs& costs, int stage) {
  const int here = slot_at(s, schedule.placement, stage);
  const int below = slot_at(s, schedule.placement, stage + 1);
  if (here / s.chunks == below / s.chunks) return {};
  return {send_forward(costs, here), send_backward(costs, below)};
}

// All m micro-batches of one rank, and with blocking sends the gap that each send takes out of it.
// The last send of a rank comes after its last action, where the drain already counts it.
Picoseconds work_of(const Schedule& schedule, const Shape& s, const Costs& costs, int rank) {
  Picoseconds work = 0;
  for (int chunk = 0; chunk < s.chunks; ++chunk) {
    const ChunkCost& c = chunk_at(costs, slot_of(s, rank, chunk));
    work += c.forward + c.backward;
  }
  work *= s.micro_batches;
  if (costs.sends == Sends::overlapped || costs.links.empty()) return work;
  Picoseconds longest_up = 0;
  for (int chunk = 0; chunk < s.chunks; ++chunk) {
    const int stage = stage_of(s, schedule.placement, rank, chunk);
    if (stage + 1 < slot_count(s)) {
      work += s.micro_batches * boundary_below(schedule, s, costs, stage).down;
    }
    if (stage > 0) {
      const Picoseconds up = boundary_below(schedule, s, costs, stage - 1).up;
      work += s.micro_batches * up;
      longest_up = std::max(longest_up, up);
    }
  }
  return work - longest_up;
}

int first_stage_of(const Schedule& schedule, const Shape& s, int rank) {
  int first = slot_count(s);
  for (int chunk = 0; chunk < s.chunks; ++chunk) {
    first = std::min(first, stage_of(s, schedule.placement, rank, chunk));
  }
  return first;
}

// Fill and drain of a rank are those of its first virtual stage: its other chunks lie further from
// stage 0, where both begin and end.
Picoseconds lower_for_any(const Schedule& schedule, const Shape& s, const Costs& costs) {
  const int stages = slot_count(s);
  Picoseconds best = 0;
  Picoseconds fill = 0;
  Picoseconds drain = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const int slot = slot_at(s, schedule.placement, stage);
    const int rank = slot / s.chunks;
    if (stage == first_stage_of(schedule, s, rank)) {
      best = std::max(best, fill + work_of(schedule, s, costs, rank) + drain);
    }
    const ChunkCost& c = chunk_at(costs, slot);
    fill += c.forward;
    drain += c.backward;
    if (stage + 1 < stages) {
      const Boundary boundary = boundary_below(schedule, s, costs, stage);
      fill += boundary.down;
      drain += boundary.up;
    }
  }
  return std::max(best, fill + drain);
}

Picoseconds upper_for(const Schedule& schedule, const Shape& s, const Costs& costs) {
  const int stages = slot_count(s);
  const int transfers = costs.sends == Sends::blocking ? 2 : 1;
  Picoseconds all = 0;
  Picoseconds forward = 0;
  Picoseconds backward = 0;
  Picoseconds down = 0;
  Picoseconds up = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const ChunkCost& c = chunk_at(costs, slot_at(s, schedule.placement, stage));
    Boundary boundary;
    if (stage + 1 < stages) boundary = boundary_below(schedule, s, costs, stage);
    forward = std::max(forward, c.forward);
    backward = std::max(backward, c.backward);
    down = std::max(down, boundary.down);
    up = std::max(up, boundary.up);
    // A chain of waits meets an overlapped transfer once, a blocking one at most twice: it may
    // follow the sender's next action and come to the receiver's gap by another way.
    all += c.forward + c.backward + transfers * (boundary.down + boundary.up);
  }
  all *= s.micro_batches;
  if (schedule.upper_equal == nullptr) return all;
  // Blocking gaps are as long as the longer of a send and a receive, of either direction.
  if (costs.sends == Sends::blocking) down = up = std::max(down, up);
  return std::min(all, schedule.upper_equal(s, forward + down, backward + up));
}

}  // namespace

Bounds bounds(const Schedule& schedule, const Shape& shape, const Costs& costs) {
  ERATOS_CHECK(costs.chunks.size() == static_cast<std::size_t>(slot_count(shape)));
  Bounds b;
  b.lower = lower_for_any(schedule, shape, costs);
  if (schedule.lower != nullptr) b.lower = std::max(b.lower, schedule.lower(shape, costs));
  b.upper = upper_for(schedule, shape, costs);
  return b;
}

std::optional<std::int64_t> in_flight(const Schedule& schedule, const Shape& shape, int rank) {
  if (schedule.in_flight == nullptr) return std::nullopt;
  return schedule.in_flight(shape, rank);
}

}  // namespace eratos::schedule
