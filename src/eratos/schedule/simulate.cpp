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
  std::int64_t own = 0;        // ends[own + micro_batch]
  std::int64_t input = 0;      // ends[input + micro_batch] of the action that makes the input
  std::int32_t consumer = -1;  // rank whose action takes the output; -1: none, or this one
};

Workspace::Workspace() = default;
Workspace::~Workspace() = default;
Workspace::Workspace(Workspace&&) noexcept = default;
Workspace& Workspace::operator=(Workspace&&) noexcept = default;

namespace {

using Lane = Workspace::Lane;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

std::int64_t lane_of(const Shape& s, int slot, Kind kind) {
  return (std::int64_t{slot / s.chunks} * kKinds + static_cast<int>(kind)) * s.chunks +
         slot % s.chunks;
}

// Row 0 of `ends` is all zero: the input of a forward on the first stage is always there.
std::int64_t row_of(const Shape& s, std::int64_t lane) { return (lane + 1) * s.micro_batches; }

void fill_lanes(const Order& order, const Costs& costs, std::vector<Lane>& lanes) {
  const Shape& s = order.shape;
  lanes.assign(at(slot_count(s)) * kKinds, Lane{});
  for (int slot = 0; slot < slot_count(s); ++slot) {
    const int rank = slot / s.chunks;
    const std::int64_t f = lane_of(s, slot, Kind::forward);
    const std::int64_t b = lane_of(s, slot, Kind::backward);
    lanes[at(f)].own = row_of(s, f);
    lanes[at(b)].own = row_of(s, b);
    lanes[at(f)].duration = costs.chunks[at(slot)].forward;
    lanes[at(b)].duration = costs.chunks[at(slot)].backward;

    if (const int after = order.after[at(slot)]; after < 0) {
      lanes[at(b)].input = row_of(s, f);
    } else {
      const int there = after / s.chunks;
      const std::int64_t next = lane_of(s, after, Kind::forward);
      lanes[at(next)].input = row_of(s, f);
      lanes[at(f)].consumer = there;
      lanes[at(b)].input = row_of(s, lane_of(s, after, Kind::backward));
      if (there != rank) {
        lanes[at(f)].send = send_forward(costs, slot);
        lanes[at(next)].receive = lanes[at(f)].send;
      }
    }
    if (const int before = order.before[at(slot)]; before >= 0) {
      const int there = before / s.chunks;
      lanes[at(b)].consumer = there;
      if (there != rank) {
        lanes[at(b)].send = send_backward(costs, slot);
        lanes[at(lane_of(s, before, Kind::backward))].receive = lanes[at(b)].send;
      }
    }
  }
}

template <bool blocking, bool traced>
std::int64_t run(const Order& order, Workspace& w, Timing& timing, Interval* timeline) {
  const Shape& s = order.shape;
  const std::int64_t chunks = s.chunks;
  Picoseconds* const ends = w.ends.data();
  std::int64_t* const waits_for = w.waits_for.data();
  std::int64_t done = 0;
  while (!w.ready.empty()) {
    const int rank = w.ready.back();
    w.ready.pop_back();
    const Lane* const lanes = w.lanes.data() + chunks * kKinds * rank;
    const Action* const actions = order.actions.data();
    const std::int64_t stop = order.first[at(rank) + 1];
    const std::int64_t start_index = w.next[at(rank)];
    std::int64_t i = start_index;
    RankTime& time = timing.ranks[at(rank)];
    Picoseconds free_at = w.free_at[at(rank)];
    Picoseconds sending = w.sending[at(rank)];
    Picoseconds busy = 0;
    Picoseconds transfer = 0;
    waits_for[rank] = -1;
    for (; i < stop; ++i) {
      const Action a = actions[i];
      const Lane& lane = lanes[static_cast<int>(a.kind) * chunks + a.chunk];
      const Picoseconds made = ends[lane.input + a.micro_batch];
      if (made < 0) {
        waits_for[rank] = lane.input + a.micro_batch;
        break;
      }
      const Picoseconds both = std::max(free_at, made);
      Picoseconds start = std::max(free_at, made + lane.receive);
      if constexpr (blocking) {
        start = std::max(free_at + sending, both + lane.receive);
        transfer += both <= free_at + sending ? start - free_at : sending + lane.receive;
        sending = lane.send;
      } else {
        transfer += start - both;
      }
      free_at = start + lane.duration;
      busy += lane.duration;
      const std::int64_t key = lane.own + a.micro_batch;
      ends[key] = free_at;
      if constexpr (traced) timeline[i] = {start, free_at};
      if (const std::int32_t there = lane.consumer; there >= 0 && waits_for[there] == key) {
        waits_for[there] = -1;
        w.ready.push_back(there);
      }
    }
    if (start_index == order.first[at(rank)] && i > start_index) {
      const Action a = actions[start_index];
      const Lane& lane = lanes[static_cast<int>(a.kind) * chunks + a.chunk];
      time.first_start = ends[lane.own + a.micro_batch] - lane.duration;
    }
    done += i - start_index;
    w.next[at(rank)] = i;
    w.free_at[at(rank)] = free_at;
    w.sending[at(rank)] = sending;
    time.busy += busy;
    time.transfer += transfer;
    time.last_end = free_at;
  }
  return done;
}

std::string name_of(const Action& a) {
  return (a.kind == Kind::forward ? "forward" : "backward") + std::string(" of micro-batch ") +
         std::to_string(a.micro_batch) + " on chunk " + std::to_string(a.chunk);
}

tl::unexpected<Diagnostics> stuck(const Order& order, const Workspace& w) {
  Diagnostics all;
  for (int rank = 0; rank < order.shape.pp; ++rank) {
    if (w.next[at(rank)] == order.first[at(rank) + 1]) continue;
    const Action& waiting = order.actions[at(w.next[at(rank)])];
    all.push_back({.message = "the order cannot complete: rank " + std::to_string(rank) +
                              " waits for the input of " + name_of(waiting) + ", which never comes",
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

  fill_lanes(order, costs, w.lanes);
  w.ends.assign((w.lanes.size() + 1) * at(s.micro_batches), -1);
  std::fill_n(w.ends.begin(), s.micro_batches, 0);
  w.next.assign(order.first.begin(), order.first.end() - 1);
  w.waits_for.assign(ranks, -1);
  w.free_at.assign(ranks, 0);
  w.sending.assign(ranks, 0);
  w.ready.clear();
  for (int rank = s.pp - 1; rank >= 0; --rank) w.ready.push_back(rank);
  timing.ranks.assign(ranks, {});
  if (timeline != nullptr) timeline->resize(order.actions.size());

  const bool blocking = costs.sends == Sends::blocking;
  const std::int64_t done = timeline == nullptr
                                ? (blocking ? run<true, false>(order, w, timing, nullptr)
                                            : run<false, false>(order, w, timing, nullptr))
                                : (blocking ? run<true, true>(order, w, timing, timeline->data())
                                            : run<false, true>(order, w, timing, timeline->data()));
  if (done != static_cast<std::int64_t>(order.actions.size())) return stuck(order, w);

  timing.makespan = 0;
  for (const RankTime& r : timing.ranks) timing.makespan = std::max(timing.makespan, r.last_end);
  timing.critical_rank = 0;
  for (int rank = 0; rank < s.pp; ++rank) {
    RankTime& r = timing.ranks[at(rank)];
    if (blocking) r.transfer += w.sending[at(rank)];
    r.idle = timing.makespan - r.busy - r.transfer;
    const RankTime& best = timing.ranks[at(timing.critical_rank)];
    const Picoseconds work = r.busy + r.transfer;
    const Picoseconds most = best.busy + best.transfer;
    if (work > most || (work == most && r.last_end > best.last_end)) timing.critical_rank = rank;
  }
  find_peaks(order, costs.chunks, timing.peaks);
  return {};
}

}  // namespace eratos::schedule
