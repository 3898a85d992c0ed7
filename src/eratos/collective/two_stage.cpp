// All-to-all of tokens that cross the network once for each node, however many of their experts the
// node holds: to the rank of the same rail there, which forwards them over the scale-up links to
// every rank that holds one of them. Back the same way mirrored: copies are added up inside the
// node, and the sum crosses. Both stages run in chunks at once, so the slower one counts, and
// forwarding starts when the first chunk has crossed.
//
// Letters: N nodes of n ranks, D and R the distinct nodes and ranks of a token (ops/fanout.h), b
// bytes of a rank: its tokens once for each of their ranks. b D/R (N-1)/N cross its card, b (n-1)/n
// its scale-up link. Worked example: 4096 tokens of 14,336 bytes, 256 experts in 8 groups of which
// 4 are chosen, k 8, 64 ranks on 8 nodes of H100: R 7.61, D 4, b 447 MB; 206 MB cross at 47.5 GB/s,
// 391 MB go on at 347 GB/s. The network counts: 4.3 ms and its fixed costs. Copy by copy, 411 MB
// would cross: 8.7 ms. As DeepEP counts (D tokens b/R a second, the own node's among them) 54 GB/s;
// its V1 prints 51.
// Source: arXiv 2412.19437, section 3.2.2; deepseek-ai/DeepEP@0297fc8 README.md and its page on V1;
// NVIDIA developer blog, "Optimizing Communication for Mixture-of-Experts Training with Hybrid
// Expert Parallel". Not modelled: few multiprocessors, with which a kernel that forwards does not
// fill its links.
#include <algorithm>
#include <cmath>

#include "eratos/collective/algorithms.h"

namespace eratos::collective {

double two_stage_time(double bytes, const ops::Fanout& fanout, const GroupPlacement& placement,
                      const CollectiveContext& context) {
  const Spread spread = spread_of(placement);
  const double nodes = spread.domains[0];
  const double to_nodes =
      bytes * ops::distinct_places(fanout, nodes) / ops::distinct_places(fanout, spread.size);

  GroupPlacement domain;
  domain.size = static_cast<int>(std::lround(spread.ranks[0]));
  domain.members.push_back(domain.size);
  const double inside = domain.size > 1 ? pairwise_time(bytes, domain, context) : 0;

  double latency = 0;
  double transfer = 0;
  double remote = 0;
  for (std::size_t i = 1; i < spread.domains.size(); ++i) {
    if (spread.domains[i - 1] <= 1) break;
    const double outside = (spread.size - spread.ranks[i - 1]) / spread.size;
    remote = to_nodes * outside;
    latency = std::max(latency, context.levels[i].latency + nodes * outside * kNetworkPeer);
    transfer = std::max(transfer,
                        remote * context.levels[i].seconds_per_byte * decay_of(context, spread, i));
  }
  return context.network_alpha + latency + std::max(inside, transfer) +
         context.network_gamma * std::sqrt(remote);
}

}  // namespace eratos::collective
