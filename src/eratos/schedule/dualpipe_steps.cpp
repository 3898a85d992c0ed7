#include "eratos/schedule/dualpipe_steps.h"

#include <algorithm>
#include <cstddef>

#include "eratos/base/check.h"

namespace eratos::schedule::dual {
namespace {

// Each half's micro-batches run in turn, so counting them is enough.
class Steps {
 public:
  Steps(int first_chunk, Order& order)
      : first_chunk_(first_chunk), order_(order), begin_(order.actions.size()) {}

  void forward(int half, bool with_next = false) {
    put({forwards_[half]++, chunk_of(half), Kind::forward, with_next});
  }
  void backward(int half) { put({backwards_[half]++, chunk_of(half), Kind::backward}); }
  void input_gradient(int half) { put({backwards_[half]++, chunk_of(half), Kind::input_gradient}); }
  void pair(int forward_half, int backward_half) {
    forward(forward_half, true);
    backward(backward_half);
  }
  // The queue's oldest: the first B* of this rank whose W has not been put.
  void weight_gradient() {
    std::size_t& at = oldest_;
    while (action(at).kind != Kind::input_gradient) ++at;
    Action w = action(at++);
    w.kind = Kind::weight_gradient;
    put(w);
  }

 private:
  std::int16_t chunk_of(int half) const {
    return static_cast<std::int16_t>(half == 0 ? first_chunk_ : 1 - first_chunk_);
  }
  const Action& action(std::size_t at) const { return order_.actions[begin_ + at]; }
  void put(Action a) { order_.actions.push_back(a); }

  int first_chunk_;
  Order& order_;
  std::size_t begin_;
  std::size_t oldest_ = 0;
  int forwards_[2] = {0, 0};
  int backwards_[2] = {0, 0};
};

void append_steps(const Place& place, Order& order) {
  const auto [h, r, n, first_chunk] = place;
  ERATOS_CHECK(n >= 2 * h);
  Steps steps(first_chunk, order);
  const int below = h - r - 1;
  for (int i = 0; i < 2 * below; ++i) steps.forward(0);
  for (int i = 0; i < r + 1; ++i) {
    steps.forward(0);
    steps.forward(1);
  }
  for (int i = 0; i < below; ++i) {
    steps.input_gradient(1);
    steps.weight_gradient();
    steps.forward(1);
  }
  for (int i = 0; i < n - 2 * h + r + 1; ++i) {
    if (i == 0 && below == 0) {
      steps.forward(0);
      steps.backward(1);
    } else {
      steps.pair(0, 1);
    }
    steps.pair(1, 0);
  }
  for (int i = 0; i < below; ++i) {
    steps.backward(1);
    steps.pair(1, 0);
  }
  for (int i = 0; i < 2 * (r + 1); ++i) {
    const int half = i % 2 == 0 ? 1 : 0;
    if (i < r + 1) {
      steps.backward(half);
    } else {
      steps.input_gradient(half);
    }
  }
  for (int i = 0; i < below; ++i) {
    steps.weight_gradient();
    steps.input_gradient(0);
  }
  for (int i = 0; i < r + 1; ++i) steps.weight_gradient();
}

// All that one rank does.
Picoseconds work(const Place& place, const ChunkCost& c0, const ChunkCost& c1) {
  const auto [h, r, n, first_chunk] = place;
  const Picoseconds below = h - r - 1;
  const Picoseconds turns = n - 2 * h + r + 1;
  const Picoseconds pairs_01 = turns - (below == 0 ? 1 : 0);  // F0&B1
  const Picoseconds pairs_10 = turns + below;
  // Step 3 or 7, and of step 6's last r + 1 backwards every other one.
  const Picoseconds apart_1 = below + (r + 1) / 2;
  const Picoseconds apart_0 = below + (r + 1) - (r + 1) / 2;
  const auto pair = [](const ChunkCost& f, const ChunkCost& b) {
    return together(f.forward, f.forward_hideable, b.backward, b.backward_hideable);
  };
  return pairs_01 * pair(c0, c1) + pairs_10 * pair(c1, c0) + (n - pairs_01) * c0.forward +
         (n - pairs_10) * c1.forward + (n - pairs_01 - apart_1) * c1.backward +
         (n - pairs_10 - apart_0) * c0.backward +
         apart_1 * (c1.input_gradient + c1.weight_gradient) +
         apart_0 * (c0.input_gradient + c0.weight_gradient);
}

}  // namespace

Place place_of(const Shape& s, Placement placement, int rank) {
  const int n = micro_batches_of(s, placement);
  if (placement == Placement::vee) return {s.pp, rank, n, 0};
  // The copy that begins nearer to the rank comes first.
  const bool near = rank < s.pp / 2;
  return {s.pp / 2, near ? rank : s.pp - 1 - rank, n, near ? 0 : 1};
}

void generate(const Shape& s, Placement placement, Order& order) {
  begin_order(s, placement, order);
  for (int rank = 0; rank < s.pp; ++rank) {
    append_steps(place_of(s, placement, rank), order);
    end_rank(order);
  }
}

Picoseconds lower(const Shape& s, Placement placement, const Costs& costs) {
  const auto chunk = [&](int slot) -> const ChunkCost& {
    return costs.chunks[static_cast<std::size_t>(slot)];
  };
  Picoseconds best = 0;
  for (int rank = 0; rank < s.pp; ++rank) {
    const Place place = place_of(s, placement, rank);
    const int copy = place.first_chunk;
    // Above are other ranks whose last backwards are B*, and stage 0 then has one W.
    Picoseconds fill = 0;
    Picoseconds drain = 0;
    for (int stage = 0; stage < place.r; ++stage) {
      const int here = slot_at(s, placement, stage, copy);
      fill += chunk(here).forward + send_forward(costs, here);
      drain +=
          chunk(here).input_gradient + send_backward(costs, slot_at(s, placement, stage + 1, copy));
      if (stage == 0) drain += chunk(here).weight_gradient;
    }
    const ChunkCost& c0 = chunk(slot_of(s, rank, place.first_chunk));
    const ChunkCost& c1 = chunk(slot_of(s, rank, 1 - place.first_chunk));
    const Picoseconds all = work(place, c0, c1);
    const Picoseconds last = (place.r + 1) * std::max(c0.weight_gradient, c1.weight_gradient);
    best = std::max({best, fill + all, fill + all - last + drain});
  }
  return best;
}

}  // namespace eratos::schedule::dual
