// The loop inside simulate() and simulate_fast(): each rank goes on until it misses an input or
// comes to its limit; whoever makes the input wakes it. Inside this room only.
//
// Between two calls of run() the state of a simulation is all here, in a Workspace: how far each
// rank has come, when it is free, and the ends of what has run. That set of actions is closed:
// whatever an action of it waits for is in it too.
#pragma once

#include <cstdint>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

// All that the loop asks of one (rank, kind, chunk).
struct alignas(64) Workspace::Lane {
  Picoseconds duration = 0;
  Picoseconds receive = 0;    // after the input's end, until it is here
  Picoseconds send = 0;       // how long a blocking send keeps the rank
  Picoseconds hideable = 0;   // of duration, beside a pass of the other direction
  std::int64_t own = 0;       // ends[own + micro_batch]
  std::int64_t input = 0;     // ends[input + micro_batch] of the action that makes the input
  std::int32_t consumer = 0;  // rank whose action takes the output; p: none, or this one
  std::int8_t barrier = -1;   // the barrier this action is one of p parts of
  bool to_all = false;        // every rank may wait for the output
  bool far = false;           // the input is made elsewhere, and not by the rank itself
};

// `ends` has a row of micro-batches for: nothing to wait for (always 0), F of each slot, B or BW of
// each slot, whatever nobody waits for, and the two barriers.
struct Rows {
  std::int64_t m = 0;
  std::int64_t slots = 0;

  std::int64_t forward(int slot) const { return (1 + slot) * m; }
  std::int64_t gradient(int slot) const { return (1 + slots + slot) * m; }
  std::int64_t unread() const { return (1 + 2 * slots) * m; }
  std::int64_t barrier(int which) const { return (2 + 2 * slots + which) * m; }
  std::int64_t size(bool cut) const { return ((cut ? 4 : 2) + 2 * slots) * m; }
};
inline Rows rows_of(const Order& order) {
  return {micro_batches_of(order.shape, order.placement), slot_count(order.shape)};
}
inline bool cuts_output(const Shape& s) { return s.output != OutputLayer::last_stage; }

// A rank's lanes: eight a chunk, by kind.
inline constexpr std::int64_t kLanesAChunk = 8;
inline std::int64_t lanes_of(const Shape& s, int rank) {
  return std::int64_t{rank} * s.chunks * kLanesAChunk;
}
inline std::int64_t lane_of(const Action& a) {
  return std::int64_t{a.chunk} * kLanesAChunk + static_cast<std::int64_t>(a.kind);
}

// Nothing has run, and no rank has a limit but the end of its order.
void begin(const Order& order, const Costs& costs, Workspace& w, Timing& timing);

// Lets every rank go on to its limit. Returns how many actions ran. `record`: appends what ran, in
// an order in which it can run again, to Workspace::stretches.
std::int64_t run(const Order& order, const Costs& costs, Workspace& w, Timing& timing,
                 Interval* timeline, bool record);

// The ranks that have not come to their end, and what each waits for.
tl::unexpected<Diagnostics> stuck(const Order& order, const Workspace& w);

// All of Timing that follows from each rank's, save the peaks.
void conclude(const Costs& costs, const Workspace& w, Timing& timing);

}  // namespace eratos::schedule
