// In which order does each rank run its forwards and backwards? An order is only that: it knows
// no durations and no bytes.
//
// Letters: p ranks of the pipeline (pp), v chunks a rank (vpp; 1 without interleaving), m
// micro-batches, r a rank, c a chunk, s = r * v + c the *slot* of chunk c on rank r. Every table
// of this room is indexed by slot. A *virtual stage* is a place in the model: looped placement
// puts chunk c of rank r at virtual stage c * p + r.
//
// Worked example: 1F1B, p = 2, v = 1, m = 2
//   rank 0: F0 F1 B0 B1      rank 1: F0 B0 F1 B1
//
// Read next: registry.h (which schedules there are), simulate.h (what an order takes), bounds.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace eratos::schedule {

// backward is the whole backward: input gradient and weight gradient together.
enum class Kind : std::uint8_t { forward, backward };
inline constexpr int kKinds = 2;

struct Action {
  std::int32_t micro_batch = 0;
  std::int16_t chunk = 0;
  Kind kind = Kind::forward;

  friend constexpr bool operator==(const Action&, const Action&) = default;
};

// What a schedule is asked for.
struct Shape {
  int pp = 1;
  int chunks = 1;
  int micro_batches = 1;
  // Micro-batches that follow one another on one chunk before the next chunk gets its turn;
  // 0 means pp, Megatron-LM's default for --microbatch-group-size-per-virtual-pipeline-stage.
  int group_size = 0;
};

// Where chunk c of rank r stands in the model.
enum class Placement : std::uint8_t { looped };

constexpr int slot_count(const Shape& s) { return s.pp * s.chunks; }
constexpr int slot_of(const Shape& s, int rank, int chunk) { return rank * s.chunks + chunk; }

// Virtual stage of chunk `chunk` of rank `rank`, and the slot that holds virtual stage `stage`.
constexpr int stage_of(const Shape& s, Placement placement, int rank, int chunk) {
  switch (placement) {
    case Placement::looped:
      return chunk * s.pp + rank;
  }
  return 0;
}
constexpr int slot_at(const Shape& s, Placement placement, int stage) {
  switch (placement) {
    case Placement::looped:
      return slot_of(s, stage % s.pp, stage / s.pp);
  }
  return 0;
}

// The orders of all ranks. The caller owns it and uses it again: its vectors grow to the largest
// shape met and then allocate no more.
struct Order {
  Shape shape;
  std::vector<Action> actions;      // rank 0's, then rank 1's, ...
  std::vector<std::int64_t> first;  // [p + 1]: rank r's are actions[first[r], first[r + 1])
  // [p * v], by slot: where a forward's input comes from and where its output goes; -1 at the
  // ends of the model. Gradients travel the other way.
  std::vector<std::int32_t> before;
  std::vector<std::int32_t> after;

  std::span<const Action> of(int rank) const {
    const auto begin = static_cast<std::size_t>(first[static_cast<std::size_t>(rank)]);
    const auto end = static_cast<std::size_t>(first[static_cast<std::size_t>(rank) + 1]);
    return {actions.data() + begin, end - begin};
  }
};

// Empties `order` and fills shape, before and after. A generator calls it first, then appends
// rank by rank, calling end_rank after each.
void begin_order(const Shape& shape, Placement placement, Order& order);
void end_rank(Order& order);

// Is every forward and every backward there exactly once, on the rank that holds the chunk, and
// no backward before its own forward? For tests and for orders that come from outside.
bool is_complete(const Order& order);

}  // namespace eratos::schedule
