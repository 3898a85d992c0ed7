// Shapes, seeded costs and seeded orders that the tests of this folder share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule::testing {

struct OwnedCosts {
  std::vector<ChunkCost> chunks;
  std::vector<LinkCost> links;
  Sends sends = Sends::overlapped;
  std::vector<OutputCost> outputs;
  OutputLinks output_links;

  operator Costs() const { return {chunks, links, sends, outputs, output_links}; }
};

// Every chunk alike: F = f, B = b, W = w, BW = b + w; one byte between F and B, none between B and
// W.
inline OwnedCosts split_costs(const Shape& s, Picoseconds f, Picoseconds b, Picoseconds w,
                              Picoseconds link = 0, Sends sends = Sends::overlapped) {
  OwnedCosts c;
  c.chunks.assign(
      static_cast<std::size_t>(slot_count(s)),
      ChunkCost{
          .forward = f, .backward = b + w, .held = 1, .input_gradient = b, .weight_gradient = w});
  c.links.assign(static_cast<std::size_t>(slot_count(s)), {link, link});
  c.sends = sends;
  c.outputs.assign(static_cast<std::size_t>(s.pp), OutputCost{});
  return c;
}

// BW = b; its halves as even as integers allow.
inline OwnedCosts equal_costs(const Shape& s, Picoseconds f, Picoseconds b, Picoseconds link = 0,
                              Sends sends = Sends::overlapped) {
  return split_costs(s, f, b / 2, b - b / 2, link, sends);
}

inline OwnedCosts random_costs(const Shape& s, Rng& rng, Sends sends) {
  OwnedCosts c;
  const auto draw = [&](std::int64_t n) {
    return static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(n)));
  };
  const std::int64_t link = 1 + draw(60);
  for (int i = 0; i < slot_count(s); ++i) {
    ChunkCost chunk{.forward = 1 + draw(50),
                    .backward = 1 + draw(100),
                    .held = draw(1000),
                    .input_gradient = 1 + draw(50),
                    .weight_gradient = 1 + draw(50),
                    .kept = draw(1200)};
    chunk.forward_hideable = draw(chunk.forward + 1);
    chunk.backward_hideable = draw(chunk.backward + 1);
    c.chunks.push_back(chunk);
    c.links.push_back({draw(link), draw(link)});
  }
  for (int rank = 0; rank < s.pp; ++rank) {
    c.outputs.push_back({1 + draw(20), 1 + draw(20), draw(500)});
  }
  c.output_links = {draw(link), draw(link), draw(link)};
  c.sends = sends;
  return c;
}

inline constexpr OutputLayer kOutputLayers[] = {OutputLayer::last_stage, OutputLayer::two_barriers,
                                                OutputLayer::one_barrier, OutputLayer::interlaced};

inline std::string text(const Shape& s) {
  return "p " + std::to_string(s.pp) + " v " + std::to_string(s.chunks) + " m " +
         std::to_string(s.micro_batches) + " g " + std::to_string(s.group_size) + " output " +
         std::to_string(static_cast<int>(s.output));
}
inline std::string text(const Schedule& schedule, const Shape& s) {
  return std::string(schedule.name) + " " + text(s);
}

// Calls visit(schedule, shape) for every legal shape with p <= 4, v <= 2, m <= 8, every place of
// the output layer and, where a schedule has groups, every legal group size up to 9.
template <class Visit>
void for_every_small_case(Visit visit) {
  for (const Schedule* schedule : kSchedules) {
    for (int p = 1; p <= 4; ++p) {
      for (int v = 1; v <= 2; ++v) {
        for (int m = 1; m <= 8; ++m) {
          for (int group = 0; group <= (v > 1 ? 9 : 0); ++group) {
            for (const OutputLayer output : kOutputLayers) {
              const Shape s{p, v, m, group, output};
              if (!refusal(*schedule, s)) visit(*schedule, s);
            }
          }
        }
      }
    }
  }
}

// The schedule's order of a legal shape, at these costs if it looks at them.
inline void order_of(const Schedule& schedule, const Shape& s, const Costs& costs, Order& order) {
  EXPECT_TRUE(make_order(schedule, s, costs, order).has_value()) << text(schedule, s);
}

