// Why skipping is exact.
//
// Let O be the order of m' micro-batches, g the period, and O+ the order of m' + g. The loop stops
// O at a cut C: on each rank the first c[r] actions, a set that is closed (whatever one of them
// waits for is in it), and runs on to C' with c'[r] = c[r] + L[r], one turn later. Both lie where
// the order repeats itself, so by the promise of Schedule::period O+ is O up to C', and from C' on
// it is O from C on with g added to each micro-batch: as well O+ has one more turn between C' and
// the rest of O.
//   (1) What is in C' but not in C, run in the order in which it ran and g micro-batches later, is
//   the
//       turn that O+ has more. Every input of it is there: an input x of a y in the turn is in C,
//       or ran before y. In the second case so has x + g. In the first x + g is in C', since what
//       is not in C' is what is not in C, g later.
//   (2) What comes after a cut sees of what came before only when each rank is free, what it still
//   sends,
//       the ends that somebody not yet run waits for, and the barriers that are half passed: the
//       live values. What a rank still sends follows from its last action, the same at each cut.
//   (3) All times are maxima and sums of live values and durations. If all live values are those of
//   T
//       turns ago plus c, every later time is that of T turns before plus c, and differences (busy,
//       transfer) are the same: q T turns more add q c.
// An input that the rank made itself never makes it wait: it is free only after that.
#include "eratos/schedule/steady.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "eratos/schedule/event_loop.h"
#include "eratos/schedule/peak.h"

namespace eratos::schedule {

namespace {

using Lane = Workspace::Lane;
using Live = Workspace::Live;
using Special = Workspace::Special;
using Step = Workspace::Step;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// std::bit_cast, which the standard library of Debian's em++ lacks.
std::uint64_t word(const Action& a) {
  static_assert(sizeof(Action) == sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &a, sizeof bits);
  return bits;
}

// The tape is where the turns run: a cell for each row and micro-batch, micro-batch after
// micro-batch, so that a turn's cells are the last turn's, `stride` further on.
class Cells {
 public:
  Cells(const Order& order, bool splits) : shape_(order.shape), rows_(rows_of(order)) {
    weights_ = 2 * rows_.slots;
    outputs_ = weights_ + (splits ? rows_.slots : 0);
    barriers_ = outputs_ + 2 * shape_.pp;
    width_ = cuts_output(shape_) ? barriers_ + 2 : outputs_;
  }
  std::int32_t width() const { return width_; }

  // Of a row of `ends` that is read.
  std::int32_t read(std::int32_t row, std::int32_t micro_batch) const {
    const std::int32_t column = row > rows_.unread() ? barriers_ + row - rows_.barrier(0) : row - 1;
    return micro_batch * width_ + column;
  }
  std::int32_t barrier(int which, std::int32_t micro_batch) const {
    return micro_batch * width_ + barriers_ + which;
  }
  std::int32_t own(const Lane& lane, const Action& a, int rank) const {
    if (lane.own_row != rows_.unread()) return a.micro_batch * width_ + lane.own_row - 1;
    switch (a.kind) {
      case Kind::weight_gradient:
        return a.micro_batch * width_ + weights_ + slot_of(shape_, rank, a.chunk);
      case Kind::output:
        return a.micro_batch * width_ + outputs_ + rank;
      case Kind::output_gradient:
        return a.micro_batch * width_ + outputs_ + shape_.pp + rank;
      default:
        return kNone;
    }
  }

