#include "eratos/schedule/simulate.h"

#include <algorithm>
#include <string>

#include "eratos/base/check.h"

namespace eratos::schedule {

// All that the loop asks of one (rank, kind, chunk).
struct Workspace::Lane {
  Picoseconds duration = 0;
  Picoseconds receive = 0;     // after the input's end, until it is here
  Picoseconds send = 0;        // how long a blocking send keeps the rank
  Picoseconds hideable = 0;    // of duration, beside a pass of the other direction
  std::int64_t own = 0;        // ends[own + micro_batch]
  std::int64_t input = 0;      // ends[input + micro_batch] of the action that makes the input
  std::int32_t consumer = -1;  // rank whose action takes the output; -1: none, or this one
  std::int8_t barrier = -1;    // the barrier this action is one of p parts of
};

Workspace::Workspace() = default;
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

namespace {

using Lane = Workspace::Lane;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

constexpr std::int32_t kEveryRank = -2;

std::int64_t lane_of(const Shape& s, int slot, Kind kind) {
  return (std::int64_t{slot / s.chunks} * kKinds + static_cast<int>(kind)) * s.chunks +
         slot % s.chunks;
}

// `ends` has a row of micro-batches for: nothing to wait for (always 0), F of each slot, B or BW of
// each slot, whatever nobody waits for, and the two barriers.
struct Rows {
  std::int64_t m;
  std::int64_t slots;
  std::int64_t forward(int slot) const { return (1 + slot) * m; }
  std::int64_t gradient(int slot) const { return (1 + slots + slot) * m; }
  std::int64_t unread() const { return (1 + 2 * slots) * m; }
  std::int64_t barrier(int which) const { return (2 + 2 * slots + which) * m; }
  std::int64_t size() const { return (4 + 2 * slots) * m; }
};

Rows rows_of(const Order& order) {
  return {micro_batches_of(order.shape, order.placement), slot_count(order.shape)};
}

void fill_lanes(const Order& order, const Costs& costs, std::vector<Lane>& lanes) {
  const Shape& s = order.shape;
  const Rows rows = rows_of(order);
  lanes.assign(at(slot_count(s)) * kKinds, Lane{});
  for (int slot = 0; slot < slot_count(s); ++slot) {
    const int rank = slot / s.chunks;
    const ChunkCost& cost = costs.chunks[at(slot)];
    Lane& f = lanes[at(lane_of(s, slot, Kind::forward))];
    Lane& bw = lanes[at(lane_of(s, slot, Kind::backward))];
    Lane& b = lanes[at(lane_of(s, slot, Kind::input_gradient))];
    Lane& w = lanes[at(lane_of(s, slot, Kind::weight_gradient))];
    f.duration = cost.forward;
    f.hideable = cost.forward_hideable;
    f.own = rows.forward(slot);
    bw.duration = cost.backward;
    bw.hideable = cost.backward_hideable;
    bw.own = rows.gradient(slot);
    if (const int after = order.after[at(slot)]; after < 0) {
      bw.input = rows.forward(slot);
    } else {
      bw.input = rows.gradient(after);
      f.consumer = after / s.chunks;
      if (f.consumer != rank) {
        f.send = send_forward(costs, slot);
        bw.receive = send_backward(costs, after);
      }
    }
    if (const int before = order.before[at(slot)]; before >= 0) {
      f.input = rows.forward(before);
      bw.consumer = before / s.chunks;
      if (bw.consumer != rank) {
        bw.send = send_backward(costs, slot);
        f.receive = send_forward(costs, before);
      }
    }
    b = bw;
    b.duration = cost.input_gradient;
    w.duration = cost.weight_gradient;
    w.own = rows.unread();
    w.input = rows.gradient(slot);
  }
  if (s.output == OutputLayer::last_stage) return;

  const int last = slot_at(s, order.placement, stage_count(s, order.placement) - 1);
  const bool two = s.output != OutputLayer::one_barrier;
  lanes[at(lane_of(s, last, Kind::forward))].consumer = kEveryRank;
  for (const Kind kind : {Kind::backward, Kind::input_gradient}) {
    Lane& lane = lanes[at(lane_of(s, last, kind))];
    lane.input = rows.barrier(two ? 1 : 0);
    lane.receive = two ? costs.output_links.second_barrier : costs.output_links.barrier;
  }
  for (int rank = 0; rank < s.pp; ++rank) {
    const int slot = slot_of(s, rank, 0);
    Lane& output = lanes[at(lane_of(s, slot, Kind::output))];
    output.duration = costs.outputs[at(rank)].output;
    output.receive = rank == last / s.chunks ? 0 : costs.output_links.broadcast;
    output.own = rows.unread();
    output.input = rows.forward(last);
    output.barrier = 0;
    Lane& gradient = lanes[at(lane_of(s, slot, Kind::output_gradient))];
    gradient.duration = costs.outputs[at(rank)].output_gradient;
    gradient.receive = costs.output_links.barrier;
    gradient.own = rows.unread();
    gradient.input = rows.barrier(0);
    gradient.barrier = static_cast<std::int8_t>(two ? 1 : -1);
  }
}

// The run of one simulation. `general`: pairs side by side and cut output layers too.
template <bool blocking, bool traced, bool general>
class Run {
 public:
  Run(const Order& order, const Costs& costs, Workspace& w, Timing& timing, Interval* timeline)
      : order_(order),
        rows_(rows_of(order)),
        interlaced_(order.shape.output == OutputLayer::interlaced),
        second_barrier_(costs.output_links.second_barrier),
        w_(w),
        timing_(timing),
        timeline_(timeline) {}

