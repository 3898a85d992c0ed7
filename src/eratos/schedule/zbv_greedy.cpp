// The V scheduled from every stage's own times, within a limit of bytes a rank. A greedy rule makes
// six orders; the best of them and of zbv, v-half and v-min, where these fit the limit, is kept,
// each judged by simulate().
//
// The rule, by the clock of overlapped sends: whenever a rank is free, it runs of the passes whose
// input is there the one that a block (v-min's, v-half's or zbv's: three choices) has first. W, the
// oldest first, whenever the bytes of that pass would not fit otherwise, and when no input is
// there: always, or only if it ends before the next input is known to come (two choices).
//
// Room: rank r has it for n chunks between F and B, of which 1 + r n / 2 p are chunk 1's and the
// rest, never less than one, chunk 0's. That is how the blocks share it: zbv has n = 2 p, v-half p
// + 2, v-min about 2 p / 3. Without shares F0 takes all the room there is, and F1, which would end
// in a gradient, waits. No order waits for itself, however tight the limit: of the oldest
// micro-batch that is not done the next pass always has its input and, since older ones are gone,
// its place.
//
// Best: the least Timing::pitch, then the least makespan, as zb-auto. Orders with a longer makespan
// than the first of zbv, v-half and v-min that surely fits are left out.
//
// Source: Qi et al., arXiv 2405.15362, for the blocks; a greedy V under a limit is ZB-V of "Zero
// Bubble Pipeline Parallelism", arXiv 2401.10241, section 6,
// sail-sg/zero-bubble-pipeline-parallelism,
// megatron/core/pipeline_parallel/zerobubble/scheduler/zbv.py, which gives every stage one time and
// goes by rounds. Without limits: as there, 2 p chunks, here of the largest of any rank.
//
// Worked example: p = 2, m = 2, F = B = W = 1, held = kept = 1, limits of 2 each: 17 units
//   rank 0: F0.0 F0.1 B0.1 W0.1 B0.0 F1.0 W0.0 F1.1 B1.1 W1.1 B1.0 W1.0
#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "eratos/base/check.h"
#include "eratos/schedule/best_order.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"
#include "eratos/schedule/vee_pattern.h"

namespace eratos::schedule {
namespace {

using vee::b0;
using vee::b1;
using vee::f0;
using vee::f1;
using vee::kPasses;
using vee::w0;
using vee::w1;

constexpr Picoseconds kUnknown = std::numeric_limits<Picoseconds>::max();

int chunk_of(int pass) { return pass == f1 || pass == b1 || pass == w1 ? 1 : 0; }

// Without limits, the room that zbv takes when all chunks are alike.
Limits limits_of(const Shape& s, const Costs& costs) { return {costs, vee::zbv_most_chunks(s.pp)}; }

// What a rank's B adds at its end, at most.
std::int64_t growth_of(const ChunkCost& down, const ChunkCost& up) {
  return std::max({std::int64_t{0}, down.kept - down.held, up.kept - up.held});
}

struct Choice {
  int (*start)(int p, int rank, int pass) = nullptr;  // of the block that says what comes first
  bool eager = false;                                 // W whenever no input is there
};

class Greedy {
 public:
  Greedy(const Shape& s, const Costs& costs, const Limits& limits)
      : p_(s.pp),
        m_(s.micro_batches),
        costs_(costs),
        ranks_(static_cast<std::size_t>(s.pp)),
        ends_(static_cast<std::size_t>(s.pp) * 4 * static_cast<std::size_t>(s.micro_batches)) {
    for (int r = 0; r < p_; ++r) {
      Rank& rank = ranks_[static_cast<std::size_t>(r)];
      for (int chunk = 0; chunk < 2; ++chunk) rank.cost[chunk] = costs.chunks[slot(r, chunk)];
      rank.limit = limits[r];
      rank.growth = growth_of(rank.cost[0], rank.cost[1]);
      share(r);
    }
  }

  void operator()(const Choice& choice, const Shape& s, Order& order) {
    choice_ = choice;
    begin_order(s, Placement::vee, order);
    const std::size_t each = kPasses * static_cast<std::size_t>(m_);
    order.actions.resize(static_cast<std::size_t>(p_) * each);
    std::fill(ends_.begin(), ends_.end(), kUnknown);
    for (int r = 0; r < p_; ++r) {
      Rank& rank = ranks_[static_cast<std::size_t>(r)];
      rank.out = order.actions.data() + static_cast<std::size_t>(r) * each;
      std::fill(std::begin(rank.done), std::end(rank.done), 0);
      rank.held = rank.waiting = 0;
      rank.free_at = 0;
      rank.wake = r == 0 ? 0 : kUnknown;
      order.first.push_back(static_cast<std::int64_t>(static_cast<std::size_t>(r + 1) * each));
    }
    for (std::size_t left = order.actions.size(); left > 0;) {
      int next = 0;
      for (int r = 1; r < p_; ++r) {
        if (at(r).wake < at(next).wake) next = r;
      }
      ERATOS_CHECK(at(next).wake != kUnknown);
      left -= decide(next) ? 1 : 0;
    }
  }