 private:
  Shape shape_;
  Rows rows_;
  std::int32_t weights_ = 0;
  std::int32_t outputs_ = 0;
  std::int32_t barriers_ = 0;
  std::int32_t width_ = 0;
};

// Does a turn hold F and a whole backward of `shift` micro-batches of each chunk, and as many S and
// T? Otherwise it is no turn of the step, only something that repeats itself.
bool is_whole(const Shape& s, std::span<const Action> turn, int shift,
              std::vector<std::int32_t>& counts) {
  counts.assign(at(s.chunks * kLanesAChunk), 0);
  for (const Action& a : turn) ++counts[at(lane_of(a))];
  for (int chunk = 0; chunk < s.chunks; ++chunk) {
    const auto of = [&](Kind kind) {
      return counts[at(lane_of({0, static_cast<std::int16_t>(chunk), kind}))];
    };
    const int outputs = cuts_output(s) && chunk == 0 ? shift : 0;
    if (of(Kind::forward) != shift || of(Kind::backward) + of(Kind::input_gradient) != shift ||
        of(Kind::weight_gradient) != of(Kind::input_gradient) || of(Kind::output) != outputs ||
        of(Kind::output_gradient) != outputs) {
      return false;
    }
  }
  return true;
}

// Where each rank's order repeats itself around its middle: actions [low, high), turns of `length`.
// False if a rank has not a turn and a half there.
bool find_turns(const Order& order, int shift, Workspace& w) {
  const std::uint64_t later = word({shift, 0, Kind::forward});
  const Action* const a = order.actions.data();
  const std::size_t ranks = at(order.shape.pp);
  const int m = micro_batches_of(order.shape, order.placement);
  w.lows.resize(ranks);
  w.highs.resize(ranks);
  w.lengths.resize(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t first = order.first[rank];
    const std::int64_t end = order.first[rank + 1];
    // So that a turn around the middle starts here, if all micro-batches have as many actions.
    std::int64_t low = first + (end - first) * std::max(0, m - shift) / m / 2;
    std::int64_t length = 1;
    while (low + length < end && word(a[low + length]) != word(a[low]) + later) ++length;
    if (low + length >= end) return false;
    std::int64_t high = low + length;
    while (low > first && word(a[low - 1 + length]) == word(a[low - 1]) + later) --low;
    while (high < end && word(a[high]) == word(a[high - length]) + later) ++high;
    if (2 * (high - low) < 3 * length) return false;
    if (!is_whole(order.shape, {a + low, at(length)}, shift, w.counts)) return false;
    w.lows[rank] = low;
    w.highs[rank] = high;
    w.lengths[rank] = length;
  }
  return true;
}

// Runs O to C and on to C', recording the turn between. C is where the loop stops when each rank
// may come so far and no further, so both are closed; what makes them one turn apart is that every
// rank comes one turn further when it may. False if the order has no room for that.
bool run_one_turn(const Order& order, const Costs& costs, Workspace& w, Timing& timing) {
  const std::size_t ranks = at(order.shape.pp);
  begin(order, costs, w, timing);
  w.limits = w.lows;
  w.busy.assign(ranks, 0);
  for (;;) {
    bool may_be_cut = true;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (w.limits[rank] > w.highs[rank]) return false;
      w.busy[rank] = timing.ranks[rank].busy;
      w.cut[rank] = w.next[rank];
      may_be_cut &= w.cut[rank] >= w.lows[rank];
    }
    w.stretches.clear();
    run(order, costs, w, timing, nullptr, may_be_cut);
    bool one_turn = may_be_cut;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      one_turn &= w.next[rank] == w.cut[rank] + w.lengths[rank];
      w.limits[rank] += w.lengths[rank];
    }
    if (one_turn) break;
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    w.busy[rank] = timing.ranks[rank].busy - w.busy[rank];
  }
  return true;
}

// Which parts of a barrier come first: of the recorded ones, backwards, that with which all are
// missing.
void find_opening_parts(const Order& order, const Cells& cells, Workspace& w) {
  const std::int64_t m = rows_of(order).m;
  const auto missing = [&](std::int32_t cell) -> std::int32_t& {
    const std::int32_t micro_batch = cell / cells.width();
    const int which = cell - cells.barrier(0, micro_batch);
    return w.missing[at(which * m + micro_batch)];
  };
  for (auto part = w.specials.rbegin(); part != w.specials.rend(); ++part) {
    if (part->barrier != kNone) part->opens = ++missing(part->barrier) == order.shape.pp;
  }
  for (const Special& part : w.specials) {
    if (part.barrier != kNone) --missing(part.barrier);
  }
}

// The recorded turn as steps, in the order in which it ran.
class Compiler {
 public:
  Compiler(const Order& order, const Costs& costs, const Cells& cells, std::int32_t stride,
           Workspace& w)
      : order_(order), costs_(costs), cells_(cells), stride_(stride), w_(w) {}

