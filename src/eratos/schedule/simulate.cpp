#include "eratos/schedule/simulate.h"

#include <algorithm>
#include <string>

#include "eratos/base/check.h"
#include "eratos/schedule/event_loop.h"

namespace eratos::schedule {

Workspace::Workspace() = default;
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

namespace {

using Lane = Workspace::Lane;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::size_t lane_at(const Shape& s, int slot, Kind kind) {
  const Action a{0, static_cast<std::int16_t>(slot % s.chunks), kind};
  return at(lanes_of(s, slot / s.chunks) + lane_of(a));
}

void fill_output_lanes(const Order& order, const Costs& costs, std::vector<Lane>& lanes) {
  const Shape& s = order.shape;
  const Rows rows = rows_of(order);
  const int last = slot_at(s, order.placement, stage_count(s, order.placement) - 1);
  const bool two = s.output != OutputLayer::one_barrier;
  const bool beside = s.output != OutputLayer::interlaced;
  lanes[lane_at(s, last, Kind::forward)].to_all = true;
  for (const Kind kind : {Kind::backward, Kind::input_gradient}) {
    Lane& lane = lanes[lane_at(s, last, kind)];
    lane.input_row = rows.barrier(two ? 1 : 0);
    lane.receive = two ? costs.output_links.second_barrier : costs.output_links.barrier;
    lane.beside = true;  // interlaced ranks have stood for it already
    lane.far = true;
  }
  for (int rank = 0; rank < s.pp; ++rank) {
    const int slot = slot_of(s, rank, 0);
    Lane& output = lanes[lane_at(s, slot, Kind::output)];
    output.duration = costs.outputs[at(rank)].output;
    output.far = rank != last / s.chunks;
    output.receive = output.far ? costs.output_links.broadcast : 0;
    output.beside = beside;
    output.own_row = rows.unread();
    output.input_row = rows.forward(last);
    output.barrier = 0;
    Lane& gradient = lanes[lane_at(s, slot, Kind::output_gradient)];
    gradient.duration = costs.outputs[at(rank)].output_gradient;
    gradient.far = true;
    gradient.receive = costs.output_links.barrier;
    gradient.beside = beside;
    gradient.own_row = rows.unread();
    gradient.input_row = rows.barrier(0);
    gradient.barrier = static_cast<std::int8_t>(two ? 1 : -1);
  }
}

void fill_lanes(const Order& order, const Costs& costs, std::vector<Lane>& lanes) {
  const Shape& s = order.shape;
  const Rows rows = rows_of(order);
  Lane none;
  none.consumer = s.pp;
  none.own_row = rows.unread();
  lanes.assign(at(lanes_of(s, s.pp)), none);
  for (int slot = 0; slot < slot_count(s); ++slot) {
    const int rank = slot / s.chunks;
    const ChunkCost& cost = costs.chunks[at(slot)];
    Lane& f = lanes[lane_at(s, slot, Kind::forward)];
    Lane& bw = lanes[lane_at(s, slot, Kind::backward)];
    Lane& b = lanes[lane_at(s, slot, Kind::input_gradient)];
    Lane& w = lanes[lane_at(s, slot, Kind::weight_gradient)];
    f.duration = cost.forward;
    f.hideable = cost.forward_hideable;
    f.own_row = rows.forward(slot);
    bw.duration = cost.backward;
    bw.hideable = cost.backward_hideable;
    bw.own_row = rows.gradient(slot);
    if (const int after = order.after[at(slot)]; after < 0) {
      bw.input_row = rows.forward(slot);
    } else {
      bw.input_row = rows.gradient(after);
      if (after / s.chunks != rank) {
        f.consumer = after / s.chunks;
        f.send = send_forward(costs, slot);
        bw.receive = send_backward(costs, after);
        bw.far = true;
      }
    }
    if (const int before = order.before[at(slot)]; before >= 0) {
      f.input_row = rows.forward(before);
      if (before / s.chunks != rank) {
        bw.consumer = before / s.chunks;
        bw.send = send_backward(costs, slot);
        f.receive = send_forward(costs, before);
        f.far = true;
      }
    }
    b = bw;
    b.duration = cost.input_gradient;
    w.duration = cost.weight_gradient;
    w.input_row = rows.gradient(slot);
  }
  if (cuts_output(s)) fill_output_lanes(order, costs, lanes);
  for (Lane& lane : lanes) {
    lane.own = rows.key(lane.own_row, 0);
    lane.input = rows.key(lane.input_row, 0);
  }
}

template <bool blocking, bool traced, bool cut>
class Loop {
 public:
  Loop(const Order& order, const Costs& costs, Workspace& w, Timing& timing, Interval* timeline)
      : order_(order),
        rows_(rows_of(order)),
        interlaced_(order.shape.output == OutputLayer::interlaced),
        second_barrier_(costs.output_links.second_barrier),
        w_(w),
        timing_(timing),
        timeline_(timeline) {}

