// Ring: every rank passes chunks to the next one; n-1 steps for all-gather and reduce-scatter,
// 2(n-1) for all-reduce.
// Inside a domain: the fitted three-term curve. Across domains: every hop costs its link's latency
// (the hops between domains that of the level they cross), and the bytes pass the slowest level.
// Source: NVIDIA/nccl@5067397 src/graph/tuning.cc (ring latency = base + (k - k_N) l + k_N l_N).
#include <cmath>

#include "eratos/collective/algorithms.h"

namespace eratos::collective {

namespace {

// Base latency of NCCL's ring with protocol Simple. Source: src/graph/tuning.cc, baseLat.
constexpr double kBase = 8.4e-6;

}  // namespace

double ring_time(ops::CollectiveKind kind, double bytes, const GroupPlacement& placement,
                 const CollectiveContext& context) {
  const Spread spread = spread_of(placement);
  const double factor = bus_factor(kind, spread.size);
  const double rounds = kind == ops::CollectiveKind::all_reduce ? 2.0 : 1.0;

  if (spread.one_domain) {
    const CurveRows& rows = rows_of(context, kind, Algorithm::ring);
    const double latency = context.levels[0].latency;
    if (rows.empty()) {
      return kBase + rounds * (spread.size - 1) * latency +
             factor * bytes * context.levels[0].seconds_per_byte;
    }
    return fitted_time(context, kind, Algorithm::ring, spread.size, 1, bytes, rounds, latency);
  }

  double latency = (spread.size - spread.domains[0]) * context.levels[0].latency;
  double network_bytes = 0;  // of one rank, over the outermost links that the group crosses
  for (std::size_t i = 1; i < spread.domains.size(); ++i) {
    if (spread.domains[i - 1] <= 1) break;
    latency += (spread.domains[i - 1] - spread.domains[i]) * context.levels[i].latency;
    network_bytes = factor * bytes / spread.ranks[i - 1];
  }
  return kBase + context.network_alpha + rounds * latency +
         factor * bytes * spanning_seconds_per_byte(kind, spread, context) +
         context.network_gamma * std::sqrt(network_bytes);
}

}  // namespace eratos::collective
