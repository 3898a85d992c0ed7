// When does every action of an order run, and where does the time of each rank go?
//
// Exact integer event simulation, O(actions). This plain loop is the oracle for every faster way.
// F starts when its rank is free and its input has arrived from the stage before; B and BW when the
// rank is free and the gradient has arrived from the stage after (on the last stage: when its own
// forward is done); W when the rank is free, after its own B. An input arrives its link's time
// after the action that made it ends. A chunk whose neighbour is on the same rank sends nothing.
// With a cut output layer: S of a micro-batch starts when the last stage's F of it, broadcast, has
// arrived; the barrier is passed when every rank's S is done and its collective over; then T may
// start, and B of the last stage after the last barrier. These collectives have streams of their
// own: a rank only waits for them (interlaced: it stands still for them, as blocking sends do).
// Source: arXiv 2411.05288, section 6.1 and appendix B.2.
//
// Letters: order.h. Times are picoseconds, tables are by slot r * v + c.
//
// Worked example: 1F1B, p = 2, m = 2, F = 10, B = 20, every send 3.
//   overlapped   rank 0: F0 0-10  F1 10-20  B0 46-66  B1 76-96     makespan 96
//                rank 1: F0 13-23 B0 23-43  F1 43-53  B1 53-73
//   blocking     rank 0: F0 0-10  F1 13-23  B0 46-66  B1 79-99     makespan 99
//                rank 1: F0 13-23 B0 23-43  F1 46-56  B1 56-76
//   With free sends both are (m + p - 1)(F + B) = 90.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/peak.h"

namespace eratos::schedule {

// One chunk, one micro-batch.
struct ChunkCost {
  Picoseconds forward = 0;
  Picoseconds backward = 0;
  std::int64_t held = 0;  // bytes kept from the start of F to the end of B or BW
  // The halves of a split backward. They need not add up to `backward`.
  Picoseconds input_gradient = 0;
  Picoseconds weight_gradient = 0;
  std::int64_t kept = 0;  // bytes kept from the end of B to the end of W
  // Communication inside F and BW that a pass of the other direction, run side by side, can hide.
  Picoseconds forward_hideable = 0;
  Picoseconds backward_hideable = 0;
};

// A rank's share of a cut output layer, one micro-batch.
struct OutputCost {
  Picoseconds output = 0;           // S
  Picoseconds output_gradient = 0;  // T
  std::int64_t held = 0;            // bytes kept from the start of S to the end of T
};

// Collectives of a cut output layer, one micro-batch; all ranks take part.
struct OutputLinks {
  Picoseconds broadcast = 0;       // the last stage's output to all
  Picoseconds barrier = 0;         // after S
  Picoseconds second_barrier = 0;  // after T; read only with two barriers and interlaced
};

// F and BW (or B) run side by side: all compute, or all communication, whichever is longer, and no
// shorter than either alone.
// Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.1. Assumes: what can be hidden is hidden
// whole.
constexpr Picoseconds together(Picoseconds f, Picoseconds f_hideable, Picoseconds b,
                               Picoseconds b_hideable) {
  const Picoseconds hideable = f_hideable + b_hideable;
  Picoseconds t = f + b - hideable;
  if (t < hideable) t = hideable;
  if (t < f) t = f;
  return t < b ? b : t;
}

// What leaves this chunk: its activations to the chunk after it, its input gradient to the chunk
// before it. The first virtual stage's `backward` and the last one's `forward` are not read.
struct LinkCost {
  Picoseconds forward = 0;
  Picoseconds backward = 0;
};

enum class Sends : std::uint8_t {
  // The receiver waits for the data; neither side stops computing for a transfer.
  overlapped,
  // Sender and receiver stand still: a transfer takes its time out of the gap between two actions
  // on both sides, and the transfers of one gap run side by side, as Megatron-LM's batched
  // send_forward_recv_backward and its kin do.
  // Assumes: a sender is free after the transfer's own time even when the receiver comes late.
  blocking,
};

struct Costs {
  std::span<const ChunkCost> chunks;  // [p * v]
  std::span<const LinkCost> links;    // [p * v], or empty: every send is free
  Sends sends = Sends::overlapped;
  std::span<const OutputCost> outputs = {};  // [p] with a cut output layer
  OutputLinks output_links = {};
  // Most bytes of activations a rank may hold, for schedules that ask (registry.h): [p], or empty.
  std::span<const std::int64_t> limits = {};
};

// Time of the transfer that leaves `slot`, neighbours on one rank not considered.
constexpr Picoseconds send_forward(const Costs& c, int slot) {
  return c.links.empty() ? 0 : c.links[static_cast<std::size_t>(slot)].forward;
}
constexpr Picoseconds send_backward(const Costs& c, int slot) {
  return c.links.empty() ? 0 : c.links[static_cast<std::size_t>(slot)].backward;
}

// busy + transfer + idle == makespan on every rank.
struct RankTime {
  Picoseconds busy = 0;
  // The rank stands still and a transfer it takes part in is under way: with overlapped sends,
  // the input it waits for is on the link; with blocking ones, its own send or receive.
  Picoseconds transfer = 0;
  Picoseconds idle = 0;  // the bubble: fill, drain, and waiting for another rank's compute
  Picoseconds first_start = 0;
  Picoseconds last_end = 0;
};

struct Interval {
  Picoseconds start = 0;
  Picoseconds end = 0;
};

struct Timing {
  Picoseconds makespan = 0;
  // From one step to the next when ranks need not wait for one another in between (the optimizer
  // step is taken without a synchronisation and validated later, arXiv 2401.10241 section 4): the
  // longest that one rank takes from its first start to its last end.
  Picoseconds pitch = 0;
  // Most busy + transfer; of several, the one that ends last; of those, the lowest.
  int critical_rank = 0;
  std::vector<RankTime> ranks;  // [p]
  Peaks peaks;
};

// Scratch of simulate() and simulate_fast(): one a thread, used again and again.
class Workspace {
 public:
  struct Lane;     // event_loop.h
  struct Step;     // event_loop.h
  struct Special;  // event_loop.h
  struct Live;     // event_loop.h

