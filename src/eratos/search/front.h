// The configurations that no other beats in all of two or three figures.
//
// Less is better in each. Memory counts in whole GiB, rounded up: a front of a hundred neighbours
// that differ by a megabyte helps nobody. Points stand in the order of their first figure, then of
// the next ones.
//
// Worked example, (GiB, us): (60, 5), (70, 4): (65, 5) is beaten by the first, (65, 4.5) stands
// between them.
#pragma once

#include <cstdint>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/search/method.h"

namespace eratos::search {

std::int64_t whole_gib(Bytes b);

class Front {
 public:
  // Could a candidate be on the front if none of its figures were below these?
  bool open_to(const Along& least) const;
  // Takes it in where nothing beats or equals it, and drops what it beats.
  void take(const Found& found);

  const std::vector<Found>& points() const { return points_; }

 private:
  std::vector<Found> points_;
};

}  // namespace eratos::search
