// Problems with seeded times, bytes and limits.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/schedule/optimal.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule::testing {

// Owns what an OptimalProblem looks at.
struct OwnedProblem {
  Shape shape;
  Placement placement = Placement::looped;
  bool splits_backward = false;
  std::vector<ChunkCost> chunks;
  std::vector<LinkCost> links;
  Sends sends = Sends::overlapped;
  std::vector<std::int64_t> limits;

  OptimalProblem problem() const {
    return {.shape = shape,
            .placement = placement,
            .splits_backward = splits_backward,
            .costs = {.chunks = chunks, .links = links, .sends = sends, .limits = limits}};
  }
};

struct Draw {
  Placement placement = Placement::looped;
  bool splits_backward = false;
  Sends sends = Sends::overlapped;
  bool limited = false;
};

// Unequal times; with limits, between what one micro-batch holds on a rank and what all of them do.
inline OwnedProblem random_problem(const Shape& shape, const Draw& draw, Rng& rng) {
  OwnedProblem p;
  p.shape = shape;
  p.placement = draw.placement;
  p.splits_backward = draw.splits_backward;
  p.sends = draw.sends;
  const auto from = [&](std::int64_t low, std::uint64_t n) {
    return low + static_cast<std::int64_t>(rng.below(n));
  };
  for (int i = 0; i < slot_count(shape); ++i) {
    ChunkCost c;
    c.forward = from(1, 12);
    c.backward = from(1, 24);
    c.input_gradient = from(1, 12);
    c.weight_gradient = from(1, 12);
    c.held = from(1, 9);
    c.kept = from(0, 9);
    p.chunks.push_back(c);
    p.links.push_back({from(0, 5), from(0, 5)});
  }
  if (!draw.limited) return p;
  for (int rank = 0; rank < shape.pp; ++rank) {
    std::int64_t least = 0;  // held by one micro-batch, or by its W beside the chunks before
    std::int64_t below = 0;
    std::int64_t most = 0;
    for (int c = 0; c < shape.chunks; ++c) {
      const ChunkCost& cost = p.chunks[static_cast<std::size_t>(slot_of(shape, rank, c))];
      const std::int64_t top = draw.splits_backward ? std::max(cost.held, cost.kept) : cost.held;
      least = std::max(least, below + top);
      below += cost.held;
      least = std::max(least, below);
      most += top * shape.micro_batches;
    }
    p.limits.push_back(
        from(least, static_cast<std::uint64_t>(std::max<std::int64_t>(1, most - least))));
  }
  return p;
}

inline OwnedProblem equal_problem(const Shape& shape, bool splits_backward) {
  OwnedProblem p;
  p.shape = shape;
  p.splits_backward = splits_backward;
  p.chunks.assign(static_cast<std::size_t>(slot_count(shape)), ChunkCost{.forward = 10,
                                                                         .backward = 20,
                                                                         .held = 4,
                                                                         .input_gradient = 10,
                                                                         .weight_gradient = 10,
                                                                         .kept = 2});
  return p;
}

}  // namespace eratos::schedule::testing
