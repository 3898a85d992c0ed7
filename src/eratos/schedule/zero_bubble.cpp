#include "eratos/schedule/zero_bubble.h"

#include <algorithm>
#include <cstddef>
#include <string>

namespace eratos::schedule {

void generate_split(const Shape& s, SplitTurnsOf turns_of, Order& order) {
  begin_order(s, Placement::looped, order);
  const int m = s.micro_batches;
  order.actions.reserve(std::size_t{3} * static_cast<std::size_t>(s.pp) *
                        static_cast<std::size_t>(m));
  for (int rank = 0; rank < s.pp; ++rank) {
    const auto [ahead, delay] = turns_of(s, rank);
    for (int i = 0; i < std::min(m, ahead); ++i) order.actions.push_back({i, 0, Kind::forward});
    for (int i = 0; i < m; ++i) {
      order.actions.push_back({i, 0, Kind::input_gradient});
      if (i >= delay) order.actions.push_back({i - delay, 0, Kind::weight_gradient});
      if (i < m - ahead) order.actions.push_back({i + ahead, 0, Kind::forward});
    }
    for (int i = std::max(0, m - delay); i < m; ++i) {
      order.actions.push_back({i, 0, Kind::weight_gradient});
    }
    end_rank(order);
  }
}

namespace {

const ChunkCost& at(const Costs& costs, int rank) {
  return costs.chunks[static_cast<std::size_t>(rank)];
}

// How many W a rank runs before B of micro-batch i.
int weights_before(int delay, int i) { return std::max(0, i - delay); }

// A loop over ranks first..last: forward i runs down from `first` to `last`, where B i - a(last) +
// 1 follows; that runs back up to `first`, where, after a W if one is due, forward i - a(last) + 1
// + a(first) follows. So each turn, whose length includes its transfers, carries only a(first) -
// a(last) + 1 micro-batches. Returns the least end of the last B of `first`, or 0 if no turn is
// made.
Picoseconds loop(const Shape& s, SplitTurnsOf turns_of, const Costs& costs, int first, int last,
                 Picoseconds fill, Picoseconds turn) {
  const auto [ahead, delay] = turns_of(s, first);
  const int below = turns_of(s, last).ahead;
  const int m = s.micro_batches;
  const ChunkCost& own = at(costs, first);
  if (below > m) return 0;
  const int carried = ahead - below + 1;
  const int turns = (m - below) / carried + 1;
  const int done = (turns - 1) * carried;  // the micro-batch whose B ends the last turn
  // Turns but the last whose B is of micro-batch `delay` or later have a W in them.
  const int without = std::min(turns - 1, (delay + carried - 1) / carried);
  const int weights =
      turns - 1 - without + weights_before(delay, m - 1) - weights_before(delay, done);
  return fill + (below - 1) * own.forward + turns * turn + weights * own.weight_gradient +
         (m - 1 - done) * own.input_gradient;
}

}  // namespace

Picoseconds lower_split(const Shape& s, SplitTurnsOf turns_of, const Costs& costs) {
  const int m = s.micro_batches;
  Picoseconds best = 0;
  Picoseconds fill = 0;
  Picoseconds after = 0;  // most that follows the last B of `first`: up to some rank, then its W
  for (int first = 0; first < s.pp; ++first) {
    const ChunkCost& own = at(costs, first);
    if (first > 0) {
      const ChunkCost& above = at(costs, first - 1);
      fill += above.forward + send_forward(costs, first - 1);
      after += send_backward(costs, first) + above.input_gradient;
    }
    const int left = m - weights_before(turns_of(s, first).delay, m - 1);
    after = std::max(after, left * own.weight_gradient);
    Picoseconds turn = 0;
    for (int last = first; last < s.pp; ++last) {
      if (last > first) turn += send_forward(costs, last - 1) + send_backward(costs, last);
      turn += at(costs, last).forward + at(costs, last).input_gradient;
      const Picoseconds ends = loop(s, turns_of, costs, first, last, fill, turn);
      if (ends > 0) best = std::max(best, ends + after);
    }
  }
  return best;
}

std::optional<Diagnostic> refuse_chunks(std::string_view name, const Shape& s) {
  if (s.chunks == 1) return std::nullopt;
  return Diagnostic{.message = std::string(name) + " keeps one chunk a rank, but vpp is " +
                               std::to_string(s.chunks),
                    .cure = "set vpp to 1, or choose zbv with vpp 2",
                    .field = "parallel.vpp"};
}

}  // namespace eratos::schedule