 private:
  struct Rank {
    ChunkCost cost[2];
    std::int64_t limit = 0;
    std::int64_t growth = 0;
    std::int64_t held = 0;     // bytes between F and B
    std::int64_t waiting = 0;  // bytes between B and W
    int most[2] = {};          // micro-batches of each chunk between F and B
    int done[kPasses] = {};
    Picoseconds free_at = 0;
    Picoseconds wake = 0;  // when it decides next
    Action* out = nullptr;
  };

  static std::size_t slot(int rank, int chunk) {
    return static_cast<std::size_t>(2 * rank + chunk);
  }
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Picoseconds& end_of(int rank, int pass, int k) {
    return ends_[(static_cast<std::size_t>(rank) * 4 + static_cast<std::size_t>(pass)) *
                     static_cast<std::size_t>(m_) +
                 static_cast<std::size_t>(k)];
  }

  static Picoseconds duration(const Rank& rank, int pass) {
    const ChunkCost& c = rank.cost[chunk_of(pass)];
    return vee::is_forward(pass)    ? c.forward
           : vee::is_gradient(pass) ? c.input_gradient
                                    : c.weight_gradient;
  }

  // When the input of the next micro-batch's pass is there, if it is known.
  Picoseconds arrival(int r, int pass) {
    const int k = at(r).done[pass];
    const int from = pass == f0 || pass == b1 ? r - 1 : r + 1;
    if (from < 0 || from == p_) return pass == f0 ? 0 : end_of(r, pass - 1, k);
    const Picoseconds end = end_of(from, pass, k);
    if (end == kUnknown) return kUnknown;
    const int sender = static_cast<int>(slot(from, chunk_of(pass)));
    return end +
           (vee::is_forward(pass) ? send_forward(costs_, sender) : send_backward(costs_, sender));
  }

  void share(int r) {
    Rank& rank = at(r);
    const auto of_chunk_1 = [&](std::int64_t n) { return 1 + r * n / (2 * p_); };
    const auto bytes = [&](std::int64_t n) {
      const std::int64_t up = of_chunk_1(n);
      return (n - up) * rank.cost[0].held + up * rank.cost[1].held + rank.growth;
    };
    std::int64_t n = 2;
    while (n < 4 * std::int64_t{m_} && bytes(n + 1) <= rank.limit) ++n;
    rank.most[1] = static_cast<int>(of_chunk_1(n));
    rank.most[0] = static_cast<int>(n) - rank.most[1];
  }

  // With every W done, what has its place also has room for its gradients (share).
  bool has_place(const Rank& rank, int pass) const {
    if (!vee::is_forward(pass)) return true;
    return rank.done[pass] - rank.done[pass == f0 ? b0 : b1] < rank.most[pass];
  }

  // Bytes that the pass adds at most.
  static std::int64_t adds(const Rank& rank, int pass) {
    const ChunkCost& c = rank.cost[chunk_of(pass)];
    return vee::is_forward(pass) ? c.held : std::max<std::int64_t>(0, c.kept - c.held);
  }

  // The gradient that has run longest ago without its W; -1: none.
  int oldest_gradient(int r) {
    const int* done = at(r).done;
    const bool up = done[b1] > done[w1];
    const bool down = done[b0] > done[w0];
    if (up && down) return end_of(r, b1, done[w1]) < end_of(r, b0, done[w0]) ? b1 : b0;
    return up ? b1 : down ? b0 : -1;
  }

  // Returns whether the rank ran something; else it sleeps.
  bool decide(int r) {
    Rank& rank = at(r);
    const Picoseconds now = rank.wake;
    int best = -1;
    int first = 0;
    Picoseconds soonest = kUnknown;
    for (int pass = f0; pass <= b0; ++pass) {
      const int k = rank.done[pass];
      if (k == m_ || (pass != f0 && rank.done[pass - 1] <= k)) continue;
      const Picoseconds here = arrival(r, pass);
      if (here == kUnknown || !has_place(rank, pass)) continue;
      if (here > now) {
        soonest = std::min(soonest, here);
        continue;
      }
      const int planned = choice_.start(p_, r, pass) + kPasses * k;
      if (best >= 0 && planned >= first) continue;
      best = pass;
      first = planned;
    }
    const int gradient = oldest_gradient(r);
    if (best >= 0) {
      const bool fits = rank.held + rank.waiting + adds(rank, best) <= rank.limit;
      ERATOS_CHECK(fits || gradient >= 0);
      run(r, fits ? best : vee::w_of(gradient), now);
      return true;
    }
    if (gradient >= 0) {
      const int w = vee::w_of(gradient);
      if (choice_.eager || soonest == kUnknown || now + duration(rank, w) <= soonest) {
        run(r, w, now);
        return true;
      }
    }
    rank.wake = soonest;
    return false;
  }

