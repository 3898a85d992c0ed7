// The eight steps that DualPipe and DualPipeV have in common. On every rank two halves meet: the
// two directions of DualPipe, the way down and the way up of DualPipeV's V. Half 0 is the one whose
// micro-batches come to the rank first.
//
// Letters: order.h. A half is h ranks deep (DualPipe p / 2, DualPipeV p); r counts from its far
// end, 0 .. h - 1; n micro-batches run in each half. F0 a forward of half 0; B1 a backward of half
// 1, both gradients at once; B*1 the input's alone, whose W goes to the end of a queue; W the
// queue's oldest; & side by side.
//   1  2 (h - r - 1)      times  F0
//   2  r + 1              times  F0 F1
//   3  h - r - 1          times  B*1 W F1
//   4  n - 2 h + r + 1    times  F0&B1 F1&B0, the first F0 and B1 apart on rank h - 1
//   5  h - r - 1          times  B1 F1&B0
//   6  r + 1              times  B1 B0, the last r + 1 of these backwards B*
//   7  h - r - 1          times  W B*0
//   8  r + 1              times  W
// Source: DeepSeek-V3, arXiv 2412.19437, section 3.2.1; github.com/deepseek-ai/DualPipe, step() in
// dualpipe/dualpipe.py and dualpipe/dualpipev.py.
//
// Private to this room's dualpipe.cpp and dualpipev.cpp.
#pragma once

#include "eratos/base/units.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule::dual {

// Where a rank stands in the half that it is nearer to the far end of.
struct Place {
  int h = 1;
  int r = 0;
  int n = 0;            // micro-batches
  int first_chunk = 0;  // half 0 is this chunk of the rank, half 1 the other of 0 and 1
};
Place place_of(const Shape& s, Placement placement, int rank);

// The whole order. Requires n >= 2 h.
void generate(const Shape& s, Placement placement, Order& order);

// Below the makespan: each rank's work, whose pairs are known, after the way down to its chunk of
// half 0; and the same without the W of step 8, and the way back up from there. O(p^2).
Picoseconds lower(const Shape& s, Placement placement, const Costs& costs);

}  // namespace eratos::schedule::dual
