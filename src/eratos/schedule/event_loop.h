// The loop inside simulate() and simulate_fast(): each rank goes on until it misses an input or
// comes to its limit; whoever makes the input wakes it. Inside this room only.
//
// Between two calls of run() the state of a simulation is all here, in a Workspace: how far each
// rank has come, when it is free, and the ends of what has run. That set of actions is closed:
// whatever an action of it waits for is in it too.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

// All that the loop asks of one (rank, kind, chunk).
struct alignas(64) Workspace::Lane {
  Picoseconds duration = 0;
  Picoseconds receive = 0;   // after the input's end, until it is here
  Picoseconds send = 0;      // how long a blocking send keeps the rank
  Picoseconds hideable = 0;  // of duration, beside a pass of the other direction
  std::int64_t own = 0;      // ends[own + micro_batch]
  std::int64_t input = 0;    // ends[input + micro_batch] of the action that makes the input
  std::int32_t own_row = 0;  // of `ends`
  std::int32_t input_row = 0;
  std::int32_t consumer = 0;  // rank whose action takes the output; p: none, or this one
  std::int8_t barrier = -1;   // the barrier this action is one of p parts of
  bool to_all = false;        // every rank may wait for the output
  bool far = false;           // the input is made elsewhere, and not by the rank itself
  bool beside = false;        // with blocking sends too, `receive` runs beside the rank's compute
};

// Of simulate_fast(), whose turns run on a tape of cells (steady.cpp).
inline constexpr std::int32_t kNone = std::numeric_limits<std::int32_t>::min();

// One action of a turn, or two side by side. Cells are those of the tape.
struct Workspace::Step {
  std::int32_t input = kNone;  // what it waits for: `previous` where the rank made that itself
  std::int32_t previous = kNone;
  std::int32_t own = 0;
  std::int32_t rank = 0;
  Picoseconds receive = 0;
  Picoseconds duration = 0;
  Picoseconds sending = 0;  // what its rank sends when it comes
};

// What a step has that few have: the other of two side by side, the barrier it is a part of, the
// collective its rank stands for before it.
struct Workspace::Special {
  Picoseconds second_receive = 0;
  Picoseconds stand_for = 0;
  std::int32_t second_input = kNone;
  std::int32_t second_own = kNone;
  std::int32_t barrier = kNone;
  std::int32_t stands = kNone;
  bool opens = false;   // the first part of its barrier
  bool beside = false;  // Lane::beside, of both
  bool second_beside = false;
};

// A value that somebody reads after its turn.
struct Workspace::Live {
  std::int32_t cell = 0;
  std::int64_t key = 0;  // of Workspace::ends; -1 - r: rank r is free then, and nobody reads it
};

// `ends` has a row of micro-batches for: nothing to wait for (always 0), F of each slot, B or BW of
// each slot, whatever nobody waits for, and the two barriers.
struct Rows {
  std::int64_t m = 0;
  std::int32_t slots = 0;

  std::int32_t forward(int slot) const { return 1 + slot; }
  std::int32_t gradient(int slot) const { return 1 + slots + slot; }
  std::int32_t unread() const { return 1 + 2 * slots; }
  std::int32_t barrier(int which) const { return 2 + 2 * slots + which; }
  std::int32_t count(bool cut) const { return (cut ? 4 : 2) + 2 * slots; }
  std::int64_t key(std::int32_t row, std::int32_t micro_batch) const {
    return row * m + micro_batch;
  }
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
