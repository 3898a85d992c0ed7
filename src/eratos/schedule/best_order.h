// Of several orders of one shape, which is the best that fits the ranks' limits of bytes?
//
// Best: the least Timing::pitch, then the least makespan, then the least bytes on the rank that holds
// most, the first of equals.
// Source: the scheduler of arXiv 2401.10241, section 3.1, judges by the rank that is busy longest,
// from its first start to its last end, as the optimizer step is validated afterwards (its section
// 4).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "eratos/schedule/order.h"
#include "eratos/schedule/simulate.h"

namespace eratos::schedule {

// Most bytes each rank may hold: Costs::limits, and without them room for `each` of the chunk, of
// all ranks, that holds most.
class Limits {
 public:
  Limits(const Costs& costs, std::int64_t each);

  std::int64_t operator[](int rank) const {
    return given_.empty() ? alike_ : given_[static_cast<std::size_t>(rank)];
  }

 private:
  std::span<const std::int64_t> given_;
  std::int64_t alike_ = 0;
};

class BestOrder {
 public:
  // All three are used until the last offer().
  BestOrder(const Costs& costs, const Limits& limits, Order& best)
      : costs_(costs), limits_(limits), best_(best) {}

  // Where the next order goes.
  Order& candidate() { return candidate_; }
  // Looks at candidate(), and takes it if it is better; says whether it fits the limits.
  bool offer();
  // From now on nothing with a longer makespan than the best so far has.
  void ask_no_longer_than_best() { most_ = makespan_; }

 private:
  static constexpr Picoseconds kNone = std::numeric_limits<Picoseconds>::max();

  const Costs& costs_;
  const Limits& limits_;
  Order& best_;
  Order candidate_;
  Workspace workspace_;
  Timing timing_;
  Picoseconds pitch_ = kNone;
  Picoseconds makespan_ = kNone;
  std::int64_t held_ = 0;
  Picoseconds most_ = kNone;
};

}  // namespace eratos::schedule
