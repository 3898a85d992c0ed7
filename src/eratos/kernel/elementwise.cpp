#include "eratos/kernel/kernel.h"

namespace eratos::kernel {

Seconds time_of(const ops::Elementwise& e, const KernelContext& context) {
  if (e.traffic.value <= 0) return Seconds{0};
  const double per_byte = context.elementwise_seconds_per_byte[static_cast<std::size_t>(e.kind)];
  return Seconds{e.launches * context.elementwise_launch + e.traffic.value * per_byte};
}

Seconds lower_bound(const ops::Elementwise& e, const KernelContext& context) {
  return time_of(e, context);
}

}  // namespace eratos::kernel