  // Actions [from, to) of a rank, indices into Order::actions.
  struct Stretch {
    std::int32_t rank = 0;
    std::int64_t from = 0;
    std::int64_t to = 0;
  };

  Workspace();
  ~Workspace();
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;

  std::vector<Lane> lanes;                // [8 p v] by rank, chunk, kind
  std::vector<Picoseconds> ends;          // [rows m] end of an action; -1: has not run
  std::vector<std::int32_t> missing;      // [2 m] parts that a barrier still waits for
  std::vector<Picoseconds> barrier_ends;  // [2 m] latest of its parts that have run
  std::vector<std::int64_t> next;         // [p] next action of the rank
  std::vector<std::int64_t> limits;       // [p] where it stops
  std::vector<std::int64_t> waits_for;    // [p + 1] index into `ends`, or -1
  std::vector<Picoseconds> free_at;       // [p]
  std::vector<Picoseconds> sending;       // [p] blocking send still owed after free_at
  std::vector<std::int32_t> ready;        // ranks that can go on
  std::vector<Stretch> stretches;         // what ran, in order, where that is recorded

  // Of simulate_fast() alone; steady.cpp says what they are.
  std::vector<Step> steps;
  std::vector<Special> specials;  // [steps], or none
  std::int32_t low = 0;           // lowest and highest cell of them
  std::int32_t high = 0;
  std::vector<Live> live;
  std::vector<Picoseconds> tape;
  std::vector<Picoseconds> kept;       // [live]
  std::vector<Picoseconds> busy;       // [p] of one turn
  std::vector<Picoseconds> transfer;   // [p] of the turns so far
  std::vector<Picoseconds> sent;       // [p]
  std::vector<std::int64_t> cut;       // [p]
  std::vector<std::int64_t> lows;      // [p]
  std::vector<std::int64_t> highs;     // [p]
  std::vector<std::int64_t> lengths;   // [p]
  std::vector<std::int32_t> counts;    // [8 v]
  std::vector<std::int32_t> earliest;  // [p]
  std::vector<std::int32_t> latest;    // [p]
};

// timeline, if given, gets the interval of each of order.actions. No allocation once workspace,
// timing and timeline have seen the shape.
// Errors: an order that cannot complete (a diagnostic with the rank and the action that waits);
// costs of another shape and chunks or micro-batches out of range are a programmer's mistake.
Result<void> simulate(const Order& order, const Costs& costs, Workspace& workspace, Timing& timing,
                      std::vector<Interval>* timeline = nullptr);

}  // namespace eratos::schedule
