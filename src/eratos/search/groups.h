// Prefixes behind a stem, group by group: those of a group differ in the optimizer's offload alone.
//
// A stem is what is set before pp, a prefix a candidate without its overlap switches. What is
// walked here depends on the stem alone, so that it may be walked before it is known whether the
// stem will matter, and on another thread than the one that asks.
//
// Worked example: behind a stem of pp 1, 2 and sharding zero1 alone, with offload 0, 100, stand two
// groups of two prefixes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "eratos/search/space.h"
#include "eratos/search/walk.h"

namespace eratos::search {

struct Prefix {
  Candidate at;             // its switches as in TailCount::last
  std::uint32_t legal = 0;  // candidates behind it
};

// Some of a stem's groups that have a legal candidate.
struct Groups {
  std::vector<Prefix> prefixes;   // of all groups; the last of a group keeps least on the device
  std::vector<std::size_t> ends;  // of each group
  Removed removed;                // by the rules on the way
  bool last = false;              // the stem has no more

  std::span<const Prefix> group(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends[i - 1];
    return std::span<const Prefix>(prefixes).subspan(begin, ends[i] - begin);
  }
};

class GroupWalk {
 public:
  GroupWalk(const Space& space, const RulesByAxis& rules);

  void begin(const Candidate& stem);
  // The next groups of the stem, so many at most.
  Groups next(std::size_t most);
  std::uint64_t settings() const { return cursor_.settings; }

 private:
  Cursor cursor_;
  Walk groups_;
  Walk siblings_;
  Tails tails_;
};

}  // namespace eratos::search
