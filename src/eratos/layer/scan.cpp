#include "eratos/layer/scan.h"

#include <algorithm>

namespace eratos::layer {

ScanSizes scan_sizes(const LayerContext& c, double heads, double chunk) {
  return {c.tokens() * heads, std::min(chunk, c.sequence), c.activation};
}

ops::Gemm chunk_product(const ScanSizes& size, double n, double k, double times) {
  return {times * size.rows, n, k, times * size.chunks(), size.dtype};
}

ops::Gemm state_product(const ScanSizes& size, double n, double k, double times) {
  return {times * size.chunks() * k, n, size.chunk, times * size.chunks(), size.dtype};
}

TensorId trade_positions(Builder& b, Pass pass, Module module, const char* name, TensorId x) {
  if (b.context().cp <= 1) return x;
  const double elements = b.elements(x);
  const TensorId y = b.tensor(name, elements, module);
  b.collective(pass, module, ops::CollectiveKind::all_to_all, parallel::Axis::cp, elements,
               b.context().activation, {x}, {y});
  return y;
}

}  // namespace eratos::layer
