#include "eratos/schedule/vee_pattern.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "eratos/base/check.h"

namespace eratos::schedule::vee {
namespace {

constexpr int kNone = -1;

// Integers kept in the order's own vector of actions, whose capacity serves the next order too.
class Cells {
 public:
  Cells() = default;
  Cells(Action*& free, std::int64_t count, int value) : first_(free) {
    free += count;
    for (Action* a = first_; a != free; ++a) a->micro_batch = value;
  }
  std::int32_t& operator[](std::int64_t i) const { return first_[i].micro_batch; }

 private:
  Action* first_ = nullptr;
};

// Until when the ranks keep to the block.
enum class Keeps {
  never,
  // Until rank 0's last F0: with few micro-batches the others do better to go on at once.
  together,
  // Each until its own last F0, so that what it runs with F0 is the block's turn over and over.
  each,
};

// The repeated block of m micro-batches, as it is used: what each rank runs in each of its first
// units, while it keeps to the block, and then what it runs one after another.
class Core {
 public:
  Core(const Block& block, int p, int micro_batches, Keeps keeps)
      : block_(block),
        p_(p),
        m_(micro_batches),
        most_(block.most_chunks(p)),
        keeps_(keeps),
        row_(units_of(p - 1)) {}

  std::int64_t scratch() const {
    return p_ * (2 * std::int64_t{row_} + 2 * kPasses * std::int64_t{m_} + kPasses + 4);
  }

  void build(Action* scratch) {
    const std::int64_t in_units = std::int64_t{p_} * row_;
    const std::int64_t passes = std::int64_t{p_} * kPasses * m_;
    runs_ = Cells(scratch, in_units, kNone);
    held_ = Cells(scratch, in_units, 0);
    when_ = Cells(scratch, passes, kNone);
    tail_ = Cells(scratch, passes, kNone);
    done_ = Cells(scratch, std::int64_t{p_} * kPasses, 0);
    now_held_ = Cells(scratch, p_, 0);
    next_ = Cells(scratch, p_, kNone);
    units_ = Cells(scratch, p_, 0);
    tail_size_ = Cells(scratch, p_, 0);
    for (int rank = 0; rank < p_; ++rank) {
      units_[rank] = units_of(rank);
      lay_out(rank);
    }
    const int first_back = block_.start(p_, 0, b0);
    for (int unit = 0; unit < std::min(row_, first_back); ++unit) {
      for (int rank = 0; rank < p_; ++rank) {
        if (unit < units_[rank]) move_up(rank, unit);
      }
    }
    std::int64_t left = passes;
    for (int unit = 0; left > 0; ++unit) {
      const int ran = step(unit);
      ERATOS_CHECK(ran > 0 || unit < row_);  // room_for() says why
      left -= ran;
    }
  }

  // visit(unit, action) for all of a rank; the unit counts on one by one after the last that is
  // kept.
  template <class Visit>
  void for_each(int rank, Visit visit) const {
    for (int unit = 0; unit < units_[rank]; ++unit) {
      if (const int code = runs_[at(rank, unit)]; code != kNone) visit(unit, decode(code));
    }
    const std::int64_t first = std::int64_t{rank} * kPasses * m_;
    for (int i = 0; i < tail_size_[rank]; ++i) visit(units_[rank] + i, decode(tail_[first + i]));
  }

 private:
  int units_of(int rank) const {
    if (keeps_ == Keeps::never) return 0;
    return block_.start(p_, keeps_ == Keeps::each ? rank : 0, f0) + kPasses * (m_ - 1) + 1;
  }
  std::int64_t at(int rank, int unit) const { return std::int64_t{rank} * row_ + unit; }
  std::int64_t at(int rank, int pass, int k) const {
    return (std::int64_t{rank} * kPasses + pass) * m_ + k;
  }
  std::int32_t& done(int rank, int pass) const { return done_[rank * kPasses + pass]; }
  int code(int pass, int k) const { return pass * m_ + k; }
  Action decode(int code) const { return action(code / m_, code % m_); }

  // The block of every micro-batch, W in the first unit left free once its B has run, oldest first.
  void lay_out(int rank) {
    const int units = units_[rank];
    for (int pass = f0; pass <= b0; ++pass) {
      int unit = block_.start(p_, rank, pass);
      for (int k = 0; k < m_; ++k, unit += kPasses) {
        when_[at(rank, pass, k)] = unit;
        if (unit < units) runs_[at(rank, unit)] = code(pass, k);
      }
    }
    int held = 0;
    int begun[2] = {0, 0};
    int ended[2] = {0, 0};
    for (int unit = 0; unit < units; ++unit) {
      std::int32_t& here = runs_[at(rank, unit)];
      if (here == kNone) {
        if (const int gradient = oldest(rank, begun, ended); gradient != kNone) {
          const int k = ended[gradient - b1]++;
          here = code(w_of(gradient), k);
          when_[at(rank, w_of(gradient), k)] = unit;
        }
      }
      const int pass = here == kNone ? int{kNone} : here / m_;
      if (pass == f0 || pass == f1) ++held;
      held_[at(rank, unit)] = held;
      if (pass == b1 || pass == b0) ++begun[pass - b1];
      if (pass == w1 || pass == w0) --held;
    }
  }

