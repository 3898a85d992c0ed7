// Greedy orders of F, B and W, one chunk a rank, that never hold more bytes than a rank's limit:
// what zb-auto chooses from. By the clock of overlapped sends, with every stage's own times.
//
// by_rounds, the paper's rule; round i ends with B i on every rank:
//   warm-up  as many forwards as the limit holds and the wait for B 0 has room for; switch `eager`:
//            and one more that would make B 0 late
//   round    F on every rank, down the pipeline; switch `skip`: a rank at least two forwards ahead
//            of the next one leaves its F out if that would come in the way of B;
//            then B on every rank, up the pipeline
//   W        before F or B while there is time until its input comes; whenever the bytes of F or B
//            would not fit otherwise; and in a gap shorter than W if the rank's bubble would become
//            the longest of all, or always: switch `greedy`
//   the end  what is left of W
// Source: "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 3.1; its implementation,
// sail-sg/zero-bubble-pipeline-parallelism,
// megatron/core/pipeline_parallel/zerobubble/scheduler/zb.py.
//
// as_inputs_come, ours: a rank that is free takes B, then F, whichever has its input first, and W
// when neither has (`patient`: only if none comes before W would end) or when their bytes do not
// fit. A round carries one micro-batch down and up, so with room for fewer than p it leaves ranks
// waiting; here as many go round together as there is room for.
//
// Worked example: p = 2, m = 3, F = B = W = 1, held = kept = 1, limits of 3 each, by rounds:
//   rank 0: F0 F1 F2 B0 W0 B1 W1 B2 W2      rank 1: F0 B0 F1 B1 F2 B2 W0 W1 W2
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "eratos/schedule/best_order.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

class ZeroBubbleGreedy {
 public:
  struct Switches {
    bool eager = false;
    bool skip = false;
    bool greedy = false;
  };

  // No limit is below the bytes of one micro-batch, max(held, kept).
  ZeroBubbleGreedy(const Shape& s, const Costs& costs, const Limits& limits);

  void by_rounds(Switches switches, Order& order);
  void as_inputs_come(bool patient, Order& order);

 private:
  struct Rank {
    ChunkCost cost;
    std::int64_t limit = 0;
    Picoseconds from_above = 0;  // the transfer of a forward's input, of a gradient's
    Picoseconds from_below = 0;
    int most = 0;  // forwards that may be ahead of B
    // From here on of one order.
    Action* out = nullptr;
    int forwards = 0;  // how many have run
    int gradients = 0;
    int weights = 0;
    std::int64_t bytes = 0;
    Picoseconds free_at = 0;
    Picoseconds bubble = 0;     // since its first forward
    int wants = 0;              // by rounds: forwards to run next
    Kind next = Kind::forward;  // as inputs come: what to run next
  };

  Rank& at(int r) { return ranks_[static_cast<std::size_t>(r)]; }
  // A rank is never more than `most` forwards ahead of the next one, and that one never more than
  // `most` backwards ahead of it, so no more ends are kept.
  std::size_t kept(int r, int i) const {
    return static_cast<std::size_t>(r) * static_cast<std::size_t>(kept_ends_) +
           static_cast<std::size_t>(i & (kept_ends_ - 1));
  }
  Picoseconds forward_input(int r);
  Picoseconds gradient_input(int r);

  void start(Order& order);
  void run(Rank& rank, Picoseconds input, Picoseconds duration, int micro_batch, Kind kind);
  void forward(int r);
  void gradient(int r);
  void weight(Rank& rank);

  void make_room(Rank& rank, std::int64_t bytes);
  void give_time(Rank& rank, Picoseconds input);
  void warm_up();
  void choose_forwards();
  bool in_the_way(const Rank& rank, Picoseconds input) const;
  void look(int r, bool patient);

  const Shape& s_;
  int m_;
  Switches switches_;
  std::vector<Rank> ranks_;
  std::vector<Picoseconds> forward_ends_;   // [p * kept_ends_]
  std::vector<Picoseconds> gradient_ends_;  // [p * kept_ends_]
  std::vector<Picoseconds> next_starts_;    // [p] as inputs come: when, as far as is known
  int kept_ends_ = 1;                       // a power of two
  Picoseconds longest_bubble_ = 0;
};

}  // namespace eratos::schedule
