#include "eratos/schedule/peak.h"

#include <algorithm>
#include <cstddef>

#include "eratos/base/check.h"
#include "eratos/schedule/event_loop.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

namespace {

// What an action adds when it starts and gives back when it ends, in bytes.
struct Step {
  std::int64_t at_start = 0;
  std::int64_t at_end = 0;
};

Step step_of(Kind kind, const ChunkCost& c, std::int64_t output_held) {
  switch (kind) {
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

std::size_t index_of(const Action& a) { return static_cast<std::size_t>(lane_of(a)); }
std::size_t index_of(std::size_t chunk, Kind kind) {
  return index_of(Action{0, static_cast<std::int16_t>(chunk), kind});
}

RankPeak find_peak(std::span<const Action> actions, const Change* changes) {
  std::int64_t held = 0;
  RankPeak peak{-1, 0};
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const Change& change = changes[index_of(actions[i])];
    const std::int64_t top = held + change.most;
    held += change.after;
    if (top > peak.held) peak = {top, static_cast<std::int64_t>(i)};
  }
  return peak;
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
  peaks.changes.resize(v * static_cast<std::size_t>(kLanesAChunk));
  for (int rank = 0; rank < s.pp; ++rank) {
    const std::size_t base = static_cast<std::size_t>(rank) * v;
    const std::int64_t share = output_held(outputs, rank);
    for (std::size_t chunk = 0; chunk < v; ++chunk) {
      for (int kind = 0; kind < kKinds; ++kind) {
        const Step step = step_of(static_cast<Kind>(kind), chunks[base + chunk], share);
        peaks.changes[index_of(chunk, static_cast<Kind>(kind))] = {
            std::max(step.at_start, step.at_end), step.at_start + step.at_end};
      }
    }
    const std::span<const Action> actions = order.of(rank);
    if (actions.empty()) continue;
    const RankPeak peak = find_peak(actions, peaks.changes.data());
    peaks.ranks[static_cast<std::size_t>(rank)] = peak;
    peaks.counts.assign(peaks.changes.size(), 0);
    const auto at = static_cast<std::size_t>(peak.peak_at);
    for (std::size_t i = 0; i < at; ++i) ++peaks.counts[index_of(actions[i])];
    // A backward that peaks at its start still holds what it gives back.
    const Action& a = actions[at];
    const Step step = step_of(a.kind, chunks[base + static_cast<std::size_t>(a.chunk)], share);
    const bool starts = a.kind == Kind::forward || a.kind == Kind::output;
    if (starts || step.at_end > 0) ++peaks.counts[index_of(a)];
    const auto count = [&](std::size_t chunk, Kind kind) {
      return peaks.counts[index_of(chunk, kind)];
    };
    for (std::size_t chunk = 0; chunk < v; ++chunk) {
      const std::int32_t gradients = count(chunk, Kind::input_gradient);
      peaks.in_flight[base + chunk] =
          count(chunk, Kind::forward) - count(chunk, Kind::backward) - gradients;
      peaks.waiting[base + chunk] = gradients - count(chunk, Kind::weight_gradient);
    }
    peaks.outputs[static_cast<std::size_t>(rank)] =
        count(0, Kind::output) - count(0, Kind::output_gradient);
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
    const Step bytes = step_of(a.kind, costs.chunks[base + static_cast<std::size_t>(a.chunk)],
                               output_held(costs.outputs, rank));
    step(timeline[first + i].start, bytes.at_start);
    step(timeline[first + i].end, bytes.at_end);
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
