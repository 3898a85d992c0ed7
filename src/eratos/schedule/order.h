// In which order does each rank run its forwards and backwards? An order is only that: it knows
// no durations and no bytes.
//
// Letters: p ranks of the pipeline (pp), v chunks a rank (vpp; 1 without interleaving), m
// micro-batches, r a rank, c a chunk, s = r * v + c the *slot* of chunk c on rank r. Every table
// of this room is indexed by slot. A *virtual stage* is a place in the model; Placement says which
// chunk holds which. F forward, B gradient of the input, W gradient of the weights, BW both at once.
//
// Worked example: 1F1B, p = 2, v = 1, m = 2
//   rank 0: F0 F1 BW0 BW1      rank 1: F0 BW0 F1 BW1
//
// Read next: registry.h (which schedules there are), simulate.h (what an order takes), bounds.h.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "eratos/parallel/parallel.h"

namespace eratos::schedule {

enum class Kind : std::uint8_t {
  forward,          // F
  backward,         // BW: B and W as one action
  input_gradient,   // B: what the stage before waits for
  weight_gradient,  // W: nobody waits for it but the optimizer
  // With the output layer cut over all ranks (OutputLayer): this rank's share of it, once a
  // micro-batch on every rank, chunk 0.
  output,           // S: logits and local softmax of the share
  output_gradient,  // T: the share's gradients
};
inline constexpr int kKinds = 6;
std::string_view name_of(Kind kind);  // "forward", "input gradient", ...

struct Action {
  std::int32_t micro_batch = 0;
  std::int16_t chunk = 0;
  Kind kind = Kind::forward;
  // Runs side by side with the next action of its rank (a forward with a backward of another
  // micro-batch): both start when both inputs are there and end together.
  bool with_next = false;

  friend constexpr bool operator==(const Action&, const Action&) = default;
};

using parallel::OutputLayer;

// What a schedule is asked for.
struct Shape {
  int pp = 1;
  int chunks = 1;
  int micro_batches = 1;
  // Micro-batches that follow one another on one chunk before the next chunk gets its turn;
  // 0 means pp, Megatron-LM's default for --microbatch-group-size-per-virtual-pipeline-stage.
  int group_size = 0;
  OutputLayer output = OutputLayer::last_stage;
};

// Where chunk c of rank r stands in the model. Bidirectional: each of the two copies sees half of the
// micro-batches, numbered 0 .. m/2 - 1 in both.
using parallel::Placement;
using parallel::copies_of;

constexpr int slot_count(const Shape& s) { return s.pp * s.chunks; }
constexpr int slot_of(const Shape& s, int rank, int chunk) { return rank * s.chunks + chunk; }

// Virtual stages of one copy of the model.
constexpr int stage_count(const Shape& s, Placement placement) {
  return slot_count(s) / copies_of(placement);
}
// Micro-batches that one chunk sees.
constexpr int micro_batches_of(const Shape& s, Placement placement) {
  return s.micro_batches / copies_of(placement);
}

// Virtual stage of chunk `chunk` of rank `rank`, and the slot that holds virtual stage `stage` of
// copy `copy`.
constexpr int stage_of(const Shape& s, Placement placement, int rank, int chunk) {
  return parallel::stage_of(placement, s.pp, rank, chunk);
}
constexpr int slot_at(const Shape& s, Placement placement, int stage, int copy = 0) {
  switch (placement) {
    case Placement::looped:
      return slot_of(s, stage % s.pp, stage / s.pp);
    case Placement::vee:
      return stage < s.pp ? slot_of(s, stage, 0) : slot_of(s, 2 * s.pp - 1 - stage, 1);
    case Placement::bidirectional:
      return copy == 0 ? slot_of(s, stage, 0) : slot_of(s, s.pp - 1 - stage, 1);
  }
  return 0;
}

// The orders of all ranks. The caller owns it and uses it again: its vectors grow to the largest
// shape met and then allocate no more.
struct Order {
  Shape shape;
  Placement placement = Placement::looped;
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

// Is every forward there exactly once, and after it either BW or first B and then W, each exactly
// once; with a cut output layer S and then T of every micro-batch on every rank; and is every
// with_next on a forward that a backward of its rank follows? For tests and for orders that come
// from outside.
bool is_complete(const Order& order);

}  // namespace eratos::schedule
