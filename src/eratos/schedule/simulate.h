// When does every action of an order run, and where does the time of each rank go?
//
// Exact integer event simulation, O(actions). This plain loop is the oracle for every faster way.
// A forward starts when its rank is free and its input has arrived from the stage before; a
// backward when its rank is free and its gradient has arrived from the stage after (on the last
// stage: when its own forward is done). An input arrives its link's time after the action that
// made it ends. A chunk whose neighbour is on the same rank sends nothing.
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
  std::int64_t held = 0;  // bytes kept from the start of the forward to the end of the backward
};

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
  // Most busy + transfer; of several, the one that ends last; of those, the lowest.
  int critical_rank = 0;
  std::vector<RankTime> ranks;  // [p]
  Peaks peaks;
};

// Scratch of simulate(): one a thread, used again and again.
class Workspace {
 public:
  struct Lane;  // simulate.cpp

  Workspace();
  ~Workspace();
  Workspace(Workspace&&) noexcept;
  Workspace& operator=(Workspace&&) noexcept;

  std::vector<Lane> lanes;              // [2 p v] by rank, kind, chunk
  std::vector<Picoseconds> ends;        // [(2 p v + 1) m] end of an action; -1: has not run
  std::vector<std::int64_t> next;       // [p] next action of the rank
  std::vector<std::int64_t> waits_for;  // [p] index into `ends`, or -1
  std::vector<Picoseconds> free_at;     // [p]
  std::vector<Picoseconds> sending;     // [p] blocking send still owed after free_at
  std::vector<std::int32_t> ready;      // ranks that can go on
};

// timeline, if given, gets the interval of each of order.actions. No allocation once workspace,
// timing and timeline have seen the shape.
// Errors: an order that cannot complete (a diagnostic with the rank and the action that waits);
// costs of another shape and chunks or micro-batches out of range are a programmer's mistake.
Result<void> simulate(const Order& order, const Costs& costs, Workspace& workspace, Timing& timing,
                      std::vector<Interval>* timeline = nullptr);

}  // namespace eratos::schedule
