// Shapes and seeded costs that the tests of this folder share.
#pragma once

#include <cstdint>
#include <vector>

#include "eratos/base/rng.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule::testing {

struct OwnedCosts {
  std::vector<ChunkCost> chunks;
  std::vector<LinkCost> links;
  Sends sends = Sends::overlapped;

  operator Costs() const { return {chunks, links, sends}; }
};

inline OwnedCosts equal_costs(const Shape& s, Picoseconds f, Picoseconds b, Picoseconds link = 0,
                              Sends sends = Sends::overlapped) {
  OwnedCosts c;
  c.chunks.assign(static_cast<std::size_t>(slot_count(s)), {f, b, 1});
  c.links.assign(static_cast<std::size_t>(slot_count(s)), {link, link});
  c.sends = sends;
  return c;
}

inline OwnedCosts random_costs(const Shape& s, Rng& rng, Sends sends) {
  OwnedCosts c;
  const auto draw = [&](std::uint64_t n) { return static_cast<std::int64_t>(rng.below(n)); };
  const std::uint64_t link = 1 + rng.below(60);
  for (int i = 0; i < slot_count(s); ++i) {
    c.chunks.push_back({1 + draw(50), 1 + draw(100), draw(1000)});
    c.links.push_back({draw(link), draw(link)});
  }
  c.sends = sends;
  return c;
}

// Calls visit(schedule, shape) for every legal shape with p <= 4, v <= 2, m <= 8 and, where a
// schedule has groups, every legal group size up to 9.
template <class Visit>
void for_every_small_case(Visit visit) {
  for (const Schedule* schedule : kSchedules) {
    for (int p = 1; p <= 4; ++p) {
      for (int v = 1; v <= 2; ++v) {
        for (int m = 1; m <= 8; ++m) {
          for (int group = 0; group <= (v > 1 ? 9 : 0); ++group) {
            const Shape s{p, v, m, group};
            if (!refusal(*schedule, s)) visit(*schedule, s);
          }
        }
      }
    }
  }
}

}  // namespace eratos::schedule::testing