// A legal shape of the schedule, or nothing if some hundred draws find none.
inline std::optional<Shape> random_shape(const Schedule& schedule, Rng& rng, int most_pp,
                                         int most_chunks, int most_micro_batches) {
  const auto draw = [&](int n) {
    return static_cast<int>(rng.below(static_cast<std::uint64_t>(n)));
  };
  for (int tries = 0; tries < 1000; ++tries) {
    Shape s{1 + draw(most_pp), 1 + draw(most_chunks), 1 + draw(most_micro_batches)};
    if (draw(3) == 0) s.group_size = s.pp + draw(9);
    if (schedule.cuts_output) s.output = kOutputLayers[draw(4)];
    if (!refusal(schedule, s)) return s;
  }
  return std::nullopt;
}

// What random_order() may use.
struct Freedom {
  Placement placement = Placement::looped;
  bool split = false;  // B and W instead of some BW
  bool pairs = false;
};

// A complete order that no schedule would choose: again and again some rank takes any action whose
// inputs are there, so that it never waits for itself.
class RandomOrder {
 public:
  RandomOrder(const Shape& s, const Freedom& freedom, Rng& rng)
      : s_(s),
        freedom_(freedom),
        rng_(rng),
        m_(micro_batches_of(s, freedom.placement)),
        stages_(stage_count(s, freedom.placement)),
        done_(static_cast<std::size_t>(slot_count(s) * m_) * kKinds),
        shares_(static_cast<std::size_t>(s.pp * m_) * kKinds),
        stands_(static_cast<std::size_t>(s.pp), -1),
        ranks_(static_cast<std::size_t>(s.pp)) {}

  Order operator()() {
    Order order;
    begin_order(s_, freedom_.placement, order);
    order_ = &order;
    bool moved = true;
    while (moved) {
      moved = false;
      const int first = below(s_.pp);
      for (int i = 0; i < s_.pp && !moved; ++i) moved = step((first + i) % s_.pp);
    }
    order.actions.clear();
    for (const auto& actions : ranks_) {
      order.actions.insert(order.actions.end(), actions.begin(), actions.end());
      end_rank(order);
    }
    return order;
  }

 private:
  int below(int n) { return static_cast<int>(rng_.below(static_cast<std::uint64_t>(n))); }
  bool cut() const { return s_.output != OutputLayer::last_stage; }

  std::vector<bool>::reference ran(int slot, Kind kind, int mb) {
    return done_[static_cast<std::size_t>((slot * m_ + mb) * kKinds + static_cast<int>(kind))];
  }
  std::vector<bool>::reference shared(int rank, Kind kind, int mb) {
    return shares_[static_cast<std::size_t>((rank * m_ + mb) * kKinds + static_cast<int>(kind))];
  }
  bool all_shared(Kind kind, int mb) {
    for (int rank = 0; rank < s_.pp; ++rank) {
      if (!shared(rank, kind, mb)) return false;
    }
    return true;
  }
  bool gradient_ran(int slot, int mb) {
    return ran(slot, Kind::backward, mb) || ran(slot, Kind::input_gradient, mb);
  }
  int last_slot() const { return slot_at(s_, freedom_.placement, stages_ - 1); }
  // The output layer's shares follow one another in one order on all ranks.
  int turn() {
    int mb = 0;
    while (mb < m_ && all_shared(Kind::output_gradient, mb)) ++mb;
    return mb;
  }

  bool may(int rank, const Action& a) {
    const int slot = slot_of(s_, rank, a.chunk);
    const int before = order_->before[static_cast<std::size_t>(slot)];
    const int after = order_->after[static_cast<std::size_t>(slot)];
    const int mb = a.micro_batch;
    switch (a.kind) {
      case Kind::forward:
        return !ran(slot, a.kind, mb) && (before < 0 || ran(before, a.kind, mb));
      case Kind::backward:
      case Kind::input_gradient:
        if (gradient_ran(slot, mb) || !ran(slot, Kind::forward, mb)) return false;
        if (after >= 0) return gradient_ran(after, mb);
        if (!cut()) return true;
        return all_shared(
            s_.output == OutputLayer::one_barrier ? Kind::output : Kind::output_gradient, mb);
      case Kind::weight_gradient:
        return ran(slot, Kind::input_gradient, mb) && !ran(slot, a.kind, mb);
      case Kind::output:
        return !shared(rank, a.kind, mb) && ran(last_slot(), Kind::forward, mb);
      case Kind::output_gradient:
        return !shared(rank, a.kind, mb) && shared(rank, Kind::output, mb) &&
               all_shared(Kind::output, mb) &&
               (s_.output != OutputLayer::interlaced || mb == turn());
    }
    return false;
  }