  void run(int r, int pass, Picoseconds now) {
    Rank& rank = at(r);
    const int k = rank.done[pass]++;
    const ChunkCost& c = rank.cost[chunk_of(pass)];
    *rank.out++ = vee::action(pass, k);
    rank.free_at = rank.wake = now + duration(rank, pass);
    if (vee::is_forward(pass)) {
      rank.held += c.held;
    } else if (vee::is_gradient(pass)) {
      rank.held -= c.held;
      rank.waiting += c.kept;
    } else {
      rank.waiting -= c.kept;
      return;
    }
    end_of(r, pass, k) = rank.free_at;
    const int to = pass == f0 || pass == b1 ? r + 1 : r - 1;
    if (to < 0 || to == p_) return;
    Rank& next = at(to);
    // Only what that rank waits for may wake it.
    if (next.done[pass] != k) return;
    next.wake = std::min(next.wake, std::max(next.free_at, arrival(to, pass)));
  }

  int p_;
  int m_;
  const Costs& costs_;
  Choice choice_;
  std::vector<Rank> ranks_;
  std::vector<Picoseconds> ends_;  // [p, 4, m]
};

std::optional<Diagnostic> refuse(const Shape& s) { return vee::refuse("zbv-greedy", s); }

std::optional<Diagnostic> refuse_limits(const Shape& s, const Costs& costs) {
  const Limits limits = limits_of(s, costs);
  for (int r = 0; r < s.pp; ++r) {
    const ChunkCost& down = costs.chunks[static_cast<std::size_t>(slot_of(s, r, 0))];
    const ChunkCost& up = costs.chunks[static_cast<std::size_t>(slot_of(s, r, 1))];
    const std::int64_t one = down.held + up.held + growth_of(down, up);
    const std::int64_t limit = limits[r];
    if (one <= limit) continue;
    return Diagnostic{.message = "rank " + std::to_string(r) + " may hold " +
                                 std::to_string(limit) +
                                 " bytes of activations, but one micro-batch takes " +
                                 std::to_string(one) + " in its two chunks",
                      .cure =
                          "raise the limit, or lower what a micro-batch holds: batch.micro, or "
                          "recompute with interleaved-1f1b",
                      .field = "schedule.activation_limit"};
  }
  return std::nullopt;
}

// Whether an order that holds at most so many chunks on a rank fits, whichever they are.
bool surely_fits(const Shape& s, const Costs& costs, const Limits& limits, int chunks) {
  for (int r = 0; r < s.pp; ++r) {
    std::int64_t most = 0;
    for (int chunk = 0; chunk < 2; ++chunk) {
      const ChunkCost& c = costs.chunks[static_cast<std::size_t>(slot_of(s, r, chunk))];
      most = std::max({most, c.held, c.kept});
    }
    if (std::min(chunks, 2 * s.micro_batches) * most > limits[r]) return false;
  }
  return true;
}

struct Formatted {
  const Schedule* schedule;
  int (*most_chunks)(int p);
};
constexpr Formatted kFormatted[] = {{&schedules::zbv, vee::zbv_most_chunks},
                                    {&schedules::v_half, vee::v_half_most_chunks},
                                    {&schedules::v_min, vee::v_min_most_chunks}};

void generate_for(const Shape& s, const Costs& costs, Order& order) {
  const Limits limits = limits_of(s, costs);
  BestOrder best(costs, limits, order);
  bool asked = false;
  for (const Formatted& f : kFormatted) {
    f.schedule->generate(s, best.candidate());
    best.offer();
    if (asked || !surely_fits(s, costs, limits, f.most_chunks(s.pp))) continue;
    best.ask_no_longer_than_best();
    asked = true;
  }
  Greedy greedy(s, costs, limits);
  for (const auto start : {vee::zbv_start, vee::v_half_start, vee::v_min_start}) {
    for (const bool eager : {false, true}) {
      greedy({start, eager}, s, best.candidate());
      ERATOS_CHECK(best.offer());
    }
  }
}

const Schedule* never_slower_than(const Shape& s, const Costs& costs) {
  const Limits limits = limits_of(s, costs);
  for (const Formatted& f : kFormatted) {
    if (surely_fits(s, costs, limits, f.most_chunks(s.pp))) return f.schedule;
  }
  return nullptr;
}

}  // namespace

constinit const Schedule schedules::zbv_greedy = with_facts(
    parallel::schedule_facts::zbv_greedy,
    {
        .what = "a V found by a greedy rule from every stage's times, within a limit of memory",
        .refusal = refuse,
        .refusal_for = refuse_limits,
        .generate_for = generate_for,
        .never_slower_than = never_slower_than,
    });

}  // namespace eratos::schedule