  // How many actions ran.
  std::int64_t operator()() {
    std::int64_t done = 0;
    while (!w_.ready.empty()) {
      const int rank = w_.ready.back();
      w_.ready.pop_back();
      done += advance(rank);
    }
    return done;
  }

 private:
  std::int64_t advance(int rank) {
    const std::int64_t chunks = order_.shape.chunks;
    const Lane* const lanes = w_.lanes.data() + chunks * kKinds * rank;
    const Action* const actions = order_.actions.data();
    const std::int64_t stop = order_.first[at(rank) + 1];
    const std::int64_t start_index = w_.next[at(rank)];
    std::int64_t i = start_index;
    RankTime& time = timing_.ranks[at(rank)];
    Picoseconds free_at = w_.free_at[at(rank)];
    Picoseconds sending = w_.sending[at(rank)];
    Picoseconds busy = 0;
    Picoseconds transfer = 0;
    Picoseconds* const ends = w_.ends.data();
    std::int64_t* const waits_for = w_.waits_for.data();
    const bool first_call = start_index == order_.first[at(rank)];
    Picoseconds first_start = 0;
    waits_for[rank] = -1;
    for (; i < stop; ++i) {
      const Action a = actions[i];
      const Lane& lane = lanes[static_cast<int>(a.kind) * chunks + a.chunk];
      const Picoseconds made = ends[lane.input + a.micro_batch];
      if (made < 0) {
        waits_for[rank] = lane.input + a.micro_batch;
        break;
      }
      if constexpr (general) {
        // Interlaced: after T a rank stands until the last collective is over.
        if (interlaced_ && i > order_.first[at(rank)] &&
            actions[i - 1].kind == Kind::output_gradient) {
          const std::int64_t key = rows_.barrier(1) + actions[i - 1].micro_batch;
          if (ends[key] < 0) {
            waits_for[rank] = key;
            break;
          }
          const Picoseconds over = ends[key] + second_barrier_;
          transfer += std::max<Picoseconds>(0, over - std::max(free_at, ends[key]));
          free_at = std::max(free_at, over);
        }
      }
      Picoseconds both = std::max(free_at, made);
      Picoseconds duration = lane.duration;
      Picoseconds start = blocking ? both + lane.receive : made + lane.receive;
      Picoseconds send = lane.send;
      const Lane* second = nullptr;
      if constexpr (general) {
        if (a.with_next) {
          const Action b = actions[i + 1];
          second = &lanes[static_cast<int>(b.kind) * chunks + b.chunk];
          const Picoseconds also = ends[second->input + b.micro_batch];
          if (also < 0) {
            waits_for[rank] = second->input + b.micro_batch;
            break;
          }
          const Picoseconds both_second = std::max(free_at, also);
          start = std::max(start, (blocking ? both_second : also) + second->receive);
          both = std::max(both, both_second);
          duration = together(lane.duration, lane.hideable, second->duration, second->hideable);
          send = std::max(send, second->send);
        }
      }
      if constexpr (blocking) {
        start = std::max(free_at + sending, start);
        // Of the gap, what is neither a send nor a receive is waiting for another rank.
        transfer += start - free_at - std::max<Picoseconds>(0, both - (free_at + sending));
        sending = send;
      } else {
        start = std::max(free_at, start);
        transfer += start - both;
      }
      if (first_call && i == start_index) first_start = start;
      free_at = start + duration;
      busy += duration;
      finish(rank, lane, a, i, start, free_at);
      if constexpr (general) {
        if (second != nullptr) {
          ++i;
          finish(rank, *second, actions[i], i, start, free_at);
        }
      }
    }
    if (first_call && i > start_index) time.first_start = first_start;
    w_.next[at(rank)] = i;
    w_.free_at[at(rank)] = free_at;
    w_.sending[at(rank)] = sending;
    time.busy += busy;
    time.transfer += transfer;
    time.last_end = free_at;
    return i - start_index;
  }

