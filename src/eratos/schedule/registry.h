// Which schedules are there, when is each legal, and what does each say of itself?
//
// A new schedule is one file that defines a `Schedule`, and one line in ERATOS_SCHEDULES
// (parallel/schedules.h).
//
// Worked example:
//   Order order;
//   const auto done = make_order("1f1b", {.pp = 2, .micro_batches = 2}, order);
//   order.of(1) is F0 B0 F1 B1.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/parallel/schedules.h"
#include "eratos/schedule/order.h"

namespace eratos::schedule {

struct ChunkCost;  // simulate.h
struct Costs;      // simulate.h
struct RankPeak;   // peak.h

struct Schedule {
  std::string_view what;  // one line for `eratos list schedules`

  // Time lost on each rank where all stages are alike, nothing takes time to send and there are enough
  // micro-batches: p ranks, v chunks, F, B and W of one rank's layers, BW = B + W. Empty: none published.
  std::string_view bubble;
  std::string_view bubble_source;

  // From its line in ERATOS_SCHEDULES, by with_facts().
  std::string_view name;
  Placement placement = Placement::looped;
  int chunks = 1;                // a rank has at least so many
  bool splits_backward = false;  // its orders hold B and W
  bool side_by_side = false;     // its orders hold pairs (Action::with_next), and BW beside B and W
  bool cuts_output = false;      // takes an OutputLayer other than last_stage

  // Why this shape cannot run, or nothing. Degrees below 1 are refused before this is called.
  std::optional<Diagnostic> (*refusal)(const Shape&) = nullptr;

  // Why these costs cannot be met (a limit that holds no micro-batch, say), or nothing. Asked after
  // `refusal`, before generate_for.
  std::optional<Diagnostic> (*refusal_for)(const Shape&, const Costs&) = nullptr;

  // Requires a shape that is not refused. Allocates only to grow `order`.
  void (*generate)(const Shape&, Order& order) = nullptr;

  // In its place, for a schedule that looks at times and bytes. Deterministic.
  void (*generate_for)(const Shape&, const Costs&, Order& order) = nullptr;

  // With a cut output layer, `generate` takes a backward for twice a forward; this looks at the times
  // to place S and T instead. Same peaks. Null: `generate` does. Deterministic.
  void (*generate_cut)(const Shape&, const Costs&, Order& order) = nullptr;

  // Micro-batches of one turn of the steady part: the order of m + period is that of m with one turn
  // put into the steady part of every rank, for every m from some m' on. Null: no such promise, and
  // simulate_fast() walks every action.
  int (*period)(const Shape&) = nullptr;

  // Most micro-batch chunks (one chunk, one micro-batch) a rank holds at once between F and B. Exact.
  // Null when no closed form is known.
  std::int64_t (*in_flight)(const Shape&, int rank) = nullptr;

  // Least m' <= micro_batches, found without walking, whose order has the same peak on every
  // rank, whatever each chunk holds. Null: the whole order has to be walked.
  int (*micro_batches_for_peak)(const Shape&) = nullptr;

  // find_peaks() for one rank without its order: chunks and in_flight are that rank's [v]. Null: an
  // order of micro_batches_for_peak is walked.
  RankPeak (*peak)(const Shape&, int rank, std::span<const ChunkCost> chunks,
                   std::span<std::int32_t> in_flight) = nullptr;

  // A lower bound of the makespan that uses this schedule's order; null: only what holds for
  // every schedule (bounds.h).
  Picoseconds (*lower)(const Shape&, const Costs&) = nullptr;

  // Makespan, at most, if every forward took `forward`, every backward `backward`, and transfers
  // nothing. Null: bounds.h adds up all the work.
  Picoseconds (*upper_equal)(const Shape&, Picoseconds forward, Picoseconds backward) = nullptr;

  // upper_equal for a cut output layer: the order that make_order() draws with these costs, where every
  // rank's shares and all collectives take `output` a micro-batch. Null: all the work, added up.
  Picoseconds (*upper_cut)(const Shape&, const Costs&, Picoseconds forward, Picoseconds backward,
                           Picoseconds output) = nullptr;

  // Makespan, at most, whole output layer. For schedules that know more of B and W than upper_equal is
  // told. Null: only the others.
  Picoseconds (*upper)(const Shape&, const Costs&) = nullptr;

  // A schedule whose makespan this one never exceeds with these costs, or null: its upper bound holds
  // here too.
  const Schedule* (*never_slower_than)(const Shape&, const Costs&) = nullptr;
};

constexpr Schedule with_facts(const parallel::ScheduleFacts& facts, Schedule s) {
  s.name = facts.name;
  s.placement = facts.placement;
  s.chunks = facts.least_vpp * copies_of(facts.placement);
  s.splits_backward = facts.splits_backward;
  s.side_by_side = facts.side_by_side;
  s.cuts_output = facts.cuts_output;
  return s;
}

namespace schedules {
#define ERATOS_DECLARE_SCHEDULE(id, ...) extern const Schedule id;
ERATOS_SCHEDULES(ERATOS_DECLARE_SCHEDULE)
#undef ERATOS_DECLARE_SCHEDULE
}  // namespace schedules

inline constexpr const Schedule* kSchedules[] = {
#define ERATOS_LIST_SCHEDULE(id, ...) &schedules::id,
    ERATOS_SCHEDULES(ERATOS_LIST_SCHEDULE)
#undef ERATOS_LIST_SCHEDULE
};

// Null when no schedule has that name.
const Schedule* find(std::string_view name);

// Why `schedule` cannot run `shape`, or nothing; degrees below 1 included.
std::optional<Diagnostic> refusal(const Schedule& schedule, const Shape& shape);
std::optional<Diagnostic> refusal(const Schedule& schedule, const Shape& shape, const Costs& costs);

// Errors: unknown name (with the nearest one), refused shape. Without costs a schedule that looks
// at them sees F = B = W = 1, BW = 2, one byte held, free sends.
Result<void> make_order(const Schedule& schedule, const Shape& shape, const Costs& costs,
                        Order& order);
Result<void> make_order(const Schedule& schedule, const Shape& shape, Order& order);
Result<void> make_order(std::string_view name, const Shape& shape, Order& order);

}  // namespace eratos::schedule