  std::int64_t operator()(bool record) {
    std::int64_t done = 0;
    while (!w_.ready.empty()) {
      const int rank = w_.ready.back();
      w_.ready.pop_back();
      const std::int64_t from = w_.next[at(rank)];
      advance(rank);
      const std::int64_t to = w_.next[at(rank)];
      if (record && to > from) w_.stretches.push_back({rank, from, to});
      done += to - from;
    }
    return done;
  }

 private:
  void advance(int rank) {
    const Lane* const lanes = w_.lanes.data() + lanes_of(order_.shape, rank);
    const Action* const actions = order_.actions.data();
    Picoseconds* const ends = w_.ends.data();
    std::int64_t* const waits_for = w_.waits_for.data();
    const std::int64_t begin = order_.first[at(rank)];
    const std::int64_t stop = w_.limits[at(rank)];
    std::int64_t i = w_.next[at(rank)];
    Picoseconds free_at = w_.free_at[at(rank)];
    Picoseconds sending = w_.sending[at(rank)];
    Picoseconds busy = 0;
    Picoseconds transfer = 0;
    for (; i < stop; ++i) {
      if constexpr (!cut && !traced) {
        // The same as below, for the many that are nothing special.
        for (; i != begin && i < stop && !actions[i].with_next; ++i) {
          const Action a = actions[i];
          const Lane& lane = lanes[lane_of(a)];
          const Picoseconds made = ends[lane.input + a.micro_batch];
          if (made < 0) break;
          const Picoseconds both = std::max(free_at, made);
          Picoseconds start = (blocking ? both : made) + lane.receive;
          if constexpr (blocking) {
            const Picoseconds sent = free_at + sending;
            start = std::max(sent, start);
            transfer += start - free_at - std::max<Picoseconds>(0, both - sent);
            sending = lane.send;
          } else {
            start = std::max(free_at, start);
            transfer += start - both;
          }
          free_at = start + lane.duration;
          busy += lane.duration;
          const std::int64_t key = lane.own + a.micro_batch;
          ends[key] = free_at;
          if (waits_for[lane.consumer] == key) wake(lane.consumer);
        }
        if (i == stop) break;
      }
      const Action a = actions[i];
      const Lane& lane = lanes[lane_of(a)];
      const std::int64_t input = lane.input + a.micro_batch;
      const Picoseconds made = ends[input];
      if (made < 0) {
        waits_for[rank] = input;
        break;
      }
      const Lane* second = nullptr;
      Picoseconds also = 0;
      if (a.with_next) [[unlikely]] {
        if (i + 1 == stop) break;
        const Action b = actions[i + 1];
        second = &lanes[lane_of(b)];
        also = ends[second->input + b.micro_batch];
        if (also < 0) {
          waits_for[rank] = second->input + b.micro_batch;
          break;
        }
      }
      if constexpr (cut) {
        // Interlaced: after T a rank stands until the last collective is over.
        if (interlaced_ && i > begin && actions[i - 1].kind == Kind::output_gradient) {
          const std::int64_t key = rows_.key(rows_.barrier(1), actions[i - 1].micro_batch);
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
      const bool stands = blocking && !(cut && lane.beside);
      Picoseconds start = (stands ? both : made) + lane.receive;
      Picoseconds duration = lane.duration;
      Picoseconds send = lane.send;
      if (second != nullptr) [[unlikely]] {
        const Picoseconds both_second = std::max(free_at, also);
        const bool second_stands = blocking && !(cut && second->beside);
        start = std::max(start, (second_stands ? both_second : also) + second->receive);
        both = std::max(both, both_second);
        duration = together(lane.duration, lane.hideable, second->duration, second->hideable);
        send = std::max(send, second->send);
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
      if (i == begin) timing_.ranks[at(rank)].first_start = start;
      free_at = start + duration;
      busy += duration;
      finish(rank, lane, a, i, start, free_at);
      if (second != nullptr) [[unlikely]] {
        ++i;
        finish(rank, *second, actions[i], i, start, free_at);
      }
    }
    w_.next[at(rank)] = i;
    w_.free_at[at(rank)] = free_at;
    w_.sending[at(rank)] = sending;
    RankTime& time = timing_.ranks[at(rank)];
    time.busy += busy;
    time.transfer += transfer;
  }

  void finish(int rank, const Lane& lane, const Action& a, std::int64_t index, Picoseconds start,
              Picoseconds end) {
    const std::int64_t key = lane.own + a.micro_batch;
    w_.ends[at(key)] = end;
    if constexpr (traced) timeline_[index] = {start, end};
    if (w_.waits_for[at(lane.consumer)] == key) wake(lane.consumer);
    if constexpr (cut) {
      if (lane.to_all) wake_all(key, rank);
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
    const std::int64_t key = rows_.key(rows_.barrier(which), micro_batch);
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

std::string describe(const Action& a) {
  return std::string(name_of(a.kind)) + " of micro-batch " + std::to_string(a.micro_batch) +
         " on chunk " + std::to_string(a.chunk);
}

// What the rank waits for before `actions[i]`: that action's input, that of the one beside it, or
// the last collective of the output layer before it.
std::string awaited(const Order& order, const Workspace& w, int rank, std::int64_t i) {
  const std::int64_t key = w.waits_for[at(rank)];
  const auto input_of = [&](const Action& a) {
    return w.lanes[at(lanes_of(order.shape, rank) + lane_of(a))].input + a.micro_batch;
  };
  const Action& first = order.actions[at(i)];
  if (key == input_of(first)) return "the input of " + describe(first);
  if (first.with_next) return "the input of " + describe(order.actions[at(i + 1)]);
  return "all ranks to end " + describe(order.actions[at(i - 1)]);
}

template <bool cut>
std::int64_t run_loop(const Order& order, const Costs& costs, Workspace& w, Timing& timing,
                      Interval* timeline, bool record) {
  if (costs.sends == Sends::blocking) {
    return timeline == nullptr ? Loop<true, false, cut>(order, costs, w, timing, timeline)(record)
                               : Loop<true, true, cut>(order, costs, w, timing, timeline)(record);
  }
  return timeline == nullptr ? Loop<false, false, cut>(order, costs, w, timing, timeline)(record)
                             : Loop<false, true, cut>(order, costs, w, timing, timeline)(record);
}

}  // namespace

void begin(const Order& order, const Costs& costs, Workspace& w, Timing& timing) {
  const Shape& s = order.shape;
  const std::size_t ranks = at(s.pp);
  const bool cut = cuts_output(s);
  ERATOS_CHECK(costs.chunks.size() == at(slot_count(s)));
  ERATOS_CHECK(costs.links.empty() || costs.links.size() == costs.chunks.size());
  ERATOS_CHECK(!cut || costs.outputs.size() == ranks);
  const Rows rows = rows_of(order);
  fill_lanes(order, costs, w.lanes);
  w.ends.assign(at(rows.key(rows.count(cut), 0)), -1);
  std::fill_n(w.ends.begin(), rows.m, 0);
  if (cut) {
    w.missing.assign(2 * at(rows.m), s.pp);
    w.barrier_ends.assign(2 * at(rows.m), 0);
  }
  w.next.assign(order.first.begin(), order.first.end() - 1);
  w.limits.assign(order.first.begin() + 1, order.first.end());
  w.free_at.assign(ranks, 0);
  w.sending.assign(ranks, 0);
  w.stretches.clear();
  timing.ranks.assign(ranks, {});
}

std::int64_t run(const Order& order, const Costs& costs, Workspace& w, Timing& timing,
                 Interval* timeline, bool record) {
  // One more, whom nobody wakes: the consumer of what no other rank takes.
  w.waits_for.assign(at(order.shape.pp) + 1, -1);
  w.ready.clear();
  for (int rank = order.shape.pp - 1; rank >= 0; --rank) w.ready.push_back(rank);
  return cuts_output(order.shape) ? run_loop<true>(order, costs, w, timing, timeline, record)
                                  : run_loop<false>(order, costs, w, timing, timeline, record);
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

void conclude(const Costs& costs, const Workspace& w, Timing& timing) {
  timing.makespan = 0;
  for (std::size_t rank = 0; rank < timing.ranks.size(); ++rank) {
    RankTime& r = timing.ranks[rank];
    r.last_end = w.free_at[rank];
    if (costs.sends == Sends::blocking) r.transfer += w.sending[rank];
    timing.makespan = std::max(timing.makespan, r.last_end);
  }
  timing.pitch = 0;
  timing.critical_rank = 0;
  for (std::size_t rank = 0; rank < timing.ranks.size(); ++rank) {
    RankTime& r = timing.ranks[rank];
    timing.pitch = std::max(timing.pitch, r.last_end - r.first_start);
    r.idle = timing.makespan - r.busy - r.transfer;
    const RankTime& best = timing.ranks[at(timing.critical_rank)];
    const Picoseconds work = r.busy + r.transfer;
    const Picoseconds most = best.busy + best.transfer;
    if (work > most || (work == most && r.last_end > best.last_end)) {
      timing.critical_rank = static_cast<int>(rank);
    }
  }
}

Result<void> simulate(const Order& order, const Costs& costs, Workspace& w, Timing& timing,
                      std::vector<Interval>* timeline) {
  begin(order, costs, w, timing);
  if (timeline != nullptr) timeline->resize(order.actions.size());
  const std::int64_t done =
      run(order, costs, w, timing, timeline == nullptr ? nullptr : timeline->data(), false);
  if (done != static_cast<std::int64_t>(order.actions.size())) return stuck(order, w);
  conclude(costs, w, timing);
  find_peaks(order, costs.chunks, costs.outputs, timing.peaks);
  return {};
}

}  // namespace eratos::schedule