  void finish(int rank, const Lane& lane, const Action& a, std::int64_t index, Picoseconds start,
              Picoseconds end) {
    const std::int64_t key = lane.own + a.micro_batch;
    w_.ends[at(key)] = end;
    if constexpr (traced) timeline_[index] = {start, end};
    if (lane.consumer >= 0) {
      if (w_.waits_for[at(lane.consumer)] == key) wake(lane.consumer);
    }
    if constexpr (general) {
      if (lane.consumer == kEveryRank) wake_all(key, rank);
      if (lane.barrier >= 0) pass_barrier(rank, lane.barrier, a.micro_batch, end);
    }
  }

  // The barrier opens when the last of its p parts ends, whichever is met last.
  void pass_barrier(int rank, int which, int micro_batch, Picoseconds end) {
    const std::int64_t row = which * rows_.m + micro_batch;
    std::int32_t& missing = w_.missing[at(row)];
    Picoseconds& latest = w_.barrier_ends[at(row)];
    latest = std::max(latest, end);
    if (--missing > 0) return;
    const std::int64_t key = rows_.barrier(which) + micro_batch;
    w_.ends[at(key)] = latest;
    wake_all(key, rank);
  }

  void wake(int rank) {
    w_.waits_for[at(rank)] = -1;
    w_.ready.push_back(rank);
  }
  void wake_all(std::int64_t key, int but) {
    for (int rank = 0; rank < order_.shape.pp; ++rank) {
      if (rank != but && w_.waits_for[at(rank)] == key) wake(rank);
    }
  }

