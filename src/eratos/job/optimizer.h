// What an optimizer holds, moves and computes for one trained parameter.
//
// Letters: g bytes of the gradient, w of the master copy, p of the parameter, s of all states.
//   bytes held (beside parameter and gradient)   w + s
//   traffic of the update                        g + 2w + 2s + p   (2p instead, without a master)
// Worked example: Adam in fp32 beside bf16 parameters holds 4 + 4 + 4 = 12 B and moves
//   4 + 8 + 16 + 2 = 30 B; with bf16 gradients and moments and remainders for a master (below)
//   it holds 2 + 2 + 2 = 6 B and moves 2 + 4 + 8 + 4 = 18 B, and 2 (16 + 4 * 2) - 8 = 40 B more
//   for moments that are copied out to fp32 and back (below).
#pragma once

#include <array>
#include <string_view>

#include "eratos/base/dtype.h"

namespace eratos::job {

struct OptimizerSpec;

// The table of kinds. Sources stand beside its rows in optimizer.cpp.
struct OptimizerKind {
  std::string_view name;
  bool first_moment = true;    // one element a parameter, in OptimizerSpec::exp_avg
  bool second_moment = true;   // in OptimizerSpec::exp_avg_sq
  double block_bytes = 0;      // moments are 8-bit, with this many bytes of scales an element each
  bool master = true;          // a master copy beside 16-bit parameters
  bool orthogonalised = false;  // matrices by Newton-Schulz, the rest by Adam
  bool shards = true;          // its state may be cut over data-parallel ranks (ZeRO-1 and up)
  double flops = 0;            // element-wise operations of an update, a parameter
  int kernels = 4;             // launches of a fused update of all parameters
};

// nullptr for a name that is not in the table.
const OptimizerKind* find_optimizer(std::string_view name);
// Names of the table, for messages and completion.
inline constexpr std::array<std::string_view, 8> kOptimizerNames{
    "adam", "adamw", "adam8bit", "sgd", "lion", "adafactor", "muon", "lamb"};

struct OptimizerBytes {
  double master = 0;
  double states = 0;
  double traffic = 0;
  double widened = 0;  // alive during the update alone: fp32 copies of narrower moments
  int copies = 0;      // kernels a parameter tensor that make them and take them back
  double held() const { return master + states; }
};

// Of one trained parameter stored in `parameter`. `matrix`: a weight of a linear layer, which an
// orthogonalising optimizer treats apart.
// The precision-aware update keeps no whole fp32 master beside bf16 parameters but the 16 bits that
// the parameter has lost. Source: NVIDIA/TransformerEngine pytorch/optimizers/fused_adam.py,
// store_param_remainders; on by default in NVIDIA/Megatron-LM core/optimizer/optimizer_config.py.
// Its kernel updates fp32 moments. Narrower ones, of n bytes, are copied to fp32 before it (n + 4), all
// of them, updated (8), cast back (4 + n) and stored (2 n): 16 + 4 n bytes where one in place moves 2 n,
// by three kernels a tensor and moment. Source: the same file, get_unscaled_state and _apply_scale; peaks
// of six runs of Moonlight 16B that no recomputation lowers (36.6 GB: 22.4 of state, 14.4 of copies).
OptimizerBytes optimizer_bytes(const OptimizerSpec& spec, DType parameter, bool matrix,
                               bool master_weights);

}  // namespace eratos::job
