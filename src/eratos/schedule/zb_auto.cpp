// The automatic zero-bubble schedule under a limit of bytes: one chunk a rank, B and W apart. A
// greedy rule with three switches makes eight orders from the times of every stage and transfer;
// the best of them and of zb-h1 and zb-h2, where these fit the limit, is kept, each judged by
// simulate().
//
// The rule, round by round (round i ends with B i on every rank), by the clock of overlapped sends:
//   warm-up  as many forwards as the limit holds and the wait for B 0 has room for; switch `eager`:
//            and one more that would make B 0 late
//   round    F on every rank, down the pipeline; switch `skip`: a rank at least two forwards ahead
//            of the next one leaves its F out if that would come in the way of B;
//            then B on every rank, up the pipeline
//   W        before F or B while there is time until its input comes; whenever the bytes of F or B
//            would not fit otherwise; and in a gap shorter than W if the rank's bubble would become
//            the longest of all, or always: switch `greedy`
//   the end  what is left of W
//
// Best: the least Timing::pitch, as the paper's scheduler and its implementation judge, since they
// validate the optimizer step afterwards; then the least makespan. Where zb-h1 fits, orders with a
// longer makespan than zb-h1's are left out, so that neither number is ever worse than its.
//
// Source: "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 3.1; its implementation,
// sail-sg/zero-bubble-pipeline-parallelism,
// megatron/core/pipeline_parallel/zerobubble/scheduler/zb.py, which gives every stage the median
// time of all; here every stage has its own.
//
// Without limits: 2 p times the largest micro-batch of any rank, on every rank (the paper's ZB-2p;
// ZB-1p is p times). Source: the same repository's runtime.py, mem_limit from
// --zero-bubble-max-pending-backward.
//
// Worked example: p = 2, m = 3, F = B = W = 1, held = kept = 1, limits of 3 each:
//   rank 0: F0 F1 F2 B0 W0 B1 W1 B2 W2      rank 1: F0 B0 F1 B1 F2 B2 W0 W1 W2
#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "eratos/base/check.h"
#include "eratos/schedule/zero_bubble.h"

namespace eratos::schedule {
namespace {

struct Switches {
  bool eager = false;
  bool skip = false;
  bool greedy = false;
};

std::int64_t needs(const ChunkCost& c) { return std::max(c.held, c.kept); }

std::int64_t limit_of(const Shape& s, const Costs& costs, int rank) {
  if (!costs.limits.empty()) return costs.limits[static_cast<std::size_t>(rank)];
  std::int64_t most = 0;
  for (const ChunkCost& c : costs.chunks) most = std::max(most, needs(c));
  return 2 * s.pp * most;
}

class Greedy {
 public:
  Greedy(const Shape& s, const Costs& costs) : s_(s), m_(s.micro_batches), ranks_(size(s.pp)) {
    int most = 1;
    for (int r = 0; r < s.pp; ++r) {
      const ChunkCost& c = costs.chunks[size(r)];
      Rank& rank = ranks_[size(r)];
      rank.cost = c;
      rank.limit = limit_of(s, costs, r);
      // As many as fit between F and B such that the next B fits too, whatever W is done.
      rank.most =
          c.held == 0
              ? m_
              : static_cast<int>(std::min<std::int64_t>(m_, (rank.limit - needs(c)) / c.held + 1));
      if (r > 0) rank.from_above = send_forward(costs, r - 1);
      if (r + 1 < s.pp) rank.from_below = send_backward(costs, r + 1);
      most = std::max(most, rank.most);
    }
    while (kept_ends_ < most) kept_ends_ *= 2;
    forward_ends_.resize(size(s.pp) * size(kept_ends_));
  }