  std::vector<Action> choices(int rank) {
    std::vector<Action> out;
    const auto offer = [&](Action a) {
      if (may(rank, a)) out.push_back(a);
    };
    for (int mb = 0; mb < m_; ++mb) {
      for (int chunk = 0; chunk < s_.chunks; ++chunk) {
        const auto c = static_cast<std::int16_t>(chunk);
        offer({mb, c, Kind::forward});
        offer({mb, c, Kind::weight_gradient});
        const bool split = freedom_.split && below(3) > 0;
        offer({mb, c, split ? Kind::input_gradient : Kind::backward});
      }
      if (!cut()) continue;
      offer({mb, 0, Kind::output});
      offer({mb, 0, Kind::output_gradient});
    }
    return out;
  }

  bool step(int rank) {
    int& stands = stands_[static_cast<std::size_t>(rank)];
    if (stands >= 0 && !all_shared(Kind::output_gradient, stands)) return false;
    stands = -1;
    const std::vector<Action> some = choices(rank);
    if (some.empty()) return false;
    Action a = some[rng_.below(some.size())];
    if (a.kind == Kind::forward && freedom_.pairs) {
      for (const Action& b : some) {
        if (b.kind != Kind::backward && b.kind != Kind::input_gradient) continue;
        a.with_next = true;
        take(rank, a);
        take(rank, b);
        return true;
      }
    }
    take(rank, a);
    if (a.kind == Kind::output_gradient && s_.output == OutputLayer::interlaced) {
      stands = a.micro_batch;
    }
    return true;
  }

  void take(int rank, const Action& a) {
    if (a.kind == Kind::output || a.kind == Kind::output_gradient) {
      shared(rank, a.kind, a.micro_batch) = true;
    } else {
      ran(slot_of(s_, rank, a.chunk), a.kind, a.micro_batch) = true;
    }
    ranks_[static_cast<std::size_t>(rank)].push_back(a);
  }

  Shape s_;
  Freedom freedom_;
  Rng& rng_;
  int m_;
  int stages_;
  std::vector<bool> done_;    // by slot, micro-batch, kind
  std::vector<bool> shares_;  // by rank, micro-batch, kind
  std::vector<int> stands_;  // interlaced: the micro-batch whose last collective the rank waits for
  std::vector<std::vector<Action>> ranks_;
  Order* order_ = nullptr;
};

inline Order random_order(const Shape& s, const Freedom& freedom, Rng& rng) {
  return RandomOrder(s, freedom, rng)();
}

// Calls visit(order, shape) for random orders of every placement and every place of the output
// layer.
template <class Visit>
void for_random_orders(Rng& rng, int each, Visit visit) {
  for (const Placement placement : {Placement::looped, Placement::vee, Placement::bidirectional}) {
    for (const OutputLayer output : kOutputLayers) {
      const bool both_ways = placement == Placement::bidirectional;
      if (both_ways && output != OutputLayer::last_stage) continue;
      for (int i = 0; i < each; ++i) {
        Shape s{1 + static_cast<int>(rng.below(5)), 1 + static_cast<int>(rng.below(3)),
                1 + static_cast<int>(rng.below(7)), 0, output};
        if (placement != Placement::looped) s.chunks = 2;
        if (both_ways) s.micro_batches *= 2;
        const Freedom freedom{placement, rng.below(2) == 0, rng.below(2) == 0};
        visit(random_order(s, freedom, rng));
      }
    }
  }
}

}  // namespace eratos::schedule::testing