  // b1 or b0, whichever has run longest ago without its W; kNone without any.
  int oldest(int rank, const int (&begun)[2], const int (&ended)[2]) const {
    const bool has1 = begun[0] > ended[0];
    const bool has0 = begun[1] > ended[1];
    if (has1 && has0) {
      return when_[at(rank, b1, ended[0])] < when_[at(rank, b0, ended[1])] ? b1 : b0;
    }
    return has1 ? b1 : has0 ? b0 : kNone;
  }

  // The unit after which a pass has its input and the pass of its kind before it is over.
  int ready_after(int rank, int pass, int k) const {
    int latest = kNone;
    const auto after = [&](int other_rank, int other) {
      latest = std::max(latest, int{when_[at(other_rank, other, k)]});
    };
    if ((pass == f0 || pass == b1) && rank > 0) after(rank - 1, pass);
    if ((pass == f1 || pass == b0) && rank + 1 < p_) after(rank + 1, pass);
    if (pass > f0 && pass <= b0) after(rank, pass - 1);
    if (pass >= w1) after(rank, pass - 2);
    if (k > 0) latest = std::max(latest, int{when_[at(rank, pass, k - 1)]});
    return latest;
  }

  // Into the earliest free unit whose inputs are there and from which on there is room. Units are
  // visited in order, so what it waits for has moved before.
  void move_up(int rank, int unit) {
    const int moved = runs_[at(rank, unit)];
    if (moved == kNone) return;
    const int pass = moved / m_;
    const int k = moved % m_;
    int best = unit;
    const int after = ready_after(rank, pass, k);
    for (int earlier = unit - 1; earlier > after; --earlier) {
      if (is_forward(pass) && held_[at(rank, earlier)] >= most_) break;
      if (runs_[at(rank, earlier)] == kNone) best = earlier;
    }
    if (best == unit) return;
    runs_[at(rank, unit)] = kNone;
    runs_[at(rank, best)] = moved;
    when_[at(rank, pass, k)] = best;
    if (is_forward(pass)) {
      for (int u = best; u < unit; ++u) ++held_[at(rank, u)];
    } else if (!is_gradient(pass)) {
      for (int u = best + 1; u <= unit; ++u) --held_[at(rank, u)];
    }
  }

  bool has_input(int rank, int pass) const {
    const int k = done(rank, pass);
    if (pass >= w1) return done(rank, pass - 2) > k;
    if (k == m_ || (pass > f0 && done(rank, pass - 1) <= k)) return false;
    if ((pass == f0 || pass == b1) && rank > 0) return done(rank - 1, pass) > k;
    if ((pass == f1 || pass == b0) && rank + 1 < p_) return done(rank + 1, pass) > k;
    return true;
  }

  // Micro-batches that came down and wait to come up leave room for one F1. Then the oldest
  // micro-batch can always go on: each rank holds, beside it, only such ones.
  bool room_for(int rank, int pass) const {
    if (!is_forward(pass)) return true;
    if (now_held_[rank] >= most_) return false;
    return pass == f1 || done(rank, f0) - done(rank, f1) + 2 <= most_;
  }

  // The pass that the block has first of those that can run; W if none can.
  int choose(int rank) const {
    int next = kNone;
    int first = 0;
    for (int pass = f0; pass <= b0; ++pass) {
      if (!has_input(rank, pass) || !room_for(rank, pass)) continue;
      const int planned = block_.start(p_, rank, pass) + kPasses * done(rank, pass);
      if (next != kNone && planned > first) continue;
      next = pass;
      first = planned;
    }
    if (next != kNone) return next;
    const int gradient =
        oldest(rank, {done(rank, b1), done(rank, b0)}, {done(rank, w1), done(rank, w0)});
    return gradient == kNone ? int{kNone} : w_of(gradient);
  }

  // One unit of all ranks. Returns how many passes ran.
  int step(int unit) {
    for (int rank = 0; rank < p_; ++rank) {
      if (unit < units_[rank]) {
        const int code = runs_[at(rank, unit)];
        next_[rank] = code == kNone ? int{kNone} : code / m_;
        if (code == kNone || has_input(rank, code / m_)) continue;
        units_[rank] = unit;  // A rank before it has left the block and is late: so does this one.
      }
      next_[rank] = choose(rank);
    }
    int ran = 0;
    for (int rank = 0; rank < p_; ++rank) {
      const int pass = next_[rank];
      if (pass == kNone) continue;
      const int k = done(rank, pass)++;
      when_[at(rank, pass, k)] = unit;
      if (unit >= units_[rank]) {
        tail_[std::int64_t{rank} * kPasses * m_ + tail_size_[rank]++] = code(pass, k);
      }
      if (is_forward(pass)) ++now_held_[rank];
      if (!is_forward(pass) && !is_gradient(pass)) --now_held_[rank];
      ++ran;
    }
    return ran;
  }

