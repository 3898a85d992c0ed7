#include <algorithm>

#include "eratos/kernel/kernel.h"

namespace eratos::kernel {

namespace {

// Rate at `head_dim` against the rate of the row at `row_dim`: constant from 128 up, falling to
// `at_64` at 64 (fixed work per score weighs more), then in proportion to the dim.
// Source: H100 FA3 503 against 655 TFLOP/s at head dims 64 and 128 (arXiv 2407.08608, fig. 5);
// the part's own factor is in its calibration.
double shape(double head_dim, double at_64) {
  if (head_dim >= 128) return 1;
  if (head_dim >= 64) return at_64 + (1 - at_64) * (head_dim - 64) / 64;
  return at_64 * head_dim / 64;
}

constexpr double kBlock = 128;  // query rows of a thread block; Source: arXiv 2407.08608

// Fixed work of a query, in keys as a causal kernel counts them: s0 / 2 (flops * s0 / seq_kv, with
// half of seq_kv seen). A window adds the keys of the blocks that its far edge cuts, half a block a
// query; the near edge is every causal kernel's, so s0 has it.
// Source: Dao-AILab/flash-attention hopper/block.h (whole blocks between the two edges).
double fixed_share(const ops::Attention& a, double s0) {
  const bool windowed = a.window > 0 && a.window < a.seq_kv;
  if (!windowed) return s0 / a.seq_kv;
  return (s0 + kBlock) / 2 / a.keys();
}

const AttentionPoint* nearest(const AttentionRows& rows, double head_dim) {
  const AttentionPoint* best = nullptr;
  double distance = 1e300;
  for (const AttentionPoint& row : rows) {
    const double d = row.head_dim < head_dim ? head_dim - row.head_dim : row.head_dim - head_dim;
    if (d < distance) {
      distance = d;
      best = &row;
    }
  }
  return best;
}

}  // namespace

Seconds time_of(const ops::Attention& a, const KernelContext& context) {
  const double flops = a.flops().value;
  if (flops <= 0) return Seconds{0};
  const std::size_t pass = a.backward ? 1 : 0;
  const std::size_t mask = a.causal ? 1 : 0;
  const AttentionRows& own = context.attention_fp8[pass][mask];
  const bool own_rows = a.dtype == DType::fp8 && !own.empty();
  const AttentionRows& rows = own_rows ? own : context.attention[pass][mask];
  const AttentionPoint* row = nearest(rows, a.head_dim);
  if (row == nullptr) return Seconds{0};

  double per_flop = row->seconds_per_flop;
  if (!own_rows) per_flop *= context.attention_dtype_factor[static_cast<std::size_t>(a.dtype)];
  if (row->head_dim != a.head_dim) {
    per_flop *= shape(row->head_dim, context.head_dim_64) / shape(a.head_dim, context.head_dim_64);
  }
  if (a.v_head_dim != a.head_dim) per_flop *= context.mla_seconds_factor;
  if (a.sinks) per_flop *= context.sinks_seconds_factor;
  const double blocks = std::max(1.0, a.seq_q * (1.0 / kBlock)) * a.batch * a.heads;
  return Seconds{context.attention_launch +
                 flops * (1 + fixed_share(a, row->s0)) * (1 + row->fill_units / blocks) * per_flop};
}

Seconds lower_bound(const ops::Attention& a, const KernelContext& context) {
  return time_of(a, context);
}

}  // namespace eratos::kernel
