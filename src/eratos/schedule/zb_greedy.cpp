#include "eratos/schedule/zb_greedy.h"

#include <algorithm>
#include <limits>

#include "eratos/base/check.h"

namespace eratos::schedule {

namespace {
constexpr Picoseconds kNever = std::numeric_limits<Picoseconds>::max();
}

ZeroBubbleGreedy::ZeroBubbleGreedy(const Shape& s, const Costs& costs, const Limits& limits)
    : s_(s), m_(s.micro_batches), ranks_(static_cast<std::size_t>(s.pp)) {
  int most = 1;
  for (int r = 0; r < s.pp; ++r) {
    Rank& rank = at(r);
    const ChunkCost& c = rank.cost = costs.chunks[static_cast<std::size_t>(r)];
    rank.limit = limits[r];
    // As many as fit between F and B such that the next B fits too, once no W is left to do.
    const std::int64_t one = std::max(c.held, c.kept);
    rank.most = c.held == 0
                    ? m_
                    : static_cast<int>(std::min<std::int64_t>(m_, (rank.limit - one) / c.held + 1));
    if (r > 0) rank.from_above = send_forward(costs, r - 1);
    if (r + 1 < s.pp) rank.from_below = send_backward(costs, r + 1);
    most = std::max(most, rank.most);
  }
  while (kept_ends_ < most) kept_ends_ *= 2;
  forward_ends_.resize(ranks_.size() * static_cast<std::size_t>(kept_ends_));
  gradient_ends_.resize(forward_ends_.size());
}

void ZeroBubbleGreedy::start(Order& order) {
  begin_order(s_, Placement::looped, order);
  const std::int64_t each = 3 * std::int64_t{m_};
  order.actions.resize(static_cast<std::size_t>(each * s_.pp));
  longest_bubble_ = 0;
  for (int r = 0; r < s_.pp; ++r) {
    Rank& rank = at(r);
    rank.out = order.actions.data() + each * r;
    rank.forwards = rank.gradients = rank.weights = 0;
    rank.free_at = rank.bubble = rank.bytes = 0;
    order.first.push_back(each * (r + 1));
  }
}

Picoseconds ZeroBubbleGreedy::forward_input(int r) {
  return r == 0 ? 0 : forward_ends_[kept(r - 1, at(r).forwards)] + at(r).from_above;
}
Picoseconds ZeroBubbleGreedy::gradient_input(int r) {
  return r + 1 == s_.pp ? 0 : gradient_ends_[kept(r + 1, at(r).gradients)] + at(r).from_below;
}

void ZeroBubbleGreedy::run(Rank& rank, Picoseconds input, Picoseconds duration, int micro_batch,
                           Kind kind) {
  const Picoseconds begins = std::max(rank.free_at, input);
  if (rank.forwards > 0) {
    rank.bubble += begins - rank.free_at;
    longest_bubble_ = std::max(longest_bubble_, rank.bubble);
  }
  rank.free_at = begins + duration;
  *rank.out++ = {micro_batch, 0, kind};
}

void ZeroBubbleGreedy::forward(int r) {
  Rank& rank = at(r);
  run(rank, forward_input(r), rank.cost.forward, rank.forwards, Kind::forward);
  forward_ends_[kept(r, rank.forwards++)] = rank.free_at;
  rank.bytes += rank.cost.held;
}

void ZeroBubbleGreedy::gradient(int r) {
  Rank& rank = at(r);
  run(rank, gradient_input(r), rank.cost.input_gradient, rank.gradients, Kind::input_gradient);
  gradient_ends_[kept(r, rank.gradients++)] = rank.free_at;
  rank.bytes += rank.cost.kept - rank.cost.held;
}

void ZeroBubbleGreedy::weight(Rank& rank) {
  run(rank, 0, rank.cost.weight_gradient, rank.weights++, Kind::weight_gradient);
  rank.bytes -= rank.cost.kept;
}

// By rounds
// -----------------------------------------------------------------------------------------

void ZeroBubbleGreedy::by_rounds(Switches switches, Order& order) {
  switches_ = switches;
  start(order);
  warm_up();
  for (int i = 1; i < m_; ++i) {
    choose_forwards();
    for (int r = 0; r < s_.pp; ++r) {
      Rank& rank = at(r);
      if (rank.wants == 0) continue;
      give_time(rank, forward_input(r));
      make_room(rank, rank.cost.held);
      forward(r);
    }
    for (int r = s_.pp - 1; r >= 0; --r) {
      Rank& rank = at(r);
      give_time(rank, gradient_input(r));
      make_room(rank, rank.cost.kept - rank.cost.held);
      gradient(r);
    }
  }
  for (Rank& rank : ranks_) {
    while (rank.weights < m_) weight(rank);
  }
}

void ZeroBubbleGreedy::make_room(Rank& rank, std::int64_t bytes) {
  while (rank.bytes + bytes > rank.limit && rank.weights < rank.gradients) weight(rank);
  ERATOS_CHECK(rank.bytes + bytes <= rank.limit);
}

// Uses the time until `input` comes for W.
void ZeroBubbleGreedy::give_time(Rank& rank, Picoseconds input) {
  while (rank.weights < rank.gradients && rank.free_at < input) {
    const Picoseconds gap = input - rank.free_at;
    if (rank.cost.weight_gradient > gap && !switches_.greedy &&
        rank.bubble + gap <= longest_bubble_) {
      return;
    }
    weight(rank);
  }
}

void ZeroBubbleGreedy::warm_up() {
  for (int r = 0; r < s_.pp; ++r) forward(r);
  Picoseconds gradient_end = 0;
  for (int r = s_.pp - 1; r >= 0; --r) {
    Rank& rank = at(r);
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
  // One ahead of the next rank, until there are no more forwards.
  for (int r = 1; r < s_.pp; ++r) {
    const int above = at(r - 1).wants;
    at(r).wants = std::min(at(r).wants, above + 1 == m_ ? above : std::max(0, above - 1));
  }
  for (int r = 0; r < s_.pp; ++r) {
    for (int i = 0; i < at(r).wants; ++i) forward(r);
  }
  for (int r = s_.pp - 1; r >= 0; --r) gradient(r);
}

// Whether each rank runs an F in this round. An F that a B of this round waits for is never left
// out: a rank skips only what is ahead of the next one.
void ZeroBubbleGreedy::choose_forwards() {
  Picoseconds gradient_end = 0;  // of this round's B on the rank below, as far as can be seen
  int below = 1;
  for (int r = s_.pp - 1; r >= 0; --r) {
    Rank& rank = at(r);
    const Picoseconds input = r + 1 == s_.pp ? 0 : gradient_end + rank.from_below;
    rank.wants = rank.forwards < m_ ? below : 0;
    if (rank.wants == 1 && switches_.skip && r + 1 < s_.pp &&
        rank.forwards >= at(r + 1).forwards + 2 && in_the_way(rank, input)) {
      rank.wants = 0;
    }
    below = rank.wants;
    gradient_end =
        std::max(rank.free_at + rank.wants * rank.cost.forward, input) + rank.cost.input_gradient;
  }
}

// Would F make B, whose input comes at `input`, later than waiting for it costs?
bool ZeroBubbleGreedy::in_the_way(const Rank& rank, Picoseconds input) const {
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

// As inputs come
// ------------------------------------------------------------------------------------

void ZeroBubbleGreedy::as_inputs_come(bool patient, Order& order) {
  start(order);
  next_starts_.resize(ranks_.size());
  for (int r = 0; r < s_.pp; ++r) look(r, patient);
  for (std::int64_t left = std::int64_t{3} * m_ * s_.pp; left > 0; --left) {
    const auto earliest = std::min_element(next_starts_.begin(), next_starts_.end());
    ERATOS_CHECK(*earliest != kNever);
    const int r = static_cast<int>(earliest - next_starts_.begin());
    switch (at(r).next) {
      case Kind::forward:
        forward(r);
        if (r + 1 < s_.pp) look(r + 1, patient);
        break;
      case Kind::input_gradient:
        gradient(r);
        if (r > 0) look(r - 1, patient);
        break;
      default:
        weight(at(r));
    }
    look(r, patient);
  }
}

// What rank r does next, and when, as far as inputs are known: one that is not cannot come before
// the earliest next start of all ranks, which is run first.
void ZeroBubbleGreedy::look(int r, bool patient) {
  Rank& rank = at(r);
  const bool owes = rank.weights < rank.gradients;
  const bool f_fits = rank.bytes + rank.cost.held <= rank.limit;
  const bool b_fits = rank.bytes + rank.cost.kept - rank.cost.held <= rank.limit;
  Picoseconds f = kNever;
  Picoseconds b = kNever;
  if (rank.forwards < m_ && rank.forwards - rank.gradients < rank.most && (f_fits || !owes) &&
      (r == 0 || at(r - 1).forwards > rank.forwards)) {
    f = std::max(rank.free_at, forward_input(r));
  }
  if (rank.gradients < rank.forwards && (b_fits || !owes) &&
      (r + 1 == s_.pp || at(r + 1).gradients > rank.gradients)) {
    b = std::max(rank.free_at, gradient_input(r));
  }
  Picoseconds& next_start = next_starts_[static_cast<std::size_t>(r)];
  rank.next = b <= f ? Kind::input_gradient : Kind::forward;
  next_start = std::min(b, f);
  const Picoseconds enough = patient ? std::max<Picoseconds>(1, rank.cost.weight_gradient) : 1;
  if (owes && next_start - rank.free_at >= enough) {
    rank.next = Kind::weight_gradient;
    next_start = rank.free_at;
  }
}

}  // namespace eratos::schedule
