// What a layer must know about the rank it is lowered for: local token counts, degrees, formats.
//
// Letters: b sequences of a micro-batch, s sequence, T = b*s/cp tokens of the rank, t = tp.
// Under sequence parallelism the regions between the TP regions hold T/t tokens.
// Worked example: b 2, s 8192, cp 2, tp 4 with sequence parallelism: T = 8192, T/t = 2048.
#pragma once

#include <cstdint>

#include "eratos/base/dtype.h"
#include "eratos/framework/profile.h"
#include "eratos/parallel/parallel.h"

namespace eratos::layer {

enum class AttentionKernel : std::uint8_t { flash, unfused };

// How tokens reach their experts (dispatch.h).
enum class Dispatcher : std::uint8_t { alltoall, allgather, deepep, hybridep, einsum };

struct LayerContext {
  double sequences = 1;  // b
  double sequence = 1;   // s, whole
  int tp = 1;
  int cp = 1;
  int ep = 1;
  int etp = 1;
  bool sequence_parallel = false;
  parallel::CpKind cp_kind = parallel::CpKind::p2p;
  AttentionKernel attention = AttentionKernel::flash;
  DType activation = DType::bf16;  // format of activations and of matrix products
  bool loss_fused = true;
  Dispatcher dispatcher = Dispatcher::alltoall;
  double capacity_factor = 0;    // rows an expert takes, against equal shares; 0: all that come
  bool pad_to_capacity = false;  // every expert computes its full capacity
  int row_multiple = 0;  // rows that a rank sends to one expert are a multiple of it
  double load = 1;  // rows that come to this rank against the mean of its expert-parallel group
  double hidden_dropout = 0;     // probability; keeps a mask when positive
  double attention_dropout = 0;
  bool frozen = false;  // weights are not trained: their gradients are not taken
  const framework::FrameworkProfile* profile = nullptr;

  double tokens() const { return sequences * sequence / cp; }
  double shard_tokens() const { return sequence_parallel ? tokens() / tp : tokens(); }
};

}  // namespace eratos::layer
