#include "eratos/ops/fanout.h"

#include <algorithm>
#include <cmath>

namespace eratos::ops {

namespace {

// C(n, r).
double ways(int n, int r) {
  if (r < 0 || r > n) return 0;
  double out = 1;
  for (int i = 1; i <= std::min(r, n - r); ++i) out *= static_cast<double>(n + 1 - i) / i;
  return out;
}

// That none of `draws` different ones of `open` is one of `held`: C(open - held, draws) / C(open,
// draws), also between whole numbers of draws.
double none_of(double held, double open, double draws) {
  double out = 1;
  for (double i = 0; i < draws; i += 1) {
    const double one = std::max(0.0, open - held - i) / (open - i);
    out *= draws - i >= 1 ? one : std::pow(one, draws - i);
  }
  return out;
}

}  // namespace

double distinct_places(const Fanout& fanout, double places) {
  if (places <= 1) return 1;
  const int chosen = fanout.chosen_groups;
  const double size = static_cast<double>(fanout.experts) / fanout.groups;
  const double in_group = static_cast<double>(fanout.chosen) / chosen;
  // Groups that lie whole in one place, and the part of one more.
  const double share = fanout.groups / places;
  const int whole = static_cast<int>(std::floor(share + 1e-9));
  const double part = share - whole;
  const int cut = part > 1e-9 ? 1 : 0;
  const int others = fanout.groups - whole - cut;
  double missed = ways(others, chosen);
  if (cut == 1) missed += ways(others, chosen - 1) * none_of(part * size, size, in_group);
  return places * (1 - missed / ways(fanout.groups, chosen));
}

}  // namespace eratos::ops