  void operator()(bool specials) {
    const std::size_t ranks = at(order_.shape.pp);
    std::int64_t actions = 0;
    for (const Workspace::Stretch& stretch : w_.stretches) actions += stretch.to - stretch.from;
    w_.steps.resize(at(actions));
    w_.low = std::numeric_limits<std::int32_t>::max();
    w_.high = 0;
    w_.specials.clear();
    w_.earliest.assign(ranks, -1);
    w_.latest.assign(ranks, kNone);
    w_.sent.assign(ranks, 0);
    for (const Workspace::Stretch& stretch : w_.stretches) {
      const Lane* const lanes = w_.lanes.data() + lanes_of(order_.shape, stretch.rank);
      for (std::int64_t i = stretch.from; i < stretch.to; ++i) {
        add_step(stretch.rank, order_.actions[at(i)], lanes);
        if (specials) i += add_special(stretch.rank, i, lanes);
      }
    }
    w_.steps.resize(at(count_));
    // A rank's first step follows its last of the turn before.
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t first = at(w_.earliest[rank]);
      Step& step = w_.steps[first];
      if (step.input == step.previous) step.input = w_.latest[rank] - stride_;
      step.previous = w_.latest[rank] - stride_;
      step.sending = w_.sent[rank];
      if (!specials) continue;
      Special& special = w_.specials[first];
      if (special.second_own != kNone && special.second_input == kNone) {
        special.second_input = step.previous;
      }
    }
    if (cuts_output(order_.shape)) find_opening_parts(order_, cells_, w_);
  }

 private:
  void add_step(int rank, const Action& a, const Lane* lanes) {
    const Lane& lane = lanes[lane_of(a)];
    std::int32_t& latest = w_.latest[at(rank)];
    Picoseconds& sent = w_.sent[at(rank)];
    if (w_.earliest[at(rank)] < 0) w_.earliest[at(rank)] = count_;
    const std::int32_t own = cells_.own(lane, a, rank);
    const std::int32_t input = lane.far ? cells_.read(lane.input_row, a.micro_batch) : latest;
    w_.low = std::min(w_.low, lane.far ? std::min(own, input) : own);
    w_.high = std::max(w_.high, own);
    w_.steps[at(count_++)] = {.input = input,
                              .previous = latest,
                              .own = own,
                              .rank = rank,
                              .receive = lane.receive,
                              .duration = lane.duration,
                              .sending = sent};
    latest = own;
    sent = lane.send;
  }

  // How many actions more than one the step is.
  int add_special(int rank, std::int64_t i, const Lane* lanes) {
    const Action& a = order_.actions[at(i)];
    const Lane& lane = lanes[lane_of(a)];
    Step& step = w_.steps[at(count_ - 1)];
    Special& special = w_.specials.emplace_back();
    special.beside = lane.beside;
    if (lane.barrier >= 0) special.barrier = cells_.barrier(lane.barrier, a.micro_batch);
    if (order_.shape.output == OutputLayer::interlaced) {
      const bool first = i == w_.cut[at(rank)];
      const Action& before = order_.actions[at(i - 1 + (first ? w_.lengths[at(rank)] : 0))];
      if (before.kind == Kind::output_gradient) {
        special.stands = cells_.barrier(1, before.micro_batch) - (first ? stride_ : 0);
        special.stand_for = costs_.output_links.second_barrier;
      }
    }
    if (!a.with_next) return 0;
    const Action& b = order_.actions[at(i + 1)];
    const Lane& second = lanes[lane_of(b)];
    special.second_own = cells_.own(second, b, rank);
    special.second_input =
        second.far ? cells_.read(second.input_row, b.micro_batch) : step.previous;
    special.second_receive = second.receive;
    special.second_beside = second.beside;
    step.duration = together(lane.duration, lane.hideable, second.duration, second.hideable);
    w_.sent[at(rank)] = std::max(lane.send, second.send);
    return 1;
  }

  const Order& order_;
  const Costs& costs_;
  const Cells& cells_;
  std::int32_t stride_;
  Workspace& w_;
  std::int32_t count_ = 0;
};

