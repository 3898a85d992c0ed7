#include "eratos/schedule/peak.h"

#include <cstddef>

#include "eratos/base/check.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

void find_peaks(const Order& order, std::span<const ChunkCost> chunks, Peaks& peaks) {
  const Shape& s = order.shape;
  const auto v = static_cast<std::size_t>(s.chunks);
  ERATOS_CHECK(chunks.size() == static_cast<std::size_t>(s.pp) * v);
  peaks.ranks.assign(static_cast<std::size_t>(s.pp), {});
  peaks.in_flight.assign(chunks.size(), 0);
  for (int rank = 0; rank < s.pp; ++rank) {
    const std::size_t base = static_cast<std::size_t>(rank) * v;
    const std::span<const Action> actions = order.of(rank);
    std::int64_t held = 0;
    std::int64_t most = -1;
    std::size_t at = 0;
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action a = actions[i];
      const std::int64_t bytes = chunks[base + static_cast<std::size_t>(a.chunk)].held;
      held += a.kind == Kind::forward ? bytes : -bytes;
      if (held > most) {
        most = held;
        at = i;
      }
    }
    if (most < 0) continue;
    peaks.ranks[static_cast<std::size_t>(rank)] = {most, static_cast<std::int64_t>(at)};
    for (std::size_t i = 0; i <= at; ++i) {
      const Action a = actions[i];
      peaks.in_flight[base + static_cast<std::size_t>(a.chunk)] += a.kind == Kind::forward ? 1 : -1;
    }
  }
}

Result<void> find_peaks(const Schedule& schedule, const Shape& shape,
                        std::span<const ChunkCost> chunks, Order& order, Peaks& peaks) {
  if (auto why = refusal(schedule, shape)) return fault(std::move(*why));
  if (schedule.peak != nullptr) {
    const auto v = static_cast<std::size_t>(shape.chunks);
    ERATOS_CHECK(chunks.size() == static_cast<std::size_t>(slot_count(shape)));
    peaks.ranks.resize(static_cast<std::size_t>(shape.pp));
    peaks.in_flight.resize(chunks.size());
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
  schedule.generate(fewer, order);
  find_peaks(order, chunks, peaks);
  return {};
}

}  // namespace eratos::schedule
