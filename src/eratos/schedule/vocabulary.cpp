#include "eratos/schedule/vocabulary.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

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

// With barriers. Stretched by x, rank r's turn k begins at x (r hop + k I), with F there; at x F
// begins a place of length O for T and S, after it BW, and another such place ends with the turn.
// So of pass times f, b and o no two meet, and F and BW come down and up in time, if
//   x F >= f   and   x (B + O) >= b + 2 o.
// S is in the first place whose drawing is not before E + (F + O) / 2, which is one at most B + O
// later. So, with O <= F, it begins after x E, T a turn later begins after it, and B of the last
// stage, one or two turns after E, after that, if
//   x (F + O) >= 2 o   and   x F >= o.
Picoseconds cut_one_f_one_b_upper(const Shape& s, const Pace& pace, Picoseconds f, Picoseconds b,
                                  Picoseconds o) {
  const Picoseconds m = s.micro_batches;
  if (s.output == OutputLayer::interlaced) {
    return (m + s.pp + (s.pp - 1) / 2) * (f + std::max(f, b) + o);
  }
  if (pace.output > pace.forward) return std::numeric_limits<Picoseconds>::max();
  // From rank 0's first F to its last BW, and to any rank's last T; twice the pace, as drawn.
  const Picoseconds turn = 2 * (pace.forward + pace.backward + pace.output);
  const Picoseconds hop = 2 * pace.forward + pace.output;
  const Picoseconds end = (s.pp - 1) * hop + 2 * pace.forward;
  const Picoseconds after = turns_added(s.output) * turn + (s.pp - 1) * (turn - hop);
  const Picoseconds twice = (m - 1) * turn + end + std::max(after, 2 * turn);
  // Times num / den, rounded up by less than a pass.
  const auto stretched = [&](Picoseconds num, Picoseconds den) {
    return (twice + 2 * den - 1) / (2 * den) * num;
  };
  return std::max({stretched(f, pace.forward), stretched(b + 2 * o, pace.backward + pace.output),
                   stretched(2 * o, pace.forward + pace.output), stretched(o, pace.forward)}) +
         b + 2 * o;
}

int cut_one_f_one_b_in_flight(const Shape& s, int rank) {
  const int most = s.output == OutputLayer::interlaced ? 3 * (s.pp - rank) / 2
                                                       : s.pp - rank + turns_added(s.output);
  return std::min(s.micro_batches, most);
}

namespace {

// Of an order of `late` micro-batches more, each backward is called one of `late` earlier, and what
// is then not there is struck: what remains waits for nothing that went.
void delay_backwards(const Order& plain, const Shape& s, int late, Order& order) {
  begin_order(s, plain.placement, order);
  for (int rank = 0; rank < s.pp; ++rank) {
    for (Action a : plain.of(rank)) {
      if (a.kind != Kind::forward) a.micro_batch -= late;
      if (a.micro_batch >= 0 && a.micro_batch < s.micro_batches) order.actions.push_back(a);
    }
    end_rank(order);
  }
}

// When, on the drawing board, S and T of each micro-batch may be due.
struct Due {
  std::vector<Picoseconds> output;
  std::vector<Picoseconds> gradient;
};

Due due(const Order& order, const std::vector<Interval>& timeline, bool two) {
  const auto m = static_cast<std::size_t>(order.shape.micro_batches);
  const int last =
      slot_at(order.shape, order.placement, stage_count(order.shape, order.placement) - 1);
  const int rank = last / order.shape.chunks;
  Due d{std::vector<Picoseconds>(m), std::vector<Picoseconds>(m)};  // first: F's end and B's start
  auto at = static_cast<std::size_t>(order.first[static_cast<std::size_t>(rank)]);
  for (const Action& a : order.of(rank)) {
    const Interval x = timeline[at++];
    if (a.chunk != last % order.shape.chunks) continue;
    const auto i = static_cast<std::size_t>(a.micro_batch);
    if (a.kind == Kind::forward) d.output[i] = x.end;
    if (a.kind == Kind::backward || a.kind == Kind::input_gradient) d.gradient[i] = x.start;
  }
  for (std::size_t i = 0; i < m; ++i) {
    const Picoseconds gap = d.gradient[i] - d.output[i];
    d.output[i] += two ? gap / 4 : gap / 2;
    if (two) d.gradient[i] -= gap / 4;
  }
  return d;
}

}  // namespace

void cut_output(void (*generate)(const Shape&, Order&), const Shape& s, const Costs& costs,
                Order& order) {
  const int late = turns_added(s.output);
  ERATOS_CHECK(late > 0);
  Shape whole = s;
  whole.output = OutputLayer::last_stage;
  Shape longer = whole;
  longer.micro_batches += late;
  Order plain;
  generate(longer, plain);
  Order delayed;
  delay_backwards(plain, whole, late, delayed);

  // Every pass takes some time on the drawing board, enough for S and T to be due at different
  // times.
  constexpr Picoseconds kLeast = 4;
  std::vector<ChunkCost> chunks(costs.chunks.begin(), costs.chunks.end());
  for (ChunkCost& c : chunks) {
    for (Picoseconds* time : {&c.forward, &c.backward, &c.input_gradient, &c.weight_gradient}) {
      *time = std::max(*time, kLeast);
    }
  }
  Workspace workspace;
  Timing timing;
  std::vector<Interval> timeline;
  const auto done =
      simulate(delayed, Costs{.chunks = chunks, .links = costs.links, .sends = costs.sends},
               workspace, timing, &timeline);
  ERATOS_CHECK(done.has_value());
  const Due d = due(delayed, timeline, s.output == OutputLayer::two_barriers);

  begin_order(s, delayed.placement, order);
  for (int rank = 0; rank < s.pp; ++rank) {
    std::int32_t outputs = 0;
    std::int32_t gradients = 0;
    const auto put_until = [&](Picoseconds now) {
      const auto is_due = [&](const std::vector<Picoseconds>& when, std::int32_t i) {
        return i < s.micro_batches && when[static_cast<std::size_t>(i)] <= now;
      };
      while (is_due(d.output, outputs) || is_due(d.gradient, gradients)) {
        // T of one micro-batch before S of the next, as long as S of its own is there.
        if (gradients < outputs && is_due(d.gradient, gradients)) {
          order.actions.push_back({gradients++, 0, Kind::output_gradient});
        } else {
          order.actions.push_back({outputs++, 0, Kind::output});
        }
      }
    };
    auto at = static_cast<std::size_t>(delayed.first[static_cast<std::size_t>(rank)]);
    for (const Action& a : delayed.of(rank)) {
      put_until(timeline[at++].start);
      order.actions.push_back(a);
    }
    put_until(timing.makespan);
    end_rank(order);
  }
}

void cut_output(void (*generate)(const Shape&, Order&), const Shape& s, Order& order) {
  const std::vector<ChunkCost> chunks(
      static_cast<std::size_t>(slot_count(s)),
      ChunkCost{.forward = 12, .backward = 24, .input_gradient = 12, .weight_gradient = 12});
  cut_output(generate, s, Costs{.chunks = chunks, .links = {}}, order);
}

}  // namespace eratos::schedule
