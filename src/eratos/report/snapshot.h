// A rank's allocations as the snapshot that torch.cuda.memory._dump_snapshot() would have written:
// pytorch.org/memory_viz and torch/cuda/_memory_viz.py open it.
//
// A block's "stack" says what it is, innermost first, in the form file:line:function:
//   mlp_in/forward:op:tensor, program:block of the model:layer, action:micro-batch:micro-batch
// What the file says beyond PyTorch's own keys is under "eratos", which viewers pass over.
//
// Source: pytorch/pytorch torch/csrc/cuda/memory_snapshot.cpp (_memory_snapshot_pickled: the keys),
// torch/cuda/_memory_viz.py and torch/utils/viz/MemoryViz.js (which of them are read, and how).
#pragma once

#include <string>

#include "eratos/projection/allocation_trace.h"

namespace eratos::report {

std::string memory_snapshot(const projection::AllocationTrace& trace, const std::string& version);

}  // namespace eratos::report
