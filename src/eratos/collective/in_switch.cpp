// In-switch reduction (NVLS): the switch adds, each rank sends its data once and receives the sum
// once. All-reduce inside one domain, from the fitted rows; sizes between rows are interpolated,
// larger groups pay no more hops (the switch is one hop away from everyone).
// Source: rows of the calibration; NVIDIA/nccl@5067397 src/graph/tuning.cc (NVLS latency does not
// grow with the group).
#include "eratos/collective/algorithms.h"

namespace eratos::collective {

double in_switch_time(double bytes, const GroupPlacement& placement,
                      const CollectiveContext& context) {
  return fitted_time(context, ops::CollectiveKind::all_reduce, Algorithm::in_switch, placement.size,
                     1, bytes, 0, 0);
}

}  // namespace eratos::collective
