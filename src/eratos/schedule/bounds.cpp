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

Boundary boundary_below(const Schedule& schedule, const Shape& s, const Costs& costs, int stage,
                        int copy) {
  const int here = slot_at(s, schedule.placement, stage, copy);
  const int below = slot_at(s, schedule.placement, stage + 1, copy);
  if (here / s.chunks == below / s.chunks) return {};
  return {send_forward(costs, here), send_backward(costs, below)};
}

// The least that one micro-batch's gradient takes to pass a chunk, and the least and the most work
// its whole backward is, whichever of BW and B with W the order holds.
Picoseconds least_gradient(const Schedule& schedule, const ChunkCost& c) {
  return schedule.splits_backward ? std::min(c.input_gradient, c.backward) : c.backward;
}
Picoseconds least_backward(const Schedule& schedule, const ChunkCost& c) {
  return schedule.splits_backward ? std::min(c.input_gradient + c.weight_gradient, c.backward)
                                  : c.backward;
}
Picoseconds most_backward(const Schedule& schedule, const ChunkCost& c) {
  return schedule.splits_backward ? std::max(c.input_gradient + c.weight_gradient, c.backward)
                                  : c.backward;
}
// What passes of the other direction can hide of F and a backward.
Picoseconds hideable(const Schedule& schedule, const ChunkCost& c) {
  return schedule.side_by_side ? c.forward_hideable + c.backward_hideable : 0;
}

// With a cut output layer: what lies between F and B of the last stage, and a rank's share.
Picoseconds output_turn(const Shape& s, const Costs& costs, int last_rank) {
  if (s.output == OutputLayer::last_stage) return 0;
  const OutputCost& o = costs.outputs[static_cast<std::size_t>(last_rank)];
  const Picoseconds first = o.output + costs.output_links.barrier;
  if (s.output == OutputLayer::one_barrier) return first;
  return first + o.output_gradient + costs.output_links.second_barrier;
}
Picoseconds output_work(const Shape& s, const Costs& costs, int rank, bool gradients_only) {
  if (s.output == OutputLayer::last_stage) return 0;
  const OutputCost& o = costs.outputs[static_cast<std::size_t>(rank)];
  Picoseconds work = o.output;
  // With one barrier no gradient waits for T.
  if (s.output != OutputLayer::one_barrier || !gradients_only) work += o.output_gradient;
  // All stand until the last collective is over.
  if (s.output == OutputLayer::interlaced) {
    work += costs.output_links.barrier + costs.output_links.second_barrier;
  }
  return work;
}

// All of one rank, and with blocking sends the gap that each send takes out of it. The last send of
// a rank comes after its last action, where the drain already counts it. `gradients_only`: without
// the W of a split backward.
Picoseconds work_of(const Schedule& schedule, const Shape& s, const Costs& costs, int rank,
                    bool gradients_only) {
  const Picoseconds m = micro_batches_of(s, schedule.placement);
  Picoseconds work = output_work(s, costs, rank, gradients_only);
  for (int chunk = 0; chunk < s.chunks; ++chunk) {
    const ChunkCost& c = chunk_at(costs, slot_of(s, rank, chunk));
    work += c.forward - hideable(schedule, c) +
            (gradients_only ? least_gradient(schedule, c) : least_backward(schedule, c));
  }
  work *= m;
  // Transfers of a pair leave side by side.
  if (costs.sends == Sends::overlapped || costs.links.empty() || schedule.side_by_side) return work;
  Picoseconds longest = 0;
  for (int chunk = 0; chunk < s.chunks; ++chunk) {
    const int stage = stage_of(s, schedule.placement, rank, chunk);
    if (stage + 1 < stage_count(s, schedule.placement)) {
      const Picoseconds down = boundary_below(schedule, s, costs, stage, 0).down;
      work += m * down;
      longest = std::max(longest, down);
    }
    if (stage > 0) {
      const Picoseconds up = boundary_below(schedule, s, costs, stage - 1, 0).up;
      work += m * up;
      longest = std::max(longest, up);
    }
  }
  return work - longest;
}

struct Ends {
  Picoseconds fill = 0;   // until a micro-batch can be at the chunk
  Picoseconds drain = 0;  // from a gradient that leaves it to the end of stage 0
};

// Of one copy, all the way down to `stage`; a stage that is stage_count() means one whole turn.
Ends ends_above(const Schedule& schedule, const Shape& s, const Costs& costs, int stage, int copy) {
  Ends e;
  const int stages = stage_count(s, schedule.placement);
  for (int above = 0; above < stage; ++above) {
    const ChunkCost& c = chunk_at(costs, slot_at(s, schedule.placement, above, copy));
    e.fill += c.forward;
    e.drain += least_gradient(schedule, c);
    if (above + 1 < stages) {
      const Boundary boundary = boundary_below(schedule, s, costs, above, copy);
      e.fill += boundary.down;
      e.drain += boundary.up;
    }
  }
  return e;
}

// A rank cannot begin before `fill`; it then has all its work, or all its gradients and then the
// drain, at whose end stage 0 owes the last W.
Picoseconds rank_lower(const Schedule& schedule, const Shape& s, const Costs& costs, int rank,
                       const Ends& e) {
  if (!schedule.splits_backward && s.output != OutputLayer::one_barrier) {
    return e.fill + work_of(schedule, s, costs, rank, false) + e.drain;
  }
  return std::max(e.fill + work_of(schedule, s, costs, rank, false),
                  e.fill + work_of(schedule, s, costs, rank, true) + e.drain);
}

