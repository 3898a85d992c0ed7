// The shapes that chunked recurrences (state spaces, delta rule) have in common.
//
// Question: which matrix products does one chunk of C positions cost, and how many chunks are
// there? Letters: T tokens of the rank, H heads of the rank, C chunk, T*H/C chunks of all heads
// together. Sequences are cut over context-parallel ranks before and after the recurrence, not
// inside it: the rank trades its piece of every head for all positions of some heads and back,
// which leaves T * H as it was. Source: Megatron-LM core/ssm/mamba_context_parallel.py. Worked
// example: Nemotron-H 8B, 8192 tokens, 128 heads, chunk 256: 4096 chunks; the product of [256 x
// 256] scores with [256 x 64] values of every chunk is 2 * 2^20 * 64 * 256 = 34.4 GFLOP.
#pragma once

#include "eratos/layer/builder.h"

namespace eratos::layer {

struct ScanSizes {
  double rows = 0;   // T * H
  double chunk = 0;  // C, or the sequence where it is shorter
  DType dtype = DType::bf16;

  double chunks() const { return rows / chunk; }
};

ScanSizes scan_sizes(const LayerContext& c, double heads, double chunk);

// [C x k] by [k x n] of every chunk, `times` of them.
ops::Gemm chunk_product(const ScanSizes& size, double n, double k, double times = 1);
// [k x C] by [C x n] of every chunk: what a chunk adds to its state.
ops::Gemm state_product(const ScanSizes& size, double n, double k, double times = 1);

// Heads for positions or back: `elements` of the rank go through an all-to-all; the result is `x`
// itself without context parallelism.
TensorId trade_positions(Builder& b, Pass pass, Module module, const char* name, TensorId x);

}  // namespace eratos::layer
