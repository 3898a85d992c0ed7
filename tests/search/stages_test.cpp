// Deals of layers to stages: by hand, and against every deal simulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/base/units.h"
#include "eratos/projection/ranks.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"
#include "eratos/search/stages.h"

namespace eratos::search {
namespace {

using projection::RankCost;
using Costs = std::vector<const RankCost*>;

// A pipeline whose ranks' costs are given, simulated by the plain loop.
struct Pipeline {
  schedule::Order order;
  std::vector<schedule::LinkCost> links;
  double host_a_tensor = 0;

  Pipeline(const std::string& algorithm, int ranks, int micro_batches,
           std::vector<schedule::LinkCost> transfers)
      : links(std::move(transfers)) {
    links.resize(static_cast<std::size_t>(ranks));
    const auto made =
        schedule::make_order(algorithm, {.pp = ranks, .micro_batches = micro_batches}, order);
    EXPECT_TRUE(made.has_value());
  }

  double step(std::span<const RankCost* const> ranks) const {
    std::vector<schedule::ChunkCost> chunks;
    for (const RankCost* r : ranks) {
      chunks.push_back({.forward = r->forward, .backward = r->backward});
    }
    schedule::Workspace workspace;
    schedule::Timing timing;
    const auto done = schedule::simulate(
        order, {.chunks = chunks, .links = links, .sends = schedule::Sends::blocking}, workspace,
        timing);
    EXPECT_TRUE(done.has_value());
    double end = 0;
    double optimizer = 0;
    double tensors = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      end = std::max(end, to_seconds(timing.ranks[r].last_end).value + ranks[r]->exposed);
      optimizer = std::max(optimizer, ranks[r]->optimizer);
      tensors = std::max(tensors, ranks[r]->tensors);
    }
    return end + optimizer + host_a_tensor * tensors;
  }

  StageModel model() const {
    return {[this](std::span<const RankCost* const> r) { return step(r); },
            [this](double tensors) { return host_a_tensor * tensors; }};
  }
};

struct Table {
  StageTable table;
  std::vector<RankChoices> choices;

