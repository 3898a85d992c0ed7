#include "eratos/schedule/vocabulary.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "eratos/base/check.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

void repeat(std::span<const Pass> block, std::int64_t turn, int micro_batches, Order& order) {
  struct Step {
    Action action;       // of micro-batch 0
    std::int64_t phase;  // in a turn
    std::int64_t lag;    // turns after turn 0
  };
  ERATOS_CHECK(block.size() <= kMostPasses && turn > 0);
  std::array<Step, kMostPasses> steps;
  const auto end = steps.begin() + static_cast<std::ptrdiff_t>(block.size());
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const std::int64_t phase = (block[i].at % turn + turn) % turn;
    const std::int64_t lag = (block[i].at - phase) / turn;
    steps[i] = {{0, block[i].chunk, block[i].kind}, phase, lag};
    first = i == 0 ? lag : std::min(first, lag);
    last = i == 0 ? lag : std::max(last, lag);
  }
  std::stable_sort(steps.begin(), end,
                   [](const Step& a, const Step& b) { return a.phase < b.phase; });
  for (std::int64_t t = first; t < last + micro_batches; ++t) {
    for (auto step = steps.begin(); step != end; ++step) {
      const std::int64_t i = t - step->lag;
      if (i < 0 || i >= micro_batches) continue;
      Action action = step->action;
      action.micro_batch = static_cast<std::int32_t>(i);
      order.actions.push_back(action);
    }
  }
}

Pace pace_of(const Costs& costs) {
  Picoseconds forward = 0;
  Picoseconds backward = 0;
  Picoseconds output = 0;
  for (const ChunkCost& c : costs.chunks) {
    forward += c.forward;
    backward += c.backward;
  }
  for (const OutputCost& o : costs.outputs) output += o.output + o.output_gradient;
  const auto stages = static_cast<Picoseconds>(costs.chunks.size());
  const auto ranks = static_cast<Picoseconds>(std::max<std::size_t>(1, costs.outputs.size()));
  return {std::max<Picoseconds>(1, forward / stages), std::max<Picoseconds>(1, backward / stages),
          output / ranks};
}

namespace {

// Meetings at 3 of every turn of 4; before it F 1 and B 2 long, in either order. Below a rank that
// runs F and then B is one that runs B and then F, so that its F can be of the same micro-batch.
void interlaced(const Shape& s, int rank, Order& order) {
  constexpr std::int64_t kTurn = 4;
  const std::int64_t below = s.pp - 1 - rank;
  const bool forward_first = below % 2 == 1;
  const Pass block[] = {
      {Kind::forward, 0, -(below / 2) * kTurn + (forward_first ? 0 : 2)},
      {Kind::output, 0, 3},
      {Kind::output_gradient, 0, 3},
      {Kind::backward, 0, (below + 1) * kTurn + (forward_first ? 1 : 0)},
  };
  repeat(block, kTurn, s.micro_batches, order);
}

// Rank r's turn starts `hop` after that of the rank above: no less than F, and no more than
// F + S + T, or gradients would come too late. Halfway lets either be longer than drawn. A T comes
// before the S of the next micro-batch, so that a rank holds one share at a time.
void with_barriers(const Shape& s, const Pace& pace, int rank, Order& order) {
  // Twice the pace, since halves of it are drawn.
  const std::int64_t turn = 2 * (pace.forward + pace.backward + pace.output);
  const std::int64_t hop = 2 * pace.forward + pace.output;
  const std::int64_t below = s.pp - 1 - rank;
  const std::int64_t end = (s.pp - 1) * hop + 2 * pace.forward;
  const std::int64_t output = end + (pace.forward + pace.output);
  const Pass block[] = {
      {Kind::forward, 0, rank * hop},
      {Kind::backward, 0, end + turns_added(s.output) * turn + below * (turn - hop)},
      {Kind::output_gradient, 0, output + turn},
      {Kind::output, 0, output},
  };
  repeat(block, turn, s.micro_batches, order);
}

}  // namespace

void cut_one_f_one_b(const Shape& s, const Pace& pace, Order& order) {
  begin_order(s, Placement::looped, order);
  for (int rank = 0; rank < s.pp; ++rank) {
    if (s.output == OutputLayer::interlaced) {
      interlaced(s, rank, order);
    } else {
      with_barriers(s, pace, rank, order);
    }
    end_rank(order);
  }
}

int cut_one_f_one_b_in_flight(const Shape& s, int rank) {
  const int most = s.output == OutputLayer::interlaced ? 3 * (s.pp - rank) / 2
                                                       : s.pp - rank + turns_added(s.output);
  return std::min(s.micro_batches, most);
}

}  // namespace eratos::schedule
