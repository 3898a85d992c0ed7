// Double binary tree, all-reduce across domains only: a chain inside each domain, a tree over the
// domains, up and down; latency grows with the logarithm of the domains.
// The better of NCCL's protocols Simple and LL: LL's hops are short, its bandwidth is a quarter.
// Source: NVIDIA/nccl@5067397 src/graph/tuning.cc: latency base + 2 [(g-1) l + log2(N) l_N], tree
// bandwidth 0.92 of the ring's, tree LL 1/3.8; hop latencies LL against Simple 0.6/4.0 us (NVLink)
// and 5/14 us (network).
#include <algorithm>
#include <cmath>

#include "eratos/collective/algorithms.h"

namespace eratos::collective {

namespace {

constexpr double kBaseSimple = 8.4e-6;
constexpr double kBaseLl = 6.8e-6;
constexpr double kBandwidth = 0.92;
constexpr double kBandwidthLl = 0.92 / 3.8;
constexpr double kInnerHopLl = 0.6 / 4.0;
constexpr double kNetworkHopLl = 5.0 / 14.0;

}  // namespace

double tree_time(double bytes, const GroupPlacement& placement, const CollectiveContext& context) {
  const Spread spread = spread_of(placement);
  const double inner = 2.0 * std::max(0.0, spread.ranks[0] - 1) * context.levels[0].latency;
  double outer = 0;
  double network_bytes = 0;
  const double factor = bus_factor(ops::CollectiveKind::all_reduce, spread.size);
  for (std::size_t i = 1; i < spread.domains.size(); ++i) {
    if (spread.domains[i - 1] <= 1) break;
    outer += 2.0 * std::log2(spread.domains[i - 1] / spread.domains[i]) * context.levels[i].latency;
    network_bytes = factor * bytes / spread.ranks[i - 1];
  }
  const double transfer =
      factor * bytes * spanning_seconds_per_byte(ops::CollectiveKind::all_reduce, spread, context);
  const double simple = kBaseSimple + inner + outer + transfer / kBandwidth +
                        context.network_gamma * std::sqrt(network_bytes);
  const double ll = kBaseLl + inner * kInnerHopLl + outer * kNetworkHopLl + transfer / kBandwidthLl;
  return context.network_alpha + std::min(simple, ll);
}

}  // namespace eratos::collective
