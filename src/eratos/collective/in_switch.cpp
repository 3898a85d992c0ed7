// In-switch reduction (NVLS): the switch adds, each rank sends its data once and receives the sum
// once. All-reduce inside one domain, from the fitted rows; sizes between rows are interpolated,
// larger groups pay no more hops (the switch is one hop away from everyone).
// Source: rows of the calibration; NVIDIA/nccl@5067397 src/graph/tuning.cc (NVLS latency does not
// grow with the group).
#include "eratos/collective/algorithms.h"

namespace eratos::collective {

double in_switch_time(double bytes, const GroupPlacement& placement,
                      const CollectiveContext& context) {
  const double n = placement.size;
  const CurveRows& rows = rows_of(context, ops::CollectiveKind::all_reduce, Algorithm::in_switch);
  return in_domain_time(curve_at(rows, n, 0, 0), bus_factor(ops::CollectiveKind::all_reduce, n),
                        bytes);
}

}  // namespace eratos::collective
