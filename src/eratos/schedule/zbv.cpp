// ZBV (V-ZB): as much memory as 1F1B, and with F = B = W no rank stands still between its first
// action and its last, from m = 2 p - 1 on: a step ends after 6 m + p - 1 units (one chunk's pass),
// and on each rank the next may begin 6 m after this one did.
//
// Rank r, from m = 2 p - 1 on:
//   2 (p - r) - 1     times  F0
//   r                 times  F1 F0
//   p - r             times  F1 B1 W1
//   m - 2 p + 1 + r   times  F0 B0 W0 F1 B1 W1
//   p - 1 - r         times  B0 W0 F1 B1 W1
//   r                 times  B0 B1
//   p - r             times  B0 W, the oldest whose W is not done
//   2 r               times  W, likewise
// Fewer micro-batches have no turn to repeat: every rank runs what V-Half's block has first of what
// can run, with room for 2 p chunks.
//
// Source: Qi et al., arXiv 2405.15362, section 3 (V-ZB), and "Zero Bubble Pipeline Parallelism",
// arXiv 2401.10241, section 6 (ZB-V), for the turn and the memory. How often each part comes is
// worked out here: in unit r rank r begins, in 5 p - 2 r - 1 its turns, in 6 m - 7 p + 4 r + 5 the
// turns without F0 and in 6 m - 2 p - r those without F; every input is there when its pass is due.
//
// Worked example: p = 2, m = 3
//   rank 0: F0 F0 F0 F1 B1 W1 F1 B1 W1 B0 W0 F1 B1 W1 B0 W0 B0 W0
//   rank 1: F0 F1 F0 F1 B1 W1 F0 B0 W0 F1 B1 W1 B0 B1 B0 W0 W1 W0
#include <algorithm>
#include <cstddef>

#include "eratos/schedule/registry.h"
#include "eratos/schedule/vee_pattern.h"

namespace eratos::schedule {
namespace {

using vee::b0;
using vee::b1;
using vee::f0;
using vee::f1;
using vee::w0;
using vee::w1;

std::optional<Diagnostic> refuse(const Shape& s) { return vee::refuse("zbv", s); }

// Writes one rank; every pass comes in the order of its micro-batches.
class Writer {
 public:
  explicit Writer(Action* out) : out_(out) {}

  template <class... Passes>
  void turns(int count, Passes... passes) {
    for (int i = 0; i < count; ++i) (put(passes), ...);
  }
  Action* end() const { return out_; }

 private:
  void put(int pass) { *out_++ = vee::action(pass, next_[pass]++); }

  Action* out_;
  int next_[vee::kPasses] = {};
};

constexpr vee::Block kFew{vee::v_half_start, vee::zbv_most_chunks};

void generate(const Shape& s, Order& order) {
  if (s.micro_batches < 2 * s.pp - 1) return vee::one_by_one(kFew, s, order);
  begin_order(s, Placement::vee, order);
  const int p = s.pp;
  const int m = s.micro_batches;
  order.actions.resize(static_cast<std::size_t>(slot_count(s)) * 3 *
                       static_cast<std::size_t>(s.micro_batches));
  Action* const first = order.actions.data();
  Action* out = first;
  for (int r = 0; r < p; ++r) {
    Writer rank(out);
    rank.turns(2 * (p - r) - 1, f0);
    rank.turns(r, f1, f0);
    rank.turns(p - r, f1, b1, w1);
    rank.turns(m - 2 * p + 1 + r, f0, b0, w0, f1, b1, w1);
    rank.turns(p - 1 - r, b0, w0, f1, b1, w1);
    rank.turns(r, b0, b1);
    // The W that are left: in turn of the B0 and B1 just above, then of the B0 that follow.
    int w = 0;
    const auto oldest = [&] {
      const int i = w++;
      return i < 2 * r && i % 2 == 1 ? w1 : w0;
    };
    for (int i = 0; i < p - r; ++i) rank.turns(1, b0, oldest());
    for (int i = 0; i < 2 * r; ++i) rank.turns(1, oldest());
    out = rank.end();
    order.first.push_back(out - first);
  }
}

int period(const Shape&) { return 1; }

// With 2 p every rank has a steady turn, and each ends with what it began with.
int micro_batches_for_peak(const Shape& s) { return std::min(s.micro_batches, 2 * s.pp); }

// Units beyond the work with F = B = W, at most; exact up to m = p and from 2 p - 1 on. Below, not
// proven: checked for p up to 64.
int bubble(const Shape& s) {
  const int p = s.pp;
  const int m = s.micro_batches;
  if (m <= p) return std::max(4 * p - 1 - 4 * m, 3 * p - 1 - 2 * m);
  return m < 2 * p - 1 ? std::max(p - 1, 2 * p - 5) : p - 1;
}

Picoseconds upper(const Shape& s, const Costs& costs) {
  return vee::upper(vee::kPasses * s.micro_batches + bubble(s), s, costs);
}

// The turns of six passes: the first begins with F0 of micro-batch 2 p - 1 - r.
vee::Steady steady(const Shape& s, int rank) {
  const int before = 2 * s.pp - 1 - rank;
  const int first = vee::zbv_start(s.pp, rank, f0) + vee::kPasses * before;
  return {first, first + vee::kPasses * (s.micro_batches - before) - 1};
}
Picoseconds lower(const Shape& s, const Costs& costs) {
  if (s.micro_batches < 2 * s.pp - 1) return 0;
  return vee::lower(vee::zbv_start, steady, s, costs);
}

}  // namespace

constinit const Schedule schedules::zbv =
    with_facts(parallel::schedule_facts::zbv,
               {
                   .what = "a V of two chunks a rank without a bubble, with 1F1B's memory",
                   .refusal = refuse,
                   .generate = generate,
                   .period = period,
                   .micro_batches_for_peak = micro_batches_for_peak,
                   .lower = lower,
                   .upper = upper,
               });

}  // namespace eratos::schedule