  void operator()(Switches switches, Order& order) {
    switches_ = switches;
    begin_order(s_, Placement::looped, order);
    const std::int64_t each = 3 * std::int64_t{m_};
    order.actions.resize(static_cast<std::size_t>(each * s_.pp));
    longest_bubble_ = 0;
    for (int r = 0; r < s_.pp; ++r) {
      Rank& rank = ranks_[size(r)];
      rank.out = order.actions.data() + each * r;
      rank.forwards = rank.gradients = rank.weights = 0;
      rank.free_at = rank.bubble = rank.gradient_end = rank.bytes = 0;
      order.first.push_back(each * (r + 1));
    }
    warm_up();
    for (int i = 1; i < m_; ++i) {
      choose_forwards();
      for (int r = 0; r < s_.pp; ++r) {
        if (ranks_[size(r)].wants == 0) continue;
        give_time(r, forward_input(r));
        make_room(r, ranks_[size(r)].cost.held);
        forward(r);
      }
      for (int r = s_.pp - 1; r >= 0; --r) {
        give_time(r, gradient_input(r));
        gradient(r);
      }
    }
    for (Rank& rank : ranks_) {
      while (rank.weights < m_) weight(rank);
    }
  }

 private:
  struct Rank {
    ChunkCost cost;
    std::int64_t limit = 0;
    Picoseconds from_above = 0;  // the transfer of a forward's input, of a gradient's
    Picoseconds from_below = 0;
    int most = 0;
    // From here on of one order.
    Action* out = nullptr;
    int forwards = 0;  // how many have run
    int gradients = 0;
    int weights = 0;
    int wants = 0;  // forwards to run next
    Picoseconds free_at = 0;
    Picoseconds bubble = 0;        // since its first forward
    Picoseconds gradient_end = 0;  // of the latest B
    std::int64_t bytes = 0;
  };

  static std::size_t size(int i) { return static_cast<std::size_t>(i); }

  // A rank is never more than `most` forwards ahead of the next one, so no more ends are kept.
  Picoseconds& forward_end(int r, int i) {
    return forward_ends_[size(r) * size(kept_ends_) + size(i & (kept_ends_ - 1))];
  }
  Picoseconds forward_input(int r) {
    return r == 0 ? 0 : forward_end(r - 1, ranks_[size(r)].forwards) + ranks_[size(r)].from_above;
  }
  Picoseconds gradient_input(int r) {
    return r + 1 == s_.pp ? 0 : ranks_[size(r) + 1].gradient_end + ranks_[size(r)].from_below;
  }

  void run(Rank& rank, Picoseconds input, Picoseconds duration, int micro_batch, Kind kind) {
    const Picoseconds start = std::max(rank.free_at, input);
    if (rank.forwards > 0) {
      rank.bubble += start - rank.free_at;
      longest_bubble_ = std::max(longest_bubble_, rank.bubble);
    }
    rank.free_at = start + duration;
    *rank.out++ = {micro_batch, 0, kind};
  }
  void forward(int r) {
    Rank& rank = ranks_[size(r)];
    run(rank, forward_input(r), rank.cost.forward, rank.forwards, Kind::forward);
    forward_end(r, rank.forwards++) = rank.free_at;
    rank.bytes += rank.cost.held;
  }
  void gradient(int r) {
    Rank& rank = ranks_[size(r)];
    make_room(r, rank.cost.kept - rank.cost.held);
    run(rank, gradient_input(r), rank.cost.input_gradient, rank.gradients++, Kind::input_gradient);
    rank.gradient_end = rank.free_at;
    rank.bytes += rank.cost.kept - rank.cost.held;
  }
  void weight(Rank& rank) {
    run(rank, 0, rank.cost.weight_gradient, rank.weights++, Kind::weight_gradient);
    rank.bytes -= rank.cost.kept;
  }

  void make_room(int r, std::int64_t bytes) {
    Rank& rank = ranks_[size(r)];
    while (rank.bytes + bytes > rank.limit && rank.weights < rank.gradients) weight(rank);
    ERATOS_CHECK(rank.bytes + bytes <= rank.limit);
  }

  // Uses the time until `input` comes for W.
  void give_time(int r, Picoseconds input) {
    Rank& rank = ranks_[size(r)];
    while (rank.weights < rank.gradients && rank.free_at < input) {
      const Picoseconds gap = input - rank.free_at;
      if (rank.cost.weight_gradient > gap && !switches_.greedy &&
          rank.bubble + gap <= longest_bubble_) {
        return;
      }
      weight(rank);
    }
  }

