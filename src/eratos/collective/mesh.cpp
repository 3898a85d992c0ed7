// Direct links between every pair (xGMI, NVLink without a switch): a group of g uses g-1 of each
// member's links, so bus bandwidth is B1 (g - 1). Two GPUs of an MI300X have one 64 GB/s link.
// Source: MI300X all-reduce 47.7 GB/s for 2 GPUs and 319 for 8 (45.6 a link), ROCm blog "RCCL
// collectives on MI300X".
#include <algorithm>
#include <cmath>

#include "eratos/collective/algorithms.h"

namespace eratos::collective {

double mesh_time(ops::CollectiveKind kind, double bytes, const GroupPlacement& placement,
                 const CollectiveContext& context) {
  const double n = placement.size;
  const double factor = bus_factor(kind, n);
  const CurveRows& rows = rows_of(context, kind, Algorithm::mesh);
  if (rows.empty()) {
    const double whole = context.levels[0].seconds_per_byte;
    const double share = std::min(1.0, (n - 1) / std::max(1.0, context.mesh_size - 1.0));
    // Rows of a switched kin still tell the fixed cost.
    const CurveRow kin = curve_at(rows_of(context, kind, Algorithm::ring), n, 0, 0);
    return std::max(2.0 * context.levels[0].latency, kin.alpha) + factor * bytes * whole / share +
           kin.gamma * std::sqrt(bytes);
  }
  return fitted_time(context, kind, Algorithm::mesh, n, n - 1.0, bytes, 0, 0);
}

}  // namespace eratos::collective
