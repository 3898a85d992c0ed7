// Schedules on a V: rank r holds virtual stages r (chunk 0) and 2 p - 1 - r (chunk 1), so a
// micro-batch goes down the ranks and comes back up, and so does its gradient. One micro-batch is
// six passes on every rank: F0, F1, B1, B0 in that order, and W1, W0 somewhere after their B.
//
// A building block says in which unit of time (F = B = W = 1) each rank runs F0, F1, B1 and B0 of
// micro-batch 0; micro-batch k runs 6 k units later, and W fills what is free. A chunk is held for
// as long as its passes are apart, so the block decides the peak: (B1 - F1 + B0 - F0) / 6 chunks,
// and what W adds. Before the first gradient is back at rank 0, and after a rank's last F0, passes
// move up into units that the repeated block leaves free, as far as the peak allows.
//
// Source: Qi et al., "Pipeline Parallelism with Controllable Memory", arXiv 2405.15362, sections 2
// and 3 (blocks, repeating, squeezing, reordering); offsets and which passes move as its code has
// them: sail-sg/zero-bubble-pipeline-parallelism,
// megatron/core/pipeline_parallel/zerobubble/scheduler/zbv_greedy.py.
//
// Private to this room's v_min.cpp, v_half.cpp, zbv.cpp and zbv_greedy.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule::vee {

// In the order in which one micro-batch meets them on a rank.
enum Pass : std::int8_t { f0, f1, b1, b0, w1, w0 };
inline constexpr int kPasses = 6;  // and so many units from one micro-batch to the next

constexpr bool is_forward(int pass) { return pass <= f1; }
constexpr bool is_gradient(int pass) { return pass == b1 || pass == b0; }
constexpr int w_of(int gradient) { return gradient + 2; }

constexpr Action action(int pass, int micro_batch) {
  constexpr Kind kinds[] = {Kind::forward,        Kind::forward,         Kind::input_gradient,
                            Kind::input_gradient, Kind::weight_gradient, Kind::weight_gradient};
  const bool up = pass == f1 || pass == b1 || pass == w1;
  return {micro_batch, static_cast<std::int16_t>(up ? 1 : 0), kinds[pass]};
}

struct Block {
  int (*start)(int p, int rank, int pass);  // of F0, F1, B1, B0 of micro-batch 0
  int (*most_chunks)(int p);                // a rank holds at most, between F and W
};

// Micro-batches from which on the order has a steady part; one turn of it is one micro-batch.
int least_steady(const Block& block, int p);

// Time is linear in the actions, and for warm-up and cool-down O(p^3) at worst. Scratch lies behind
// the orders in order.actions while this runs: nothing else is allocated.
void repeat(const Block& block, const Shape& s, Order& order);

// The units of a rank in which every pass of the block has its own; last < first: there are none.
struct Steady {
  int first = 0;
  int last = -1;
};
Steady steady_of(const Block& block, const Shape& s, int rank);

// A lower bound of the makespan, O(p); `start` and `steady` as the order that it is of has them.
Picoseconds lower(int (*start)(int p, int rank, int pass), Steady (*steady)(const Shape&, int rank),
                  const Shape& s, const Costs& costs);

// An upper bound: with more time for a pass nothing ends earlier, so the makespan is at most that
// of as many units, each as long as the longest pass and its send.
Picoseconds upper(int units, const Shape& s, const Costs& costs);

// For few micro-batches: no unit is kept for the block; in each, every rank runs the pass that the
// block has first of those that can run and fit, else a W that is left.
void one_by_one(const Block& block, const Shape& s, Order& order);

// The blocks: F0 and B1 go down one rank in 1, 2, 4 units, F1 and B0 come up one in 1, 1, 2.
int v_min_start(int p, int rank, int pass);
int v_half_start(int p, int rank, int pass);
int zbv_start(int p, int rank, int pass);  // of its steady part, read off zbv.cpp

// Micro-batches of a rank's two chunks: ceil((p + 2) / 3); p / 2 + 1, rounded down; p.
constexpr int v_min_most_chunks(int p) { return 2 * ((p + 4) / 3); }
constexpr int v_half_most_chunks(int p) { return 2 * (p / 2 + 1); }
constexpr int zbv_most_chunks(int p) { return 2 * p; }

// A pipeline of at least two ranks with two chunks each, or why not.
std::optional<Diagnostic> refuse(std::string_view name, const Shape& s);

}  // namespace eratos::schedule::vee