// What C' leaves for later: ends that somebody waits for, barriers half passed, when each rank is
// free.
void find_live(const Order& order, const Cells& cells, Workspace& w) {
  const Shape& s = order.shape;
  const Rows rows = rows_of(order);
  w.live.clear();
  const auto keep = [&](std::int32_t row, std::int32_t micro_batch) {
    const std::int64_t key = rows.key(row, micro_batch);
    if (w.ends[at(key)] >= 0) w.live.push_back({cells.read(row, micro_batch), key});
  };
  for (int rank = 0; rank < s.pp; ++rank) {
    const Lane* const lanes = w.lanes.data() + lanes_of(s, rank);
    for (std::int64_t i = w.next[at(rank)]; i < order.first[at(rank) + 1]; ++i) {
      const Action a = order.actions[at(i)];
      const Lane& lane = lanes[lane_of(a)];
      if (lane.far) keep(lane.input_row, a.micro_batch);
    }
    if (s.output != OutputLayer::interlaced) continue;
    const Action& last = order.actions[at(w.next[at(rank)] - 1)];
    if (last.kind == Kind::output_gradient) keep(rows.barrier(1), last.micro_batch);
  }
  for (int which = 0; cuts_output(s) && which < 2; ++which) {
    for (std::int32_t mb = 0; mb < rows.m; ++mb) {
      const std::int32_t missing = w.missing[at(which * rows.m + mb)];
      if (missing == 0 || missing == s.pp) continue;
      w.live.push_back({cells.barrier(which, mb), rows.key(rows.barrier(which), mb)});
    }
  }
  for (int rank = 0; rank < s.pp; ++rank) w.live.push_back({w.latest[at(rank)], -1 - rank});
}

Picoseconds& value_of(const Live& live, const Rows& rows, Workspace& w) {
  if (live.key < 0) return w.free_at[at(-1 - live.key)];
  Picoseconds& end = w.ends[at(live.key)];
  return end >= 0 ? end : w.barrier_ends[at(live.key - rows.key(rows.barrier(0), 0))];
}

// `tape` is where the turn's cell 0 is. `specials`: none if `plain`.
template <bool blocking, bool plain>
void run_steps(std::span<const Step> steps, const Special* special, Picoseconds* tape,
               Picoseconds* transfer) {
  for (const Step& step : steps) {
    Picoseconds free_at = tape[step.previous];
    Picoseconds stood = 0;
    if constexpr (!plain) {
      if (special->stands != kNone) {
        const Picoseconds open = tape[special->stands];
        const Picoseconds over = open + special->stand_for;
        stood = std::max<Picoseconds>(0, over - std::max(free_at, open));
        free_at = std::max(free_at, over);
      }
    }
    const Picoseconds made = tape[step.input];
    Picoseconds both = std::max(free_at, made);
    const bool stands = blocking && (plain || !special->beside);
    Picoseconds start = (stands ? both : made) + step.receive;
    if constexpr (!plain) {
      if (special->second_own != kNone) {
        const Picoseconds also = tape[special->second_input];
        const Picoseconds both_second = std::max(free_at, also);
        const bool second_stands = blocking && !special->second_beside;
        start = std::max(start, (second_stands ? both_second : also) + special->second_receive);
        both = std::max(both, both_second);
      }
    }
    if constexpr (blocking) {
      const Picoseconds sent = free_at + step.sending;
      start = std::max(sent, start);
      transfer[step.rank] += stood + start - free_at - std::max<Picoseconds>(0, both - sent);
    } else {
      start = std::max(free_at, start);
      transfer[step.rank] += stood + start - both;
    }
    const Picoseconds end = start + step.duration;
    tape[step.own] = end;
    if constexpr (!plain) {
      if (special->second_own != kNone) tape[special->second_own] = end;
      if (special->barrier != kNone) {
        tape[special->barrier] = special->opens ? end : std::max(tape[special->barrier], end);
      }
      ++special;
    }
  }
}