  void warm_up() {
    for (int r = 0; r < s_.pp; ++r) forward(r);
    Picoseconds gradient_end = 0;
    for (int r = s_.pp - 1; r >= 0; --r) {
      Rank& rank = ranks_[size(r)];
      const Picoseconds input = r + 1 == s_.pp ? 0 : gradient_end + rank.from_below;
      Picoseconds free_at = rank.free_at;
      rank.wants = 0;
      while (1 + rank.wants < rank.most &&
             (switches_.eager ? free_at < input : free_at + rank.cost.forward <= input)) {
        ++rank.wants;
        free_at += rank.cost.forward;
      }
      gradient_end = std::max(free_at, input) + rank.cost.input_gradient;
    }
    for (int r = 0; r < s_.pp; ++r) {
      Rank& rank = ranks_[size(r)];
      if (r > 0) {
        // One ahead of the next rank, until there are no more forwards.
        const int above = ranks_[size(r) - 1].wants;
        rank.wants = std::min(rank.wants, above + 1 == m_ ? above : std::max(0, above - 1));
      }
    }
    for (int r = 0; r < s_.pp; ++r) {
      for (int i = 0; i < ranks_[size(r)].wants; ++i) forward(r);
    }
    for (int r = s_.pp - 1; r >= 0; --r) gradient(r);
  }

  // Whether each rank runs an F in this round. The first F that a B of this round waits for is
  // never left out: a rank skips only what is ahead of the next one.
  void choose_forwards() {
    Picoseconds gradient_end = 0;  // of this round's B on the rank below, as far as can be seen
    int below = 1;
    for (int r = s_.pp - 1; r >= 0; --r) {
      Rank& rank = ranks_[size(r)];
      const Picoseconds input = r + 1 == s_.pp ? 0 : gradient_end + rank.from_below;
      rank.wants = rank.forwards < m_ ? below : 0;
      if (rank.wants == 1 && switches_.skip && r + 1 < s_.pp &&
          rank.forwards >= ranks_[size(r) + 1].forwards + 2 && in_the_way(rank, input)) {
        rank.wants = 0;
      }
      below = rank.wants;
      gradient_end =
          std::max(rank.free_at + rank.wants * rank.cost.forward, input) + rank.cost.input_gradient;
    }
  }

  // Would F make B, whose input comes at `input`, later than waiting for it costs?
  bool in_the_way(const Rank& rank, Picoseconds input) const {
    if (rank.free_at >= input) return true;
    Picoseconds end = rank.free_at + rank.cost.forward;
    std::int64_t bytes = rank.bytes + rank.cost.held;
    for (int w = rank.weights; w < rank.gradients && bytes > rank.limit; ++w) {
      end += rank.cost.weight_gradient;
      bytes -= rank.cost.kept;
    }
    if (end <= input) return false;
    return rank.bubble + input - rank.free_at <= longest_bubble_;
  }

  const Shape& s_;
  int m_;
  Switches switches_;
  std::vector<Rank> ranks_;
  std::vector<Picoseconds> forward_ends_;  // [p * kept_ends_]
  int kept_ends_ = 1;                      // a power of two
  Picoseconds longest_bubble_ = 0;
};

// Keeps the better of two orders.
class Best {
 public:
  Best(const Shape& s, const Costs& costs, Order& best) : s_(s), costs_(costs), best_(best) {}

  Order& candidate() { return candidate_; }
  // A makespan that the best may not exceed from now on.
  void ask_no_longer_than_best() { most_ = makespan_; }

  // Looks at candidate(); says whether it fits the limits.
  bool offer() {
    const Result<void> done = simulate(candidate_, costs_, workspace_, timing_);
    ERATOS_CHECK(done.has_value());
    for (int r = 0; r < s_.pp; ++r) {
      if (timing_.peaks.ranks[static_cast<std::size_t>(r)].held > limit_of(s_, costs_, r))
        return false;
    }
    if (timing_.makespan > most_) return true;
    if (std::pair(timing_.pitch, timing_.makespan) < std::pair(pitch_, makespan_)) {
      pitch_ = timing_.pitch;
      makespan_ = timing_.makespan;
      std::swap(candidate_, best_);
    }
    return true;
  }

