// One weight matrix, cut over tensor-parallel ranks by columns or by rows, or held whole.
//
// Letters: T tokens, t tp. Column: every rank sees all T tokens and out/t columns. Row: in/t of
// the inputs, and partial sums that must be reduced. Replicated: all of it, on the rank's tokens.
// Traffic, forward / backward (Source: arXiv 2205.05198, sections 4.2.1 and 4.2.2):
//   column  SP: all-gather x        / all-gather x again, reduce-scatter dx
//           no SP: nothing          / all-reduce dx
//   row     SP: reduce-scatter y    / all-gather dy
//           no SP: all-reduce y     / nothing
#pragma once

#include <cstdint>

#include "eratos/layer/builder.h"

namespace eratos::layer {

enum class Split : std::uint8_t { column, row, replicated };

struct LinearSpec {
  const char* name = "";
  double in = 0;   // whole
  double out = 0;  // whole
  Split split = Split::column;
  Module module = Module::qkv;
  bool bias = false;
  int products = 1;  // GEMMs it is launched as (separate Q, K, V: 3)
  // Its backward hands back a stand-in gradient made anew, not one cached for its shape: the
  // framework's own linear against the library's. Source: Megatron-LM core/tensor_parallel/layers.py
  // (torch.empty as grad_weight); TransformerEngine pytorch/module/base.py (get_dummy_wgrad).
  bool fresh_placeholder = false;
};

struct LinearState {
  TensorId input = ops::kNoTensor;     // as handed in: the rank's shard under SP
  TensorId gathered = ops::kNoTensor;  // all T tokens, when it was kept
};

// Local weight elements of the matrix (bias apart).
double linear_weight(const LinearSpec& spec, int tp);
void linear_parameters(const LinearSpec& spec, Builder& b);

// x: [shard tokens or T, in]; returns y. `shared_gather`: a gathered copy of x that another linear
// has already made (parallel branches gather once); kNoTensor to gather here.
TensorId linear_forward(const LinearSpec& spec, Builder& b, TensorId x, LinearState& s,
                        TensorId shared_gather = ops::kNoTensor);
// dy -> dx, and the gradients of weight and bias.
TensorId linear_backward(const LinearSpec& spec, Builder& b, const LinearState& s, TensorId dy);

}  // namespace eratos::layer