  const Order& order_;
  Rows rows_;
  bool interlaced_;
  Picoseconds second_barrier_;
  Workspace& w_;
  Timing& timing_;
  Interval* timeline_;
};

template <bool general>
std::int64_t run(const Order& order, const Costs& costs, Workspace& w, Timing& timing,
                 std::vector<Interval>* timeline) {
  Interval* const out = timeline == nullptr ? nullptr : timeline->data();
  if (costs.sends == Sends::blocking) {
    return out == nullptr ? Run<true, false, general>(order, costs, w, timing, out)()
                          : Run<true, true, general>(order, costs, w, timing, out)();
  }
  return out == nullptr ? Run<false, false, general>(order, costs, w, timing, out)()
                        : Run<false, true, general>(order, costs, w, timing, out)();
}

std::string describe(const Action& a) {
  return std::string(name_of(a.kind)) + " of micro-batch " + std::to_string(a.micro_batch) +
         " on chunk " + std::to_string(a.chunk);
}

// What the rank waits for before `actions[i]`: that action's input, that of the one beside it, or
// the last collective of the output layer before it.
std::string awaited(const Order& order, const Workspace& w, int rank, std::int64_t i) {
  const std::int64_t key = w.waits_for[at(rank)];
  const auto input_of = [&](const Action& a) {
    const int slot = slot_of(order.shape, rank, a.chunk);
    return w.lanes[at(lane_of(order.shape, slot, a.kind))].input + a.micro_batch;
  };
  const Action& first = order.actions[at(i)];
  if (key == input_of(first)) return "the input of " + describe(first);
  if (first.with_next) return "the input of " + describe(order.actions[at(i + 1)]);
  return "all ranks to end " + describe(order.actions[at(i - 1)]);
}

tl::unexpected<Diagnostics> stuck(const Order& order, const Workspace& w) {
  Diagnostics all;
  for (int rank = 0; rank < order.shape.pp; ++rank) {
    if (w.next[at(rank)] == order.first[at(rank) + 1]) continue;
    all.push_back({.message = "the order cannot complete: rank " + std::to_string(rank) +
                              " waits for " + awaited(order, w, rank, w.next[at(rank)]) +
                              ", which never comes",
                   .cure = "order the action that makes it earlier"});
  }
  return faults(std::move(all));
}

}  // namespace

Result<void> simulate(const Order& order, const Costs& costs, Workspace& w, Timing& timing,
                      std::vector<Interval>* timeline) {
  const Shape& s = order.shape;
  const std::size_t ranks = at(s.pp);
  ERATOS_CHECK(costs.chunks.size() == at(slot_count(s)));
  ERATOS_CHECK(costs.links.empty() || costs.links.size() == costs.chunks.size());

  ERATOS_CHECK(s.output == OutputLayer::last_stage || costs.outputs.size() == ranks);

  const Rows rows = rows_of(order);
  fill_lanes(order, costs, w.lanes);
  w.ends.assign(at(rows.size()), -1);
  std::fill_n(w.ends.begin(), rows.m, 0);
  if (s.output != OutputLayer::last_stage) {
    w.missing.assign(2 * at(rows.m), s.pp);
    w.barrier_ends.assign(2 * at(rows.m), 0);
  }
  w.next.assign(order.first.begin(), order.first.end() - 1);
  w.waits_for.assign(ranks, -1);
  w.free_at.assign(ranks, 0);
  w.sending.assign(ranks, 0);
  w.ready.clear();
  for (int rank = s.pp - 1; rank >= 0; --rank) w.ready.push_back(rank);
  timing.ranks.assign(ranks, {});
  if (timeline != nullptr) timeline->resize(order.actions.size());

  const bool general = s.output != OutputLayer::last_stage ||
                       order.placement == Placement::bidirectional ||
                       std::any_of(order.actions.begin(), order.actions.end(),
                                   [](const Action& a) { return a.with_next; });
  const std::int64_t done = general ? run<true>(order, costs, w, timing, timeline)
                                    : run<false>(order, costs, w, timing, timeline);
  if (done != static_cast<std::int64_t>(order.actions.size())) return stuck(order, w);

  timing.makespan = 0;
  for (const RankTime& r : timing.ranks) timing.makespan = std::max(timing.makespan, r.last_end);
  timing.pitch = 0;
  timing.critical_rank = 0;
  for (int rank = 0; rank < s.pp; ++rank) {
    RankTime& r = timing.ranks[at(rank)];
    if (costs.sends == Sends::blocking) r.transfer += w.sending[at(rank)];
    timing.pitch = std::max(timing.pitch, r.last_end - r.first_start);
    r.idle = timing.makespan - r.busy - r.transfer;
    const RankTime& best = timing.ranks[at(timing.critical_rank)];
    const Picoseconds work = r.busy + r.transfer;
    const Picoseconds most = best.busy + best.transfer;
    if (work > most || (work == most && r.last_end > best.last_end)) timing.critical_rank = rank;
  }
  find_peaks(order, costs.chunks, costs.outputs, timing.peaks);
  return {};
}

}  // namespace eratos::schedule