 private:
  const Shape& s_;
  const Costs& costs_;
  Order& best_;
  Order candidate_;
  Workspace workspace_;
  Timing timing_;
  Picoseconds pitch_ = std::numeric_limits<Picoseconds>::max();
  Picoseconds makespan_ = std::numeric_limits<Picoseconds>::max();
  Picoseconds most_ = std::numeric_limits<Picoseconds>::max();
};

std::optional<Diagnostic> refuse(const Shape& s) { return refuse_chunks("zb-auto", s); }

std::optional<Diagnostic> refuse_limits(const Shape& s, const Costs& costs) {
  for (int r = 0; r < s.pp; ++r) {
    const std::int64_t one = needs(costs.chunks[static_cast<std::size_t>(r)]);
    const std::int64_t limit = limit_of(s, costs, r);
    if (one <= limit) continue;
    return Diagnostic{
        .message = "rank " + std::to_string(r) + " may hold " + std::to_string(limit) +
                   " bytes of activations, but one micro-batch takes " + std::to_string(one),
        .cure =
            "raise the limit, or lower what a micro-batch holds: batch.micro, or "
            "recompute with 1f1b",
        .field = "schedule.activation_limit"};
  }
  return std::nullopt;
}

void generate_for(const Shape& s, const Costs& costs, Order& order) {
  Best best(s, costs, order);
  generate_split(s, zb_h1_turns, best.candidate());
  if (best.offer()) best.ask_no_longer_than_best();
  generate_split(s, zb_h2_turns, best.candidate());
  best.offer();
  Greedy greedy(s, costs);
  for (int i = 0; i < 8; ++i) {
    greedy({.eager = (i & 1) != 0, .skip = (i & 2) != 0, .greedy = (i & 4) != 0}, best.candidate());
    ERATOS_CHECK(best.offer());
  }
}

// A rank holds at most `carried` micro-batches between F and B, so each turn of one of them from
// here down to the last rank and back carries no more than those.
Picoseconds lower(const Shape& s, const Costs& costs) {
  const std::int64_t m = s.micro_batches;
  Picoseconds best = 0;
  Picoseconds turn = 0;
  for (int r = 0; r < s.pp; ++r) {
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(r)];
    turn += c.forward + c.input_gradient;
    if (r > 0) turn += send_forward(costs, r - 1) + send_backward(costs, r);
  }
  Picoseconds above = 0;  // fill and drain
  for (int r = 0; r < s.pp; ++r) {
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(r)];
    if (r > 0) {
      const ChunkCost& before = costs.chunks[static_cast<std::size_t>(r) - 1];
      const Picoseconds step = before.forward + before.input_gradient + send_forward(costs, r - 1) +
                               send_backward(costs, r);
      above += step;
      turn -= step;
    }
    const std::int64_t carried =
        c.held == 0 ? m : std::clamp<std::int64_t>(limit_of(s, costs, r) / c.held, 1, m);
    const std::int64_t turns = (m - 1) / carried;
    best =
        std::max(best, above + turns * turn +
                           std::max(turn, (m - turns * carried) * (c.forward + c.input_gradient)));
  }
  // Rank 0 runs the last B of all, and a W after it.
  return best + costs.chunks[0].weight_gradient;
}

// zb-h1 is among the candidates. What its ranks hold at once: see micro_batches_for_peak there.
const Schedule* never_slower_than(const Shape& s, const Costs& costs) {
  for (int r = 0; r < s.pp; ++r) {
    const ChunkCost& c = costs.chunks[static_cast<std::size_t>(r)];
    const std::int64_t most =
        std::max((s.pp - r) * c.held + r * c.kept, (s.pp - r - 1) * c.held + (r + 1) * c.kept);
    if (std::min(most, s.micro_batches * needs(c)) > limit_of(s, costs, r)) return nullptr;
  }
  return &schedules::zb_h1;
}

}  // namespace

constinit const Schedule schedules::zb_auto{
    .name = "zb-auto",
    .what = "zero bubble found by a greedy rule from every stage's times, within a limit of memory",
    .placement = Placement::looped,
    .splits_backward = true,
    .refusal = refuse,
    .refusal_for = refuse_limits,
    .generate_for = generate_for,
    .lower = lower,
    .never_slower_than = never_slower_than,
};

}  // namespace eratos::schedule
