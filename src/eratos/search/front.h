// The configurations that no other beats in both speed and memory.
//
// Memory counts in whole GiB, rounded up: a front of a hundred neighbours that differ by a megabyte
// helps nobody. The front is kept by memory, and its figures fall along it.
//
// Worked example: (60 GiB, 5 us), (70 GiB, 4 us): 65 GiB at 5 us is beaten by the first, 65 GiB at
// 4.5 us stands between them.
#pragma once

#include <cstdint>
#include <vector>

#include "eratos/base/units.h"
#include "eratos/search/method.h"

namespace eratos::search {

std::int64_t whole_gib(Bytes b);

class Front {
 public:
  // Could a candidate of this peak be on the front if it were no slower than `figure`?
  bool open_to(double figure, Bytes device_peak) const;
  // Takes it in where nothing beats or equals it, and drops what it beats.
  void take(const Found& found);

  const std::vector<Found>& points() const { return points_; }

 private:
  std::vector<Found> points_;
};

}  // namespace eratos::search
