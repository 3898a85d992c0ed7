#include "eratos/lower/passes.h"

namespace eratos::lower {

void apply_offload(ops::Program& p, const job::ModuleSet& modules) {
  Bytes bytes;
  for (ops::Tensor& t : p.tensors) {
    if (!t.saved || !modules.test(static_cast<std::size_t>(t.module))) continue;
    t.offloaded = true;
    bytes += t.bytes();
  }
  if (bytes.value <= 0) return;
  ops::Op copy;
  copy.module = ops::Module::offload;
  copy.stream = ops::Stream::host;
  copy.kernels = 0;
  copy.work = ops::HostCopy{bytes, 1.0, 0};
  p.forward.push_back(copy);
  copy.pass = ops::Pass::dgrad;
  p.backward.insert(p.backward.begin(), copy);
}

}  // namespace eratos::lower
