// How are the layers of a model dealt out to the stages of a pipeline, so that the step is
// shortest?
//
// Ranks are one chunk each, and what every rank would cost with layers first, first + 1, ... is
// known. Dynamic programming over (rank, layers already dealt) bounds from below what any deal of
// the rest can reach; a search in order of those bounds simulates the deals that they do not rule
// out.
//
// Letters: p ranks, L layers, m micro-batches, f and b a rank's passes of one micro-batch, t = f +
// b, h transfers between neighbours, u forwards of a rank before its first backward, x what
// blocking transfers add between its passes.
//   a rank busy from the first input on    sum_{s<r} (t_s + h_s) + m t_r + x_r
//   one that waits for its first gradient  sum_s (t_s + h_s) + (m-1) b_r + (m-u_r) f_r + x'_r
// The first is a minimum over deals by G(r, l) = min_n max(m t + x, t + h + G(r+1, l+n)), and the
// second by the least sum and the least maximum apart. To these come what a rank cannot hide of its
// gradients' reduction and what happens once a step. None exceeds what is simulated, because the
// times of an order are sums of passes along a path, and the path of most is the step.
//
// Worked example: p 2, m 4, no transfers, 4 layers of f 1 and b 2, an output layer of f 1 and b 2
// on the last rank: 2 and 2 layers make t 6 and 9 and a step of 6 + 4 * 9 = 42; 3 and 1 make t 9
// and 6: 9 + 6 + 3 * 6 + (4 - 2) * 3 = 39.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/projection/ranks.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::search {

// What a bound knows of an order of single chunks with blocking transfers.
struct Pace {
  struct Rank {
    int before_backward = 0;      // u
    Picoseconds down = 0;         // transfer to the next rank
    Picoseconds up = 0;           // to the one before
    Picoseconds gaps = 0;         // x, between all of its passes
    Picoseconds gaps_behind = 0;  // x', from its first backward on
  };
  int micro_batches = 1;
  std::vector<Rank> ranks;
};
Pace pace_of(const schedule::Order& order, std::span<const schedule::LinkCost> links);

// What a rank would cost with a run of layers, one choice after another (other layers recomputed);
// empty where it cannot have them.
using RankChoices = std::vector<projection::RankCost>;

// By rank and run of layers; null is empty.
class StageTable {
 public:
  StageTable(int ranks, int layers);
  const RankChoices*& choices(int rank, int first, int count);
  std::span<const projection::RankCost> choices(int rank, int first, int count) const;
  int ranks() const { return ranks_; }
  int layers() const { return layers_; }

 private:
  std::size_t place(int rank, int first, int count) const;
  int ranks_;
  int layers_;
  std::vector<const RankChoices*> choices_;
};

// What a step comes to once more than its passes.
struct StageModel {
  std::function<double(std::span<const projection::RankCost* const>)>
      step;  // of all ranks, simulated
  std::function<double(double)>
      host;  // seconds once a step, of the most tensors gathered on a rank
};

class StageSearch {
 public:
  static constexpr double kNever = std::numeric_limits<double>::infinity();

  // `known`: a step that is reached already; only shorter ones are looked for. The table and the
  // model stay where they are.
  StageSearch(Pace pace, const StageTable& table, StageModel model, double known = kNever);

  // Looks at so many more deals, whole or begun. False when nothing is left.
  bool advance(std::size_t nodes);

  struct Dealt {
    int layers = 0;
    std::size_t choice = 0;  // of the rank's
  };
  // Of each rank; empty where no deal is shorter than what was known.
  const std::vector<Dealt>& best() const { return best_; }
  double best_step() const { return best_step_; }
  // No deal is shorter than this: best_step() once advance() has said that nothing is left.
  double lower_bound() const;
  std::uint64_t nodes() const { return nodes_; }
  std::uint64_t simulated() const { return simulated_; }

 private:
  // The first ranks' layers are dealt.
  struct Prefix {
    int layers = 0;
    Picoseconds path = 0;     // passes and transfers of the ranks before
    Picoseconds fill = 0;     // of it, those of forward
    Picoseconds busy = 0;     // longest path so far that ends on rank 0
    Picoseconds waiting = 0;  // most of the last term of the second bound
    double exposed = 0;       // of rank 0
    double ends = 0;          // latest end of a rank, its own exposed part included
    double optimizer = 0;
    double tensors = 0;
  };
  struct Child {
    Dealt dealt;
    double bound = 0;
  };
  // Of the ranks from here on, with so many layers dealt: the least of each term that any deal
  // reaches.
  struct Rest {
    double busy = kNever;  // picoseconds
    double sum = kNever;
    double waiting = kNever;
    double optimizer = kNever;
    double tensors = kNever;
  };

  void fill_rest();
  const Rest& rest(int rank, int layers) const;
  Picoseconds waiting_of(int rank, const projection::RankCost& c) const;
  Picoseconds busy_of(int rank, const projection::RankCost& c) const;
  Picoseconds hop_behind(int rank) const;
  Prefix with(const Prefix& prefix, int rank, const projection::RankCost& c, int count) const;
  double bound_of(const Prefix& prefix, int rank) const;
  void open(int rank);
  void simulate();
  bool can_win(double bound) const;

  Pace pace_;
  const StageTable& table_;
  StageModel model_;
  int ranks_;
  int layers_;
  std::vector<Rest> rest_;                    // [(p + 1) * (L + 1)]
  std::vector<Prefix> prefixes_;              // [p + 1] by rank
  std::vector<std::vector<Child>> children_;  // [p] of the prefix before the rank, best first
  std::vector<std::size_t> next_;             // [p]
  std::vector<Dealt> dealt_;                  // [p]
  std::vector<const projection::RankCost*> costs_;
  int depth_ = 0;  // rank whose layers are dealt next; -1 at the end
  std::vector<Dealt> best_;
  double best_step_;
  double root_ = 0;
  std::uint64_t nodes_ = 0;
  std::uint64_t simulated_ = 0;
};

}  // namespace eratos::search
