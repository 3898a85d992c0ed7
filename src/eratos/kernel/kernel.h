// How long one op keeps one accelerator busy.
//
// Pure and without allocation; seconds of device time, host launch not included (that is a stream
// of its own, see framework::HostCosts). Collectives are priced by room collective.
// lower_bound is cheaper than time_of and never above it: a screen may discard by it.
//
// Worked example: the gate-and-up product of Llama 3.1 8B at tp 2, 8192 tokens
// (m 8192, n 14336, k 4096, 962 GFLOP) on an H100 alone takes 1.22 ms, 789 TFLOP/s.
#pragma once

#include "eratos/base/units.h"
#include "eratos/kernel/context.h"
#include "eratos/ops/ops.h"

namespace eratos::kernel {

// Tile-wave form: the least over tiles and K-splits of
//   t0 + max(waves * (tile time + tau), bytes / (e_m BW)) + [split] (8 s m n / BW + t_k).
// Grouped products: tiles of every group are cut separately (a group of few rows pays for a whole
// tile), every group's B is read, one launch; experts' products take at least the framework's time a
// group.
// Source: tiles and waves, NVIDIA Matrix Multiplication Background guide (DU-09799) sections 3
// and 4; constants from the calibration.
Seconds time_of(const ops::Gemm& gemm, const KernelContext& context);
Seconds lower_bound(const ops::Gemm& gemm, const KernelContext& context);

// flops * (1 + s0 / seq_kv) * (1 + fill * units / blocks) / rate, by pass, mask and head dim. GQA
// changes bytes, not FLOPs, and costs nothing here.
// A window of w keys: the keys a query sees, and s0 and half a block (128) of fixed work beside them,
// flops * (1 + (s0 + 128) / (2 keys)): w 128 of 4096 at s0 300 is 1/6.4 of the full causal kernel.
// Learned sinks multiply by the framework's factor.
// Assumes: attention is compute-bound (true from a few hundred tokens on).
Seconds time_of(const ops::Attention& attention, const KernelContext& context);
Seconds lower_bound(const ops::Attention& attention, const KernelContext& context);

// launch + traffic / (share of the class * BW).
Seconds time_of(const ops::Elementwise& elementwise, const KernelContext& context);
Seconds lower_bound(const ops::Elementwise& elementwise, const KernelContext& context);

}  // namespace eratos::kernel