  const Block& block_;
  int p_;
  int m_;
  int most_;
  Keeps keeps_;
  int row_;     // units kept for a rank
  Cells runs_;  // [p, row] pass and micro-batch that runs in a unit
  Cells held_;  // [p, row] chunks held in it
  Cells when_;  // [p, passes, m] its unit
  Cells tail_;  // [p, passes m] what runs after the units
  Cells done_;  // [p, passes]
  Cells now_held_;
  Cells next_;
  Cells units_;  // [p] of those kept, how many a rank uses
  Cells tail_size_;
};

// From here on nothing has moved, and W has found its place in the turn: the turn after the one in
// which the first gradient is back at rank 0.
int steady_from(const Block& block, int p) { return block.start(p, 0, b0) + kPasses; }

}  // namespace

int least_steady(const Block& block, int p) {
  // The steady turn and all before it come before rank 0's last F0.
  return (steady_from(block, p) + 2 * kPasses - 1) / kPasses + 1;
}

Steady steady_of(const Block& block, const Shape& s, int rank) {
  if (s.micro_batches < least_steady(block, s.pp)) return {};
  return {block.start(s.pp, 0, b0), block.start(s.pp, rank, f0) + kPasses * (s.micro_batches - 1)};
}

void repeat(const Block& block, const Shape& s, Order& order) {
  begin_order(s, Placement::vee, order);
  const int m = s.micro_batches;
  const int core_m = std::min(m, least_steady(block, s.pp));
  const int more = m - core_m;
  const std::int64_t size = std::int64_t{s.pp} * kPasses * m;
  Core core(block, s.pp, core_m, m < least_steady(block, s.pp) ? Keeps::together : Keeps::each);
  order.actions.resize(static_cast<std::size_t>(size + core.scratch()));
  core.build(order.actions.data() + size);

  const int turn = steady_from(block, s.pp);
  Action* out = order.actions.data();
  for (int rank = 0; rank < s.pp; ++rank) {
    Action steady[kPasses];
    int filled = 0;
    bool repeated = more == 0;
    core.for_each(rank, [&](int unit, Action a) {
      if (more > 0 && unit >= turn && unit < turn + kPasses) steady[filled++] = a;
      if (unit >= turn + kPasses && !repeated) {
        ERATOS_CHECK(filled == kPasses);
        for (int i = 1; i <= more; ++i) {
          for (Action next : steady) {
            next.micro_batch += i;
            *out++ = next;
          }
        }
        repeated = true;
      }
      if (unit >= turn + kPasses) a.micro_batch += more;
      *out++ = a;
    });
    order.first.push_back(out - order.actions.data());
  }
  order.actions.resize(static_cast<std::size_t>(size));
}

void one_by_one(const Block& block, const Shape& s, Order& order) {
  begin_order(s, Placement::vee, order);
  const std::int64_t size = std::int64_t{s.pp} * kPasses * s.micro_batches;
  Core core(block, s.pp, s.micro_batches, Keeps::never);
  order.actions.resize(static_cast<std::size_t>(size + core.scratch()));
  core.build(order.actions.data() + size);
  Action* out = order.actions.data();
  for (int rank = 0; rank < s.pp; ++rank) {
    core.for_each(rank, [&](int, Action a) { *out++ = a; });
    order.first.push_back(out - order.actions.data());
  }
  order.actions.resize(static_cast<std::size_t>(size));
}

// Without the pause, p a multiple of 3 would put B1 of one micro-batch and F0 of another into one
// unit.
int v_min_start(int p, int rank, int pass) {
  const int pause = p % 3 == 0 ? 2 : 0;
  switch (pass) {
    case f0:
      return rank;
    case f1:
      return 2 * p - 1 - rank;
    case b1:
      return 2 * p + pause + rank;
    default:
      return 4 * p + pause - 1 - rank;
  }
}

// Without the pause, p even would put B1 of one micro-batch and F1 of another into one unit.
int v_half_start(int p, int rank, int pass) {
  const int pause = p % 2 == 0 ? 3 : 0;
  switch (pass) {
    case f0:
      return 2 * rank;
    case f1:
      return 3 * p - 2 - rank;
    case b1:
      return 3 * p + pause - 1 + 2 * rank;
    default:
      return 6 * p + pause - 2 - rank;
  }
}

int zbv_start(int p, int rank, int pass) {
  switch (pass) {
    case f0:
      return 4 * rank;
    case f1:
      return 6 * p - 3 - 2 * rank;
    case b1:
      return 6 * p - 2 + 4 * rank;
    default:
      return 12 * p - 5 - 2 * rank;
  }
}

std::optional<Diagnostic> refuse(std::string_view name, const Shape& s) {
  if (s.pp < 2) {
    return Diagnostic{.message = std::string(name) + " needs a pipeline, but pp is 1",
                      .cure = "choose none",
                      .field = "parallel.pp"};
  }
  if (s.chunks == 2) return std::nullopt;
  return Diagnostic{.message = std::string(name) +
                               " sends a micro-batch down the ranks and back up, " +
                               "two chunks a rank, but vpp is " + std::to_string(s.chunks),
                    .cure = "set vpp to 2",
                    .field = "parallel.vpp"};
}

}  // namespace eratos::schedule::vee
