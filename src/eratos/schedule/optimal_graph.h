// An OptimalProblem as a job shop, which bounds, search and solvers read: sequences of like
// actions, what each waits for, and how early and late each can be in any order that fits the
// limits.
//
// A *sequence* q is all actions of one kind on one slot, in order of micro-batches; action i of it
// is x = q m + i. Within a sequence order is given; an order of the problem merges the sequences of
// each rank.
//
// Worked example: p = 2, m = 2, F = 10, BW = 20, one micro-batch held at most on rank 0:
//   sequences F of rank 0, BW of rank 0, F of rank 1, BW of rank 1; head of BW 0 on rank 0 is 10 +
//   10
//   + 20 = 40; F 1 of rank 0 has to wait for it, so its head is 60, and the tail of F 0 is 110.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/schedule/optimal.h"

namespace eratos::schedule {

struct Sequence {
  int rank = 0;
  int chunk = 0;
  Kind kind = Kind::forward;
  Picoseconds duration = 0;
  int input = -1;             // sequence whose action of the same micro-batch makes the input
  int consumer = -1;          // sequence on another slot that waits for it
  Picoseconds receive = 0;    // from the input's end until it is here
  Picoseconds send = 0;       // blocking: how long the rank stands afterwards
  std::int64_t at_start = 0;  // bytes added when it starts, and when it ends
  std::int64_t at_end = 0;
};

inline constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

// Action `earlier` of a sequence has to end before `later` of another of the same rank starts.
struct Precedence {
  int earlier = 0;
  int later = 0;
};

struct ActionGraph {
  int ranks = 0;
  int micro_batches = 0;
  bool blocking = false;
  std::vector<Sequence> sequences;
  std::vector<int> first;            // [ranks + 1]: a rank's are sequences[first[r], first[r + 1])
  std::vector<std::int64_t> limits;  // [ranks], or kNoLimit
  // A chunk alone would be above the limit otherwise: F of micro-batch i + k after B, or W, of i.
  std::vector<Precedence> memory;
  // [sequences m]: earliest start, and least time from its end to the end of the step.
  std::vector<Picoseconds> head;
  std::vector<Picoseconds> tail;

  int count() const { return static_cast<int>(sequences.size()) * micro_batches; }
  const Sequence& of(int x) const { return sequences[static_cast<std::size_t>(x / micro_batches)]; }
  Action action(int x) const {
    const Sequence& s = of(x);
    return {x % micro_batches, static_cast<std::int16_t>(s.chunk), s.kind};
  }
  // Time between the end of an action and the start of another that follows it on the rank.
  Picoseconds between(const Sequence& a, const Sequence& b) const {
    if (!blocking) return 0;
    return a.send > b.receive ? a.send : b.receive;
  }
  // Time between the end of an action's input and its own start, which is more than the transfer
  // when both are of one rank and it has to send first.
  Picoseconds arrival(const Sequence& s) const {
    const Sequence& input = sequences[static_cast<std::size_t>(s.input)];
    const Picoseconds gap = input.rank == s.rank ? between(input, s) : 0;
    return gap > s.receive ? gap : s.receive;
  }
  // The rank's limit can matter: all its micro-batches together would be above it.
  bool is_tight(int rank) const;
};

// Requires a shape with an order, a looped or vee placement and limits that one micro-batch fits.
ActionGraph action_graph(const OptimalProblem& problem);

// Does every action of `a` come before action i or later of `b` in each micro-batch, or the other
// way round, by the data they pass? -1: a first, 1: b first, 0: neither.
int data_order(const ActionGraph& graph, int a, int b);

// The best that is possible for any order: the longest chain of waits, and every rank as a machine
// alone with these heads and tails.
Picoseconds graph_lower(const ActionGraph& graph);

// Branch and bound over orders: the action that can end first is next on its rank or another of the
// rank is; of two beginnings that have placed the same actions, the one that is nowhere earlier
// goes. Source: Giffler and Thompson, "Algorithms for Solving Production-Scheduling Problems",
// Operations Research 8 (1960), for the choice; Ow and Morton, "Filtered beam search in
// scheduling", IJPR 26 (1988), for going on with some beginnings only.
struct BranchResult {
  Picoseconds lower = 0;  // no order is faster; with the order found, or `best`, it meets: optimal
  std::int64_t nodes = 0;
  std::vector<std::vector<int>>
      ranks;  // faster than `best`: actions by rank; empty if none was found
};
BranchResult branch(const ActionGraph& graph, Picoseconds best, Picoseconds lower,
                    std::int64_t node_limit, const Stop& stop);

// The order of actions x by rank.
void write_order(const OptimalProblem& problem, const ActionGraph& graph,
                 const std::vector<std::vector<int>>& ranks, Order& order);
// The other way; an order whose chunks do not take micro-batches in order is numbered anew.
std::vector<std::vector<int>> read_order(const ActionGraph& graph, const Order& order);

}  // namespace eratos::schedule
