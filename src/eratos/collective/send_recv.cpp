// One rank to its neighbour in the group (pipeline stages, ring attention): the link of the
// outermost level that any neighbours cross, because the slowest pair sets the pace.
#include <algorithm>
#include <cmath>

#include "eratos/collective/algorithms.h"

namespace eratos::collective {

double send_recv_time(double bytes, const GroupPlacement& placement,
                      const CollectiveContext& context) {
  constexpr ops::CollectiveKind kKind = ops::CollectiveKind::send_recv;
  const Spread spread = spread_of(placement);
  if (spread.one_domain) {
    const CurveRows& rows = rows_of(context, kKind, Algorithm::direct);
    if (!rows.empty()) {
      return fitted_time(context, kKind, Algorithm::direct, rows[0].gpus, 1, bytes, 0, 0);
    }
    const double links = context.direct_links ? std::max(1.0, context.mesh_size - 1.0) : 1.0;
    return 2.0 * context.levels[0].latency + bytes * context.levels[0].seconds_per_byte * links;
  }
  std::size_t level = 1;
  while (level + 1 < spread.domains.size() && spread.domains[level] > 1) ++level;
  return context.network_alpha + context.levels[level].latency +
         bytes * context.levels[level].seconds_per_byte + context.network_gamma * std::sqrt(bytes);
}

}  // namespace eratos::collective
