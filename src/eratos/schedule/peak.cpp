#include "eratos/schedule/peak.h"

#include <algorithm>
#include <cstddef>

#include "eratos/base/check.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

namespace {

// What an action adds when it starts and gives back when it ends, in bytes.
struct Change {
  std::int64_t at_start = 0;
  std::int64_t at_end = 0;
};

Change change_of(const Action& a, const ChunkCost& c, std::int64_t output_held) {
  switch (a.kind) {
    case Kind::forward:
      return {c.held, 0};
    case Kind::backward:
      return {0, -c.held};
    case Kind::input_gradient:
      return {0, c.kept - c.held};
    case Kind::weight_gradient:
      return {0, -c.kept};
    case Kind::output:
      return {output_held, 0};
    case Kind::output_gradient:
      return {0, -output_held};
  }
  return {};
}

std::int64_t output_held(std::span<const OutputCost> outputs, int rank) {
  return outputs.empty() ? 0 : outputs[static_cast<std::size_t>(rank)].held;
}

}  // namespace

void find_peaks(const Order& order, std::span<const ChunkCost> chunks,
                std::span<const OutputCost> outputs, Peaks& peaks) {
  const Shape& s = order.shape;
  const auto v = static_cast<std::size_t>(s.chunks);
  const auto p = static_cast<std::size_t>(s.pp);
  ERATOS_CHECK(chunks.size() == p * v);
  peaks.ranks.assign(p, {});
  peaks.in_flight.assign(chunks.size(), 0);
  peaks.waiting.assign(chunks.size(), 0);
  peaks.outputs.assign(p, 0);
  for (int rank = 0; rank < s.pp; ++rank) {
    const std::size_t base = static_cast<std::size_t>(rank) * v;
    const std::int64_t share = output_held(outputs, rank);
    const std::span<const Action> actions = order.of(rank);
    std::int64_t held = 0;
    std::int64_t most = -1;
    std::size_t at = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action a = actions[i];
      const Change change = change_of(a, chunks[base + static_cast<std::size_t>(a.chunk)], share);
      const std::int64_t top = held + std::max(change.at_start, change.at_end);
      held += change.at_start + change.at_end;
      if (top > most) {
        most = top;
        at = i;
      }
    }
    if (most < 0) continue;
    peaks.ranks[static_cast<std::size_t>(rank)] = {most, static_cast<std::int64_t>(at)};
    for (std::size_t i = 0; i <= at; ++i) {
      const Action a = actions[i];
      const std::size_t slot = base + static_cast<std::size_t>(a.chunk);
      // A backward that peaks at its start still holds what it gives back.
      const bool ended = i < at || change_of(a, chunks[slot], share).at_end > 0;
      switch (a.kind) {
        case Kind::forward:
          ++peaks.in_flight[slot];
          break;
        case Kind::backward:
          peaks.in_flight[slot] -= ended ? 1 : 0;
          break;
        case Kind::input_gradient:
          peaks.in_flight[slot] -= ended ? 1 : 0;
          peaks.waiting[slot] += ended ? 1 : 0;
          break;
        case Kind::weight_gradient:
          peaks.waiting[slot] -= ended ? 1 : 0;
          break;
        case Kind::output:
          ++peaks.outputs[static_cast<std::size_t>(rank)];
          break;
        case Kind::output_gradient:
          peaks.outputs[static_cast<std::size_t>(rank)] -= ended ? 1 : 0;
          break;
      }
    }
  }
}

std::vector<Level> memory_curve(const Order& order, int rank, const Costs& costs,
                                std::span<const Interval> timeline) {
  const auto base = static_cast<std::size_t>(rank) * static_cast<std::size_t>(order.shape.chunks);
  const auto first = static_cast<std::size_t>(order.first[static_cast<std::size_t>(rank)]);
  const std::span<const Action> actions = order.of(rank);
  std::vector<Level> curve;
  std::int64_t held = 0;
  // Actions of a rank follow one another; two side by side start and end together, so both ends of
  // the first come before the end of the second.
  const auto step = [&](Picoseconds time, std::int64_t change) {
    if (change == 0) return;
    held += change;
    if (!curve.empty() && curve.back().time == time) {
      curve.back().bytes = held;
    } else {
      curve.push_back({time, held});
    }
  };
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Action a = actions[i];
    const Change change = change_of(a, costs.chunks[base + static_cast<std::size_t>(a.chunk)],
                                    output_held(costs.outputs, rank));
    step(timeline[first + i].start, change.at_start);
    step(timeline[first + i].end, change.at_end);
  }
  return curve;
}

Result<void> find_peaks(const Schedule& schedule, const Shape& shape, const Costs& costs,
                        Order& order, Peaks& peaks) {
  if (auto why = refusal(schedule, shape, costs)) return fault(std::move(*why));
  const std::span<const ChunkCost> chunks = costs.chunks;
  if (schedule.peak != nullptr && shape.output == OutputLayer::last_stage) {
    const auto v = static_cast<std::size_t>(shape.chunks);
    ERATOS_CHECK(chunks.size() == static_cast<std::size_t>(slot_count(shape)));
    peaks.ranks.resize(static_cast<std::size_t>(shape.pp));
    peaks.in_flight.resize(chunks.size());
    peaks.waiting.assign(chunks.size(), 0);
    peaks.outputs.assign(static_cast<std::size_t>(shape.pp), 0);
    for (int rank = 0; rank < shape.pp; ++rank) {
      const std::size_t base = static_cast<std::size_t>(rank) * v;
      peaks.ranks[static_cast<std::size_t>(rank)] =
          schedule.peak(shape, rank, chunks.subspan(base, v),
                        std::span<std::int32_t>(peaks.in_flight).subspan(base, v));
    }
    return {};
  }
  Shape fewer = shape;
  if (schedule.micro_batches_for_peak != nullptr) {
    fewer.micro_batches = schedule.micro_batches_for_peak(shape);
  }
  if (auto made = make_order(schedule, fewer, costs, order); !made) return made;
  find_peaks(order, chunks, costs.outputs, peaks);
  return {};
}

}  // namespace eratos::schedule
