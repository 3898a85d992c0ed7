// Where do the shares S and T of a cut output layer go in a pipeline's order?
//
// A schedule that is one *block* repeated says when each pass of micro-batch 0 starts on a drawing
// board; micro-batch i's start i turns later. Sorted by those starts, the passes of a rank are its
// order. As long as the drawn starts obey every dependency, no order made so can wait for itself,
// whatever m is and however long passes really take.
//
// Letters: order.h. n = p - 1 - r ranks below. A turn takes I = F + B + S + T of a rank's time.
// E is when the last stage's F ends.
//   two_barriers (Vocab-1)  all S in [E, E + I), all T in [E + I, E + 2 I), then B of the last
//   stage:
//                           every backward is two turns later, one more micro-batch held for each
//   one_barrier  (Vocab-2)  all S in [E, E + I), then B; T a turn after its S, as nobody waits for
//   it interlaced              all ranks run S and T together, once a turn. Between two meetings a
//   rank
//                           runs one F and one B, so a forward comes down two ranks a turn and a
//                           gradient goes up one, where 1F1B alone takes 1/3 and 2/3 of a turn
// S is drawn halfway between as early and as late as it may be, (I - B) / 2 after E: a rank that is
// in a backward then still comes in time. Source: arXiv 2411.05288, section 5.2, figures 9 and 10;
// interlaced: its appendix B.1, figure 15.
//
// Worked example: 1F1B, p = 2, two_barriers, m = 3
//   rank 0: F0 S0 F1 T0 S1 F2 T1 S2 BW0 T2 BW1 BW2
//   rank 1: F0 S0 F1 T0 S1 F2 BW0 T1 S2 BW1 T2 BW2
#pragma once

#include <cstdint>
#include <span>

#include "eratos/base/units.h"
#include "eratos/schedule/order.h"

namespace eratos::schedule {

// One pass of micro-batch 0 on the drawing board, in any unit of time.
struct Pass {
  Kind kind = Kind::forward;
  std::int16_t chunk = 0;
  std::int64_t at = 0;
};

// Passes of one rank at most: F, B and W of two chunks, S and T.
inline constexpr int kMostPasses = 8;

// Appends one rank's order: pass x of micro-batch i at x.at + i * turn. Of two at the same time the
// one listed first comes first.
void repeat(std::span<const Pass> block, std::int64_t turn, int micro_batches, Order& order);

// How long the passes of a stage are on the drawing board. A pass that is longer than drawn makes
// others wait; it never makes the order wrong.
struct Pace {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
  std::int64_t output = 0;  // S and T
};

// Turns that a cut output layer puts between F and B of the last stage.
constexpr int turns_added(OutputLayer output) {
  switch (output) {
    case OutputLayer::two_barriers:
      return 2;
    case OutputLayer::one_barrier:
      return 1;
    case OutputLayer::last_stage:
    case OutputLayer::interlaced:
      return 0;
  }
  return 0;
}

struct Costs;  // simulate.h

// That of the mean stage. A backward that is not twice a forward moves S and T: at p = 32, m = 128
// an order drawn for twice takes 4 % longer than one drawn for the thrice of full recompute.
// Source: section 6.1 of the paper profiles the ratio for the same reason.
Pace pace_of(const Costs& costs);

// Its makespan at most, drawn at `pace`, if every F, BW, and S and T with their collectives took so
// long and nothing else took time.
//   interlaced    a turn of F + max(F, BW) + S + T, and p + floor((p - 1) / 2) of them beside m
//   with barriers the drawing, stretched until every pass has its time there, before BW and at the
//   end
//                 of the turn a place for S and T each. No bound if S + T is drawn longer than F.
Picoseconds cut_one_f_one_b_upper(const Shape& shape, const Pace& pace, Picoseconds forward,
                                  Picoseconds backward, Picoseconds output);

// Any schedule without pairs whose turn is one micro-batch and whose order is `generate`'s, with
// one or two barriers. Its backwards are those of turns_added() micro-batches later, renamed; S and
// T stand where they cut the time from the last stage's F to its B, with these costs, into 1 : 2 :
// 1 (one barrier: S halfway, T with B). Two orders, their times and what simulate() needs are
// allocated. Peak: turns_added() micro-batches of all chunks more.
void cut_output(void (*generate)(const Shape&, Order&), const Shape& shape, const Costs& costs,
                Order& order);
// With F = B = W and BW = 2, free sends.
void cut_output(void (*generate)(const Shape&, Order&), const Shape& shape, Order& order);

// 1F1B with a cut output layer. Requires an output that is not last_stage.
void cut_one_f_one_b(const Shape& shape, const Pace& pace, Order& order);

// Most micro-batches that rank r of it holds, m large: n + 1 + turns_added; interlaced
// floor(3 (n + 1) / 2).
int cut_one_f_one_b_in_flight(const Shape& shape, int rank);

}  // namespace eratos::schedule
