// What the handcrafted zero-bubble schedules share: one chunk a rank, B and W apart, and every rank
// the same pattern with two numbers of its own.
//
// Letters: order.h. a(r) = `ahead` forwards come before the first B of rank r; W is `delay` = d(r)
// micro-batches behind B:
//   F 0 .. a-1, then for i = 0 .. m-1: B i, W i-d, F i+a (those that exist), then the last W.
// a + d micro-batches are at most between F and W; both schedules give every rank the same sum.
//
// Worked example: ZB-H1, p = 2, m = 3 (a = p - r, d = r)
//   rank 0: F0 F1 B0 W0 F2 B1 W1 B2 W2      rank 1: F0 B0 F1 B1 W0 F2 B2 W1 W2
// Source: "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, sections 2.1 to 2.3 and figure 3.
#pragma once

#include <optional>

#include "eratos/base/diagnostic.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

struct SplitTurns {
  int ahead = 1;
  int delay = 0;
};
using SplitTurnsOf = SplitTurns (*)(const Shape&, int rank);

void generate_split(const Shape& s, SplitTurnsOf turns_of, Order& order);

// A lower bound of its makespan, O(p^2), no allocation: the makespan itself with equal stages, free
// sends and W <= F <= B.
Picoseconds lower_split(const Shape& s, SplitTurnsOf turns_of, const Costs& costs);

// Why a schedule of one chunk a rank cannot run more of them, or nothing.
std::optional<Diagnostic> refuse_chunks(std::string_view name, const Shape& s);

SplitTurns zb_h1_turns(const Shape& s, int rank);
SplitTurns zb_h2_turns(const Shape& s, int rank);

}  // namespace eratos::schedule
