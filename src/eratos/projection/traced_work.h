// The sizes of a host op's work as a trace records them, and whether they are those of an op.
//
// Letters: m n k of C[m,n] = A[m,k] B[k,n]; b sequences of s tokens, h heads of width d.
// Worked example: aten::addmm of [1024], [8192, 4096] and [4096, 1024] is m 8192, n 1024, k 4096.
#pragma once

#include <optional>
#include <string>

#include "eratos/projection/step_trace.h"

namespace eratos::projection {

struct TracedProduct {
  double m = 0;
  double n = 0;
  double k = 0;
  double groups = 1;
  std::optional<DType> dtype;  // of its inputs, where recorded
};
// Of the products of ATen: mm, addmm, bmm, baddbmm, linear, matmul, _scaled_mm,
// _scaled_grouped_mm's dense form. Source: pytorch aten/src/ATen/native/native_functions.yaml.
std::optional<TracedProduct> product_of(const TracedOp& op);
// "m8192 n1024 k4096"
std::string shape_text(const TracedProduct& p);
// The sizes alone tell the pass: forward [T,in][in,out], dgrad [T,out][out,in], wgrad
// [out,T][T,in], which some libraries run transposed.
bool same_product(const TracedProduct& traced, const ops::Op& op);

struct TracedAttention {
  double batch = 0;
  double sequence = 0;
  double heads = 0;
  double head_dim = 0;         // 0: not told
  std::optional<DType> dtype;  // of its inputs, where recorded
};
// Of ATen's scaled_dot_product_* ([b, h, s, d]) and of flash-attention's ([b, s, h, d]), forward
// and backward; whether a mask is causal no trace says. Source: as above; Dao-AILab/flash-attention
// flash_attn_interface.py.
std::optional<TracedAttention> attention_of(const TracedOp& op);
bool same_attention(const TracedAttention& traced, const ops::Op& op);

// Kind, and bytes to within a thousandth: a bucket is rounded up to its alignment.
bool same_message(const TracedMessage& traced, const ops::Op& op);

}  // namespace eratos::projection
