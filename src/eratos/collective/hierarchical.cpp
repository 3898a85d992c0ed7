// Inside the domain first, then across: all-reduce is reduce-scatter inside, all-reduce of a g-th
// of the bytes across by every rank with its peers, all-gather inside. Where the network's
// switches add (SHARP), the middle step sends every byte once instead of 2 (N-1)/N times.
// Chunks overlap the all-gather with the network step, not the reduce-scatter: that form meets the
// all-reduces of 64 H100 over 8 x 400 Gb/s with SHARP, 0.5 to 8 GiB, within 6 %.
// Source: NVIDIA/nccl@5067397 src/graph/tuning.cc (CollNet: intra-node reduction, one network
// round trip); coreweave/nccl-tests (356 to 387 GB/s).
#include <algorithm>
#include <cmath>

#include "eratos/collective/algorithms.h"

namespace eratos::collective {

namespace {

double inside(ops::CollectiveKind kind, double bytes, const GroupPlacement& placement,
              const CollectiveContext& context) {
  GroupPlacement domain;
  domain.size = placement.members[0];
  domain.members.push_back(domain.size);
  if (domain.size < 2) return 0;
  return context.direct_links ? mesh_time(kind, bytes, domain, context)
                              : ring_time(kind, bytes, domain, context);
}

// One all-reduce in the network's switches over the leaders.
double in_network(double bytes, const Spread& spread, const CollectiveContext& context) {
  double latency = 0;
  double slowest = 0;
  for (std::size_t i = 1; i < spread.domains.size(); ++i) {
    if (spread.domains[i - 1] <= 1) break;
    latency += context.levels[i].latency;
    slowest = std::max(slowest, context.levels[i].seconds_per_byte * decay_of(context, spread, i));
  }
  return context.network_alpha + 2.0 * latency + bytes * slowest +
         context.network_gamma * std::sqrt(bytes);
}

}  // namespace

double hierarchical_time(ops::CollectiveKind kind, double bytes, const GroupPlacement& placement,
                         const CollectiveContext& context) {
  const GroupPlacement leaders = leaders_of(placement);
  const double share = bytes / std::max(1, placement.members[0]);
  if (kind != ops::CollectiveKind::all_reduce) {
    return ring_time(kind, share, leaders, context) + inside(kind, bytes, placement, context);
  }

  bool switches_add = true;
  for (std::size_t i = 1; i < placement.members.size(); ++i) {
    if (placement.members[i - 1] >= placement.size) break;
    switches_add = switches_add && context.levels[i].in_switch_reduction;
  }
  const double across = switches_add ? in_network(share, spread_of(placement), context)
                                     : std::min(ring_time(kind, share, leaders, context),
                                                tree_time(share, leaders, context));
  return inside(ops::CollectiveKind::reduce_scatter, bytes, placement, context) +
         std::max(across, inside(ops::CollectiveKind::all_gather, bytes, placement, context));
}

}  // namespace eratos::collective