// The turns that O lacks, on the tape. Before the first, the live values are those of C'.
class Turns {
 public:
  Turns(const Order& order, const Costs& costs, std::int32_t stride, Workspace& w)
      : rows_(rows_of(order)), blocking_(costs.sends == Sends::blocking), stride_(stride), w_(w) {
    std::int32_t low = std::min(w.low, 0);  // so that cell 0 of every turn is on the tape
    std::int32_t high = w.high;
    for (const Special& special : w.specials) {
      for (const std::int32_t cell :
           {special.second_input, special.second_own, special.barrier, special.stands}) {
        if (cell == kNone) continue;
        low = std::min(low, cell);
        high = std::max(high, cell);
      }
    }
    // A turn's live values are compared with those of the turn before; a rank's first step follows
    // one of them.
    for (const Live& live : w.live) low = std::min(low, live.cell - stride);
    low_ = low;
    span_ = std::int64_t{high} - low + 1;
    constexpr std::int32_t kNear = 4096;  // cells, so that the tape of a small turn stays in cache
    w.tape.resize(at(span_ + std::int64_t{stride} * std::max(2, kNear / stride)));
    load();
  }

  void operator()(std::int64_t turns) {
    w_.transfer.assign(w_.free_at.size(), 0);
    keep(0);
    std::int64_t patience = 1;
    bool skipped = false;
    for (std::int64_t done = 0; done < turns;) {
      next();
      ++done;
      if (skipped) continue;
      // Cycles of any number of turns are met by Brent's method: the values to compare with are
      // renewed after 1, 2, 4, ... turns. One turn, the common cycle, is met at once.
      std::int64_t cycle = 0;
      Picoseconds c = 0;
      if (moved_on_since_last(c)) {
        cycle = 1;
      } else if (moved_on_since_kept(c)) {
        cycle = done - kept_at_;
      } else if (done - kept_at_ == patience) {
        keep(done);
        patience *= 2;
      }
      if (cycle == 0 || turns - done < 2 * cycle) continue;
      w_.sent.assign(w_.transfer.begin(), w_.transfer.end());
      for (std::int64_t i = 0; i < cycle; ++i) next();
      done += cycle;
      const std::int64_t cycles = (turns - done) / cycle;
      for (const Live& live : w_.live) here(live.cell) += cycles * c;
      for (std::size_t rank = 0; rank < w_.transfer.size(); ++rank) {
        w_.transfer[rank] += cycles * (w_.transfer[rank] - w_.sent[rank]);
      }
      done += cycles * cycle;
      skipped = true;
    }
    store();
  }

 private:
  Picoseconds& here(std::int32_t cell) { return w_.tape[at(place_ + cell - low_)]; }

  void next() {
    if (place_ + stride_ + span_ > static_cast<std::int64_t>(w_.tape.size())) {
      std::copy(w_.tape.begin() + place_, w_.tape.begin() + place_ + span_, w_.tape.begin());
      place_ = 0;
    }
    place_ += stride_;
    Picoseconds* const tape = w_.tape.data() + (place_ - low_);
    Picoseconds* const transfer = w_.transfer.data();
    if (blocking_) {
      w_.specials.empty() ? run_steps<true, true>(w_.steps, nullptr, tape, transfer)
                          : run_steps<true, false>(w_.steps, w_.specials.data(), tape, transfer);
    } else {
      w_.specials.empty() ? run_steps<false, true>(w_.steps, nullptr, tape, transfer)
                          : run_steps<false, false>(w_.steps, w_.specials.data(), tape, transfer);
    }
  }

  bool moved_on_since_last(Picoseconds& c) {
    c = here(w_.live[0].cell) - here(w_.live[0].cell - stride_);
    for (const Live& live : w_.live) {
      if (here(live.cell) - here(live.cell - stride_) != c) return false;
    }
    return true;
  }
  bool moved_on_since_kept(Picoseconds& c) {
    c = here(w_.live[0].cell) - w_.kept[0];
    for (std::size_t i = 0; i < w_.live.size(); ++i) {
      if (here(w_.live[i].cell) - w_.kept[i] != c) return false;
    }
    return true;
  }
  void keep(std::int64_t done) {
    kept_at_ = done;
    for (std::size_t i = 0; i < w_.live.size(); ++i) w_.kept[i] = here(w_.live[i].cell);
  }