  Table(int ranks, int layers) : table(ranks, layers) {
    choices.resize(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(layers + 1) *
                   static_cast<std::size_t>(layers + 1));
  }
  RankChoices& of(int rank, int first, int count) {
    const int n = table.layers() + 1;
    RankChoices& out = choices[static_cast<std::size_t>((rank * n + first) * n + count)];
    table.choices(rank, first, count) = &out;
    return out;
  }
};

std::vector<int> counts_of(const StageSearch& search) {
  std::vector<int> out;
  for (const StageSearch::Dealt& d : search.best()) out.push_back(d.layers);
  return out;
}

// The header's example: seconds as picoseconds, an output layer as large as one layer.
TEST(Stages, TheHeadersExample) {
  constexpr Picoseconds kUnit = 1'000'000'000'000;
  const Pipeline two("1f1b", 2, 4, {});
  Table t(2, 4);
  for (int n = 1; n < 4; ++n) {
    t.of(0, 0, n) = {{.forward = n * kUnit, .backward = 2 * n * kUnit}};
    t.of(1, 4 - n, n) = {{.forward = (n + 1) * kUnit, .backward = 2 * (n + 1) * kUnit}};
  }
  const auto step = [&](int first) {
    const Costs costs{&t.of(0, 0, first)[0], &t.of(1, first, 4 - first)[0]};
    return two.step(costs);
  };
  EXPECT_EQ(step(2), 42);
  EXPECT_EQ(step(3), 39);
  EXPECT_EQ(step(1), 51);
  StageSearch search(pace_of(two.order, two.links), t.table, two.model());
  EXPECT_LE(search.lower_bound(), 39);
  while (search.advance(1)) {
  }
  EXPECT_EQ(search.best_step(), 39);
  EXPECT_EQ(search.lower_bound(), 39);
  EXPECT_EQ(counts_of(search), (std::vector<int>{3, 1}));
  // Nothing is shorter than what is known already.
  StageSearch none(pace_of(two.order, two.links), t.table, two.model(), 39);
  while (none.advance(1)) {
  }
  EXPECT_TRUE(none.best().empty());
  EXPECT_EQ(none.lower_bound(), 39);
}

// What a rank's order says of it: 1F1B, p 3, m 4, sends of 5 down and 7 up. Rank 1 runs
// F F B F B F B B: F to F sends 5 while 5 arrives; F to B sends 5, 7 arrives; B to F sends 7, 5
// arrives; B to B sends 7, 7 arrives.
TEST(Stages, PaceOfTheMiddleRank) {
  const Pipeline three("1f1b", 3, 4, {{5, 0}, {5, 7}, {0, 7}});
  const Pace pace = pace_of(three.order, three.links);
  EXPECT_EQ(pace.micro_batches, 4);
  EXPECT_EQ(pace.ranks[1].before_backward, 2);
  EXPECT_EQ(pace.ranks[1].down, 5);
  EXPECT_EQ(pace.ranks[1].up, 7);
  EXPECT_EQ(pace.ranks[1].gaps, 5 + 7 + 7 + 7 + 7 + 7 + 7);
  EXPECT_EQ(pace.ranks[1].gaps_behind, 5 * 7);
  EXPECT_EQ(pace.ranks[0].before_backward, 3);
  EXPECT_EQ(pace.ranks[2].before_backward, 1);
}

// Random costs with no pattern at all, several choices a run of layers, some runs missing.
TEST(Stages, EqualBruteForceOverEveryDeal) {
  Rng rng(17);
  int found = 0;
  std::uint64_t simulated = 0;
  std::uint64_t all = 0;
  for (int round = 0; round < 400; ++round) {
    const int ranks = 1 + static_cast<int>(rng.below(4));
    const int layers = ranks + static_cast<int>(rng.below(5));
    const int micro_batches = 1 + static_cast<int>(rng.below(9));
    std::vector<schedule::LinkCost> links;
    for (int r = 0; r < ranks; ++r) {
      links.push_back({static_cast<Picoseconds>(rng.below(30)), static_cast<Picoseconds>(rng.below(30))});
    }
    Pipeline pipeline(ranks == 1 ? "none" : rng.below(4) == 0 ? "gpipe" : "1f1b", ranks,
                      micro_batches, std::move(links));
    pipeline.host_a_tensor = 1e-12;
    Table t(ranks, layers);
    for (int r = 0; r < ranks; ++r) {
      for (int first = 0; first <= layers; ++first) {
        for (int n = 0; first + n <= layers; ++n) {
          RankChoices& choices = t.of(r, first, n);
          const std::size_t count = rng.below(10) == 0 ? 0 : 1 + rng.below(2);
          for (std::size_t i = 0; i < count; ++i) {
            RankCost c;
            c.forward = static_cast<Picoseconds>(1 + 60 * n + static_cast<int>(rng.below(100)));
            c.backward = static_cast<Picoseconds>(1 + 120 * n + static_cast<int>(rng.below(200)));
            c.exposed = 1e-12 * static_cast<double>(rng.below(60));
            c.optimizer = 1e-12 * static_cast<double>(rng.below(60) + 10 * static_cast<unsigned>(n));
            c.tensors = static_cast<double>(rng.below(40));
            choices.push_back(c);
          }
        }
      }
    }
    double best = StageSearch::kNever;
    Costs costs(static_cast<std::size_t>(ranks));
    const auto visit = [&](auto self, int rank, int first) -> void {
      if (rank == ranks) {
        if (first != layers) return;
        ++all;
        best = std::min(best, pipeline.step(costs));
        return;
      }
      for (int n = 0; first + n <= layers; ++n) {
        for (const RankCost& c : t.of(rank, first, n)) {
          costs[static_cast<std::size_t>(rank)] = &c;
          self(self, rank + 1, first + n);
        }
      }
    };
    visit(visit, 0, 0);
    StageSearch search(pace_of(pipeline.order, pipeline.links), t.table, pipeline.model());
    if (best < StageSearch::kNever) {
      ASSERT_LE(search.lower_bound(), best * (1 + 1e-11));
    }
    double bound = 0;
    while (search.advance(1 + rng.below(50))) {
      ASSERT_GE(search.lower_bound(), bound);
      bound = search.lower_bound();
    }
    ASSERT_EQ(search.best().empty(), best == StageSearch::kNever);
    if (search.best().empty()) continue;
    ++found;
    ASSERT_NEAR(search.best_step() / best, 1, 1e-11) << ranks << " ranks, " << layers << " layers";
    simulated += search.simulated();
  }
  EXPECT_GT(found, 350);
  // Bounds that ruled nothing out would prove the same.
  EXPECT_LT(simulated, all / 5);
}

}  // namespace
}  // namespace eratos::search
