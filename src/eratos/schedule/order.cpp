#include "eratos/schedule/order.h"

#include <cstddef>

namespace eratos::schedule {

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::forward:
      return "forward";
    case Kind::backward:
      return "backward";
    case Kind::input_gradient:
      return "input gradient";
    case Kind::weight_gradient:
      return "weight gradient";
    case Kind::output:
      return "output share";
    case Kind::output_gradient:
      return "output share's gradient";
  }
  return "";
}

void begin_order(const Shape& shape, Placement placement, Order& order) {
  const auto slots = static_cast<std::size_t>(slot_count(shape));
  order.shape = shape;
  order.placement = placement;
  order.actions.clear();
  order.actions.reserve(2 * slots * static_cast<std::size_t>(micro_batches_of(shape, placement)));
  order.first.clear();
  order.first.push_back(0);
  order.before.assign(slots, -1);
  order.after.assign(slots, -1);
  for (int copy = 0; copy < copies_of(placement); ++copy) {
    for (int stage = 1; stage < stage_count(shape, placement); ++stage) {
      const int here = slot_at(shape, placement, stage, copy);
      const int there = slot_at(shape, placement, stage - 1, copy);
      order.before[static_cast<std::size_t>(here)] = there;
      order.after[static_cast<std::size_t>(there)] = here;
    }
  }
}

void end_rank(Order& order) {
  order.first.push_back(static_cast<std::int64_t>(order.actions.size()));
}

namespace {

// What has run of one micro-batch on one chunk, a bit each by Kind.
bool is_next(std::uint8_t done, Kind kind) {
  const auto bit = [](Kind k) { return static_cast<std::uint8_t>(1U << static_cast<unsigned>(k)); };
  switch (kind) {
    case Kind::forward:
      return done == 0;
    case Kind::backward:
    case Kind::input_gradient:
      return done == bit(Kind::forward);
    case Kind::weight_gradient:
      return done == (bit(Kind::forward) | bit(Kind::input_gradient));
    case Kind::output:
      return done == 0;
    case Kind::output_gradient:
      return done == bit(Kind::output);
  }
  return false;
}

bool is_whole(std::uint8_t done) {
  const auto bit = [](Kind k) { return 1U << static_cast<unsigned>(k); };
  return done == (bit(Kind::forward) | bit(Kind::backward)) ||
         done == (bit(Kind::forward) | bit(Kind::input_gradient) | bit(Kind::weight_gradient));
}

}  // namespace

bool is_complete(const Order& order) {
  const Shape& s = order.shape;
  if (order.first.size() != static_cast<std::size_t>(s.pp) + 1) return false;
  const auto m = static_cast<std::size_t>(micro_batches_of(s, order.placement));
  const bool cut = s.output != OutputLayer::last_stage;
  std::vector<std::uint8_t> done;     // [v * m]
  std::vector<std::uint8_t> outputs;  // [m]
  for (int rank = 0; rank < s.pp; ++rank) {
    done.assign(static_cast<std::size_t>(s.chunks) * m, 0);
    outputs.assign(cut ? m : 0, 0);
    const auto actions = order.of(rank);
    for (std::size_t i = 0; i < actions.size(); ++i) {
      const Action& a = actions[i];
      if (a.chunk < 0 || a.chunk >= s.chunks) return false;
      if (a.micro_batch < 0 || static_cast<std::size_t>(a.micro_batch) >= m) return false;
      const bool is_output = a.kind == Kind::output || a.kind == Kind::output_gradient;
      if (is_output && (!cut || a.chunk != 0)) return false;
      const auto at = static_cast<std::size_t>(a.micro_batch);
      std::uint8_t& d =
          is_output ? outputs[at] : done[static_cast<std::size_t>(a.chunk) * m + at];
      if (!is_next(d, a.kind)) return false;
      d = static_cast<std::uint8_t>(d | (1U << static_cast<unsigned>(a.kind)));
      if (!a.with_next) continue;
      if (a.kind != Kind::forward || i + 1 == actions.size()) return false;
      const Action& b = actions[i + 1];
      if (b.with_next || (b.kind != Kind::backward && b.kind != Kind::input_gradient)) return false;
      if (b.chunk == a.chunk && b.micro_batch == a.micro_batch) return false;
    }
    for (const std::uint8_t d : done) {
      if (!is_whole(d)) return false;
    }
    for (const std::uint8_t d : outputs) {
      if (d != ((1U << static_cast<unsigned>(Kind::output)) |
                (1U << static_cast<unsigned>(Kind::output_gradient)))) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace eratos::schedule
