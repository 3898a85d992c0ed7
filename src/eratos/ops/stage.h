// A virtual pipeline stage as a list of programs: which distinct block, how often, in order.
#pragma once

#include <cstdint>
#include <vector>

#include "eratos/base/inplace_vector.h"
#include "eratos/base/units.h"
#include "eratos/ops/ops.h"

namespace eratos::ops {

struct StageItem {
  std::uint16_t program = 0;  // index into the job's table of programs
  int repeat = 1;
};

struct StageProgram {
  // A hybrid stack changes its kind of layer with nearly every one of them.
  InplaceVector<StageItem, 160> items;
  Bytes send;  // activations one micro-batch sends to the next stage (and gradients back)
};

// A lowered job: every distinct program once, the virtual stages as lists over them, and the
// once-a-step ops of each pipeline rank.
struct LoweredJob {
  std::vector<Program> programs;
  std::size_t program_count = 0;  // programs beyond it are spare capacity
  std::vector<StageProgram> stages;        // [virtual stage], in the model's order
  // [pipeline rank] with an output layer cut over all of them: the rank's shares of both vocabulary
  // layers. Empty lists otherwise.
  std::vector<StageProgram> shares;
  std::vector<std::vector<Op>> step_ops;   // [pipeline rank]
  std::size_t stage_count = 0;
  std::size_t rank_count = 0;
};

}  // namespace eratos::ops
