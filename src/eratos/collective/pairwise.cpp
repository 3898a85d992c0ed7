// All-to-all as n-1 direct exchanges. The share for ranks of the own domain goes over the scale-up
// links, the rest over the own network card; both run at once and the slower one counts.
// Worked example: 2 nodes of 8, b bytes a rank: half stays, b/2 crosses 50 GB/s; bus bandwidth
// (15/16 b / t) approaches 94 GB/s.
// Source: cost of one more peer inside a domain 0.35 us, A100 fits of 2, 4 and 8 GPUs (10.6, 12.1
// and 12.5 us, ai-dynamo/aiconfigurator@095f58a).
#include <algorithm>
#include <cmath>

#include "eratos/collective/algorithms.h"

namespace eratos::collective {

namespace {

constexpr double kDomainPeer = 0.35e-6;

}  // namespace

double pairwise_time(double bytes, const GroupPlacement& placement,
                     const CollectiveContext& context) {
  constexpr ops::CollectiveKind kKind = ops::CollectiveKind::all_to_all;
  const Spread spread = spread_of(placement);
  const double local = spread.ranks[0];
  const double local_bytes = bytes * local / spread.size;

  double inside = 0;
  if (local > 1) {
    if (context.direct_links) {
      GroupPlacement domain;
      domain.size = static_cast<int>(std::lround(local));
      domain.members.push_back(domain.size);
      inside = mesh_time(kKind, local_bytes, domain, context);
    } else if (has_rows(context, kKind, Algorithm::pairwise)) {
      inside =
          fitted_time(context, kKind, Algorithm::pairwise, local, 1, local_bytes, 1.0, kDomainPeer);
    } else {
      inside = 2.0 * context.levels[0].latency + local * kDomainPeer +
               bus_factor(kKind, local) * local_bytes * context.levels[0].seconds_per_byte;
    }
  }
  if (spread.one_domain) return inside;

  double across = 0;
  double peers = 0;
  double remote = 0;
  for (std::size_t i = 1; i < spread.domains.size(); ++i) {
    if (spread.domains[i - 1] <= 1) break;
    remote = bytes * (spread.size - spread.ranks[i - 1]) / spread.size;
    peers = spread.size - spread.ranks[i - 1];
    across = std::max(
        across, context.levels[i].latency + peers * kNetworkPeer +
                    remote * context.levels[i].seconds_per_byte * decay_of(context, spread, i));
  }
  return context.network_alpha + std::max(inside, across) +
         context.network_gamma * std::sqrt(remote);
}

}  // namespace eratos::collective