// Fill and drain of a rank are the least of its chunks': looped and vee, those of the chunk nearest
// to stage 0, where both begin and end.
Picoseconds lower_for_any(const Schedule& schedule, const Shape& s, const Costs& costs) {
  const int stages = stage_count(s, schedule.placement);
  const int last = slot_at(s, schedule.placement, stages - 1) / s.chunks;
  Picoseconds best = 0;
  if (schedule.placement == Placement::bidirectional) {
    for (int rank = 0; rank < s.pp; ++rank) {
      const Ends down = ends_above(schedule, s, costs, rank, 0);
      const Ends up = ends_above(schedule, s, costs, s.pp - 1 - rank, 1);
      best = std::max(best,
                      rank_lower(schedule, s, costs, rank,
                                 {std::min(down.fill, up.fill), std::min(down.drain, up.drain)}));
    }
    for (int copy = 0; copy < 2; ++copy) {
      const Ends whole = ends_above(schedule, s, costs, stages, copy);
      best = std::max(best, whole.fill + whole.drain);
    }
    return best;
  }
  Ends e;
  for (int stage = 0; stage < stages; ++stage) {
    const int slot = slot_at(s, schedule.placement, stage);
    // Stages 0 .. p - 1 are on different ranks, and nearer to stage 0 than any other.
    if (stage < s.pp) best = std::max(best, rank_lower(schedule, s, costs, slot / s.chunks, e));
    const ChunkCost& c = chunk_at(costs, slot);
    e.fill += c.forward;
    e.drain += least_gradient(schedule, c);
    if (stage + 1 < stages) {
      const Boundary boundary = boundary_below(schedule, s, costs, stage, 0);
      e.fill += boundary.down;
      e.drain += boundary.up;
    }
  }
  return std::max(best, e.fill + output_turn(s, costs, last) + e.drain);
}

Picoseconds upper_for(const Schedule& schedule, const Shape& s, const Costs& costs) {
  const int stages = stage_count(s, schedule.placement);
  const int transfers = costs.sends == Sends::blocking ? 2 : 1;
  Picoseconds all = 0;
  Picoseconds forward = 0;
  Picoseconds backward = 0;
  Picoseconds down = 0;
  Picoseconds up = 0;
  for (int copy = 0; copy < copies_of(schedule.placement); ++copy) {
    for (int stage = 0; stage < stages; ++stage) {
      const ChunkCost& c = chunk_at(costs, slot_at(s, schedule.placement, stage, copy));
      Boundary boundary;
      if (stage + 1 < stages) boundary = boundary_below(schedule, s, costs, stage, copy);
      forward = std::max(forward, c.forward);
      backward = std::max(backward, most_backward(schedule, c));
      down = std::max(down, boundary.down);
      up = std::max(up, boundary.up);
      // A chain of waits meets an overlapped transfer once, a blocking one at most twice: it may
      // follow the sender's next action and come to the receiver's gap by another way.
      all += c.forward + most_backward(schedule, c) + transfers * (boundary.down + boundary.up);
    }
  }
  const bool cut = s.output != OutputLayer::last_stage;
  Picoseconds output = 0;
  if (cut) {
    OutputCost longest;
    for (int rank = 0; rank < s.pp; ++rank) {
      const OutputCost& o = costs.outputs[static_cast<std::size_t>(rank)];
      all += o.output + o.output_gradient;
      longest.output = std::max(longest.output, o.output);
      longest.output_gradient = std::max(longest.output_gradient, o.output_gradient);
    }
    const OutputLinks& l = costs.output_links;
    all += transfers * (l.broadcast + l.barrier + l.second_barrier);
    output = longest.output + longest.output_gradient + l.broadcast + l.barrier + l.second_barrier;
  }
  all *= micro_batches_of(s, schedule.placement);
  if (cut) {
    if (schedule.upper_cut == nullptr) return all;
    // With a share on either side, a pass has a gap for what it receives and one for what it sends.
    if (costs.sends == Sends::blocking) down = up = 2 * std::max(down, up);
    return std::min(all, schedule.upper_cut(s, costs, forward + down, backward + up, output));
  }
  if (schedule.upper != nullptr) all = std::min(all, schedule.upper(s, costs));
  if (schedule.upper_equal == nullptr) return all;
  // Blocking gaps are as long as the longer of a send and a receive, of either direction, and a
  // split backward has two of them, one after B and one after W.
  if (costs.sends == Sends::blocking) {
    down = std::max(down, up);
    up = schedule.splits_backward ? 2 * down : down;
  }
  return std::min(all, schedule.upper_equal(s, forward + down, backward + up));
}

}  // namespace

Bounds bounds(const Schedule& schedule, const Shape& shape, const Costs& costs) {
  ERATOS_CHECK(costs.chunks.size() == static_cast<std::size_t>(slot_count(shape)));
  Bounds b;
  b.lower = lower_for_any(schedule, shape, costs);
  if (schedule.lower != nullptr) b.lower = std::max(b.lower, schedule.lower(shape, costs));
  b.upper = upper_for(schedule, shape, costs);
  if (schedule.never_slower_than != nullptr) {
    const Schedule* const other = schedule.never_slower_than(shape, costs);
    if (other != nullptr) b.upper = std::min(b.upper, upper_for(*other, shape, costs));
  }
  return b;
}

std::optional<std::int64_t> in_flight(const Schedule& schedule, const Shape& shape, int rank) {
  if (schedule.in_flight == nullptr) return std::nullopt;
  return schedule.in_flight(shape, rank);
}

}  // namespace eratos::schedule
