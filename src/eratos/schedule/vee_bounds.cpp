// Bounds of a V's makespan: below from the turns that its order repeats, above from its units.
//
// Below: on rank r, let pass x come before pass y in a micro-batch, and let y(k) come before x(k +
// d) in the rank's steady part, d as small as the block has it. Then x(k) -> ... -> y(k) -> x(k +
// d) ->
// ... is one chain of waits through other ranks and back, transfers included: each d micro-batches
// of the steady part take at least the time from x to y. Before the chain the rank has run all that
// its order has before; after it, all that is left, then the last gradient goes up to rank 0.
#include <algorithm>

#include "eratos/schedule/vee_pattern.h"

namespace eratos::schedule::vee {
namespace {

constexpr int kOrdered = 4;  // F0, F1, B1, B0

int floor_div(int a, int b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// How many micro-batches' pass the block has before `unit`.
int passes_before(int start, int unit, int m) {
  return std::clamp(floor_div(unit - 1 - start, kPasses) + 1, 0, m);
}

// One rank, while `ends` is when each of its passes of one micro-batch ends if nothing but its
// input holds it up.
struct Chains {
  const ChunkCost& down;
  const ChunkCost& up;
  int m;
  Steady steady;
  int start[kOrdered];
  Picoseconds ends[kOrdered];
  Picoseconds whole;  // of one micro-batch, all ranks
  Picoseconds drain;  // from B0 here to the end of B0 on rank 0

  Picoseconds takes(int pass) const {
    const ChunkCost& c = pass == f1 || pass == b1 ? up : down;
    return is_forward(pass) ? c.forward : c.input_gradient;
  }

  Picoseconds lower(int x, int y) const {
    const int d = (start[y] - start[x]) / kPasses + 1;
    const int first = std::max(0, -floor_div(start[x] - steady.first, kPasses));
    const int last = std::min(m - 1, floor_div(steady.last - start[y], kPasses));
    if (last < first) return 0;
    const int links = (last - first) / d;
    const int begin = start[x] + kPasses * first;
    const int end = start[y] + kPasses * (first + links * d);
    Picoseconds before = ends[f0] - takes(f0);
    Picoseconds after = 0;
    for (int pass = f0; pass < kOrdered; ++pass) {
      before += passes_before(start[pass], begin, m) * takes(pass);
      after += (m - passes_before(start[pass], end + 1, m)) * takes(pass);
    }
    const Picoseconds weights = (m - passes_before(start[b1], end + 1, m)) * up.weight_gradient +
                                (m - passes_before(start[b0], end + 1, m)) * down.weight_gradient;
    const Picoseconds turn = ends[y] - ends[x] + takes(x);
    return before + (links + 1) * turn +
           std::max({after + drain, after + weights, whole - ends[y]});
  }
};

}  // namespace

Picoseconds lower(int (*start)(int p, int rank, int pass), Steady (*steady)(const Shape&, int rank),
                  const Shape& s, const Costs& costs) {
  const int p = s.pp;
  const auto chunk = [&](int rank, int which) -> const ChunkCost& {
    return costs.chunks[static_cast<std::size_t>(slot_of(s, rank, which))];
  };
  // Of the way through all ranks: to the end of the last F1, and to that of B0 on rank 0.
  Picoseconds forward = 0;
  Picoseconds backward = 0;
  for (int r = 0; r < p; ++r) {
    forward += chunk(r, 0).forward + chunk(r, 1).forward;
    backward += chunk(r, 0).input_gradient + chunk(r, 1).input_gradient;
    if (r + 1 == p) break;
    forward += send_forward(costs, slot_of(s, r, 0)) + send_forward(costs, slot_of(s, r + 1, 1));
    backward += send_backward(costs, slot_of(s, r, 1)) + send_backward(costs, slot_of(s, r + 1, 0));
  }
  Picoseconds best = 0;
  Picoseconds ends[kOrdered] = {0, forward, forward, forward + backward};
  Picoseconds drain = 0;
  for (int r = 0; r < p; ++r) {
    if (r > 0) {
      ends[f0] += send_forward(costs, slot_of(s, r - 1, 0));
      ends[f1] -= chunk(r - 1, 1).forward + send_forward(costs, slot_of(s, r, 1));
      ends[b1] += send_backward(costs, slot_of(s, r - 1, 1));
      const Picoseconds up =
          chunk(r - 1, 0).input_gradient + send_backward(costs, slot_of(s, r, 0));
      ends[b0] -= up;
      drain += up;
    }
    ends[f0] += chunk(r, 0).forward;
    ends[b1] += chunk(r, 1).input_gradient;
    Chains c{chunk(r, 0), chunk(r, 1), s.micro_batches,    steady(s, r),
             {},          {},          forward + backward, drain};
    for (int pass = f0; pass < kOrdered; ++pass) {
      c.start[pass] = start(p, r, pass);
      c.ends[pass] = ends[pass];
    }
    for (int x = f0; x < kOrdered; ++x) {
      for (int y = x + 1; y < kOrdered; ++y) best = std::max(best, c.lower(x, y));
    }
  }
  return best;
}

Picoseconds upper(int units, const Shape& s, const Costs& costs) {
  Picoseconds pass = 0;
  Picoseconds pass_and_send = 0;
  Picoseconds send = 0;
  const auto take = [&](Picoseconds time, Picoseconds then) {
    pass = std::max(pass, time);
    pass_and_send = std::max(pass_and_send, time + then);
    send = std::max(send, then);
  };
  for (int r = 0; r < s.pp; ++r) {
    for (int chunk = 0; chunk < 2; ++chunk) {
      const int slot = slot_of(s, r, chunk);
      const ChunkCost& c = costs.chunks[static_cast<std::size_t>(slot)];
      // Chunk 0's forwards and chunk 1's gradients go down, where a rank is below; the others up.
      const bool forward_leaves = chunk == 0 ? r + 1 < s.pp : r > 0;
      const bool gradient_leaves = chunk == 1 ? r + 1 < s.pp : r > 0;
      take(c.forward, forward_leaves ? send_forward(costs, slot) : 0);
      take(c.input_gradient, gradient_leaves ? send_backward(costs, slot) : 0);
      take(c.weight_gradient, 0);
    }
  }
  // Blocking: before any pass there may be a gap as long as the longest transfer.
  return units * (costs.sends == Sends::blocking ? pass + send : pass_and_send);
}

}  // namespace eratos::schedule::vee
