// Expected distinct places against every choice that a router could make.
#include "eratos/ops/fanout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <functional>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "eratos/base/rng.h"

namespace eratos::ops {
namespace {

// Mean over every choice of groups, and every choice of k/M experts in each of them.
double counted(const Fanout& f, int places) {
  const int size = f.experts / f.groups;
  double sum = 0;
  double choices = 0;
  for (std::uint32_t groups = 0; groups < (1u << f.groups); ++groups) {
    if (std::popcount(groups) != f.chosen_groups) continue;
    for (std::uint32_t chosen = 0; chosen < (1u << f.experts); ++chosen) {
      if (std::popcount(chosen) != f.chosen) continue;
      std::uint32_t visited = 0;
      for (int e = 0; e < f.experts; ++e) {
        if ((chosen >> e & 1u) != 0) visited |= 1u << (e * places / f.experts);
      }
      bool even = true;
      for (int g = 0; g < f.groups; ++g) {
        const int here = std::popcount(chosen >> (g * size) & ((1u << size) - 1));
        even = even && here == ((groups >> g & 1u) != 0 ? f.chosen / f.chosen_groups : 0);
      }
      if (!even) continue;
      sum += std::popcount(visited);
      choices += 1;
    }
  }
  return sum / choices;
}

TEST(Fanout, IsTheMeanOverEveryChoice) {
  for (const Fanout& f : {Fanout{12, 3}, Fanout{12, 4, 4, 2}, Fanout{12, 4, 3, 2},
                          Fanout{12, 3, 6, 3}, Fanout{8, 1}, Fanout{8, 8}, Fanout{8, 2, 4, 1}}) {
    for (const int places : {1, 2, 4, f.experts}) {
      const int held = f.experts / places;
      const int size = f.experts / f.groups;
      if (held < size && size % held != 0) continue;  // some would hold parts of two groups
      EXPECT_NEAR(distinct_places(f, places), counted(f, places), 1e-12)
          << f.experts << " experts, k " << f.chosen << ", " << f.chosen_groups << " of "
          << f.groups << " groups, " << places << " places";
    }
  }
}

// The scores choose the groups and the experts, as a router does; the even choice is within 4 %.
TEST(Fanout, GroupsAsScoresChooseThem) {
  constexpr int kExperts = 256, kGroups = 8, kChosenGroups = 4, kTopK = 8, kTokens = 1000;
  constexpr int kSize = kExperts / kGroups;
  Rng rng(7);
  for (const int places : {4, 8, 64}) {
    double sum = 0;
    for (int t = 0; t < kTokens; ++t) {
      std::array<double, kExperts> score{};
      for (double& s : score) s = rng.uniform();
      std::array<std::pair<double, int>, kGroups> group{};
      for (int g = 0; g < kGroups; ++g) {
        std::array<double, kSize> own{};
        std::copy_n(score.begin() + g * kSize, kSize, own.begin());
        std::partial_sort(own.begin(), own.begin() + kTopK / kChosenGroups, own.end(),
                          std::greater<>());
        group[static_cast<std::size_t>(g)] = {
            std::accumulate(own.begin(), own.begin() + kTopK / kChosenGroups, 0.0), g};
      }
      std::sort(group.begin(), group.end(), std::greater<>());
      std::vector<std::pair<double, int>> open;
      for (int i = 0; i < kChosenGroups; ++i) {
        const int g = group[static_cast<std::size_t>(i)].second;
        for (int e = g * kSize; e < (g + 1) * kSize; ++e) {
          open.emplace_back(score[static_cast<std::size_t>(e)], e);
        }
      }
      std::sort(open.begin(), open.end(), std::greater<>());
      std::set<int> visited;
      for (int i = 0; i < kTopK; ++i) {
        visited.insert(open[static_cast<std::size_t>(i)].second * places / kExperts);
      }
      sum += static_cast<double>(visited.size());
    }
    const double seen = sum / kTokens;
    EXPECT_NEAR(distinct_places({kExperts, kTopK, kGroups, kChosenGroups}, places), seen,
                0.04 * seen);
  }
}

// The worked example of the header: DeepSeek-V3 on 8 nodes of 8.
TEST(Fanout, DeepSeekOnEightNodes) {
  EXPECT_NEAR(distinct_places({256, 8}, 8), 5.295, 5e-4);
  EXPECT_NEAR(distinct_places({256, 8, 8, 4}, 8), 4, 1e-12);
  EXPECT_NEAR(distinct_places({256, 8}, 64), 7.676, 5e-4);
  EXPECT_NEAR(distinct_places({256, 8, 8, 4}, 64), 7.613, 5e-4);
}

}  // namespace
}  // namespace eratos::ops
