// Schedules to draw, with what they point to kept alive beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eratos/report/timeline.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::report {

enum class Times { equal, uneven };

// equal: F = B = W = 10 us, BW = 20 us, 12 bytes held a micro-batch of a rank, free sends.
// uneven: odd numbers of picoseconds, different on every chunk, 3 us and more a send.
struct Drawn {
  schedule::Order order;
  std::vector<schedule::ChunkCost> chunks;
  std::vector<schedule::LinkCost> links;
  std::vector<schedule::Interval> intervals;
  schedule::Timing timing;
  Timeline timeline;

  Drawn(const std::string& name, int p, int v, int m, Times times = Times::equal) {
    const schedule::Shape shape{.pp = p, .chunks = v, .micro_batches = m};
    constexpr Picoseconds kUnit = 10'000'000;
    for (int i = 0; i < p * v; ++i) {
      const Picoseconds odd = times == Times::equal ? 0 : 123'456'789 * (i % 5) + 613;
      chunks.push_back({.forward = kUnit + odd,
                        .backward = 2 * kUnit + 2 * odd,
                        .held = 12 / v,
                        .input_gradient = kUnit + 2 * odd,
                        .weight_gradient = kUnit + odd,
                        .kept = 6 / v,
                        .forward_hideable = 2'000'000,
                        .backward_hideable = 3'000'000});
      if (times == Times::uneven) links.push_back({3'000'001 + odd, 4'000'003 + odd});
    }
    timeline.costs.chunks = chunks;
    timeline.costs.links = links;
    const schedule::Schedule* found = schedule::find(name);
    EXPECT_NE(found, nullptr) << name;
    if (found == nullptr) return;
    EXPECT_TRUE(make_order(*found, shape, timeline.costs, order).has_value()) << name;
    schedule::Workspace w;
    EXPECT_TRUE(simulate(order, timeline.costs, w, timing, &intervals).has_value()) << name;
    timeline.order = &order;
    timeline.intervals = intervals;
    timeline.title = name;
    timeline.version = "0";
  }
  Drawn(const Drawn&) = delete;
  Drawn& operator=(const Drawn&) = delete;
};

struct Case {
  const char* name;
  int p, v, m;
};
// One of each kind: whole and split backwards, chunks that loop, turn back, and run both ways,
// pairs.
inline constexpr Case kTimelineCases[] = {
    {"1f1b", 4, 1, 12}, {"gpipe", 2, 1, 3},     {"interleaved-1f1b", 4, 2, 12}, {"zb-h1", 4, 1, 8},
    {"zbv", 4, 2, 12},  {"dualpipe", 4, 2, 12}, {"dualpipev", 4, 2, 12},        {"1f1b", 1, 1, 1},
};

}  // namespace eratos::report