  // A cell that several wait for, or whose end is also when its rank is free, is one live value.
  void load() {
    for (const Live& live : w_.live) here(live.cell) = -1;
    std::size_t count = 0;
    for (const Live& live : w_.live) {
      Picoseconds& cell = here(live.cell);
      if (cell >= 0) continue;
      cell = value_of(live, rows_, w_);
      w_.live[count++] = live;
    }
    w_.live.resize(count);
    w_.kept.resize(count);
  }
  void store() {
    for (const Live& live : w_.live) value_of(live, rows_, w_) = here(live.cell);
    for (std::size_t rank = 0; rank < w_.free_at.size(); ++rank) {
      w_.free_at[rank] = here(w_.latest[rank]);
    }
  }

  Rows rows_;
  bool blocking_;
  std::int32_t stride_;
  Workspace& w_;
  std::int32_t low_ = 0;
  std::int64_t span_ = 0;   // cells of a turn
  std::int64_t place_ = 0;  // of the turn's lowest cell on the tape
  std::int64_t kept_at_ = 0;
};

// Peaks of the whole order from those of O. A turn gives back what it takes, so the turns that O
// lacks hold what the recorded one holds, and only what first peaks after them does so later.
void find_peaks_of_whole(const Order& order, const Costs& costs, std::int64_t turns, Workspace& w,
                         Peaks& peaks) {
  find_peaks(order, costs.chunks, costs.outputs, peaks);
  for (std::size_t rank = 0; rank < peaks.ranks.size(); ++rank) {
    RankPeak& peak = peaks.ranks[rank];
    const std::int64_t until = w.cut[rank] + w.lengths[rank] - order.first[rank];
    if (peak.peak_at >= until) peak.peak_at += turns * w.lengths[rank];
  }
}

// False: O shows no turn, or does not complete.
bool simulate_with_turns(const Schedule& schedule, const Order& order, int shift,
                         std::int64_t turns, const Costs& costs, Workspace& w, Timing& timing) {
  const std::size_t ranks = at(order.shape.pp);
  w.cut.resize(ranks);
  if (!find_turns(order, shift, w)) return false;
  if (!run_one_turn(order, costs, w, timing)) return false;
  const Cells cells(order, schedule.splits_backward);
  const std::int32_t stride = shift * cells.width();
  Compiler(order, costs, cells, stride, w)(schedule.side_by_side || cuts_output(order.shape));
  find_live(order, cells, w);
  Turns(order, costs, stride, w)(turns);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    timing.ranks[rank].busy += turns * w.busy[rank];
    timing.ranks[rank].transfer += w.transfer[rank];
    w.limits[rank] = order.first[rank + 1];
  }
  run(order, costs, w, timing, nullptr, false);
  if (w.next != w.limits) return false;
  conclude(costs, w, timing);
  find_peaks_of_whole(order, costs, turns, w, timing.peaks);
  return true;
}

}  // namespace

int fewest_for_turns(const Schedule& schedule, const Shape& shape) {
  const int period = schedule.period(shape);
  const int turns =
      schedule.placement == Placement::looped ? shape.pp / period + 2 : 2 * shape.pp / period + 6;
  return shape.micro_batches % period + turns * period;
}

Result<void> simulate_fast(const Schedule& schedule, const Shape& shape, const Costs& costs,
                           Order& order, Workspace& w, Timing& timing) {
  if (auto why = refusal(schedule, shape, costs)) return fault(std::move(*why));
  if (schedule.period != nullptr) {
    const int period = schedule.period(shape);
    const int shift = period / copies_of(schedule.placement);
    // Turns fewer than these are not worth the search.
    constexpr int kFew = 4;
    Shape fewer = shape;
    fewer.micro_batches = fewest_for_turns(schedule, shape);
    while (fewer.micro_batches + kFew * period <= shape.micro_batches) {
      const int turns = (shape.micro_batches - fewer.micro_batches) / period;
      if (make_order(schedule, fewer, costs, order) &&
          simulate_with_turns(schedule, order, shift, turns, costs, w, timing)) {
        return {};
      }
      fewer.micro_batches += std::max(1, fewer.micro_batches / period / 2) * period;
    }
  }
  if (auto made = make_order(schedule, shape, costs, order); !made) return made;
  return simulate(order, costs, w, timing);
}

}  // namespace eratos::schedule
