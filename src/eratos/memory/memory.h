// Bytes on one rank, by what holds them and when.
//
// Question: what does a pipeline stage hold at its worst moment, and which moment is that?
// It walks the lifetimes of the tensors of the stage's programs; it is handed the number of
// micro-batches in flight (room `schedule` found it) and the state rules as plain values.
//
// Letters: P local parameters, D ranks that share optimizer state, n micro-batches in flight.
// Worked example: 8.03e9 bf16 parameters with fp32 gradients and Adam, sharded over D = 8:
//   2 P + 4 P + 12 P / 8 = 60.2 GB. Source of the 2/4/12: arXiv 1910.02054, section 3.1.
#pragma once

#include <cstdint>
#include <vector>

#include "eratos/base/inplace_vector.h"
#include "eratos/base/units.h"
#include "eratos/framework/profile.h"
#include "eratos/ops/stage.h"

namespace eratos::memory {

// Bytes per local parameter and how many ranks share each kind of state.
struct StateBytes {
  double parameter = 2;
  double gradient = 4;
  double optimizer = 12;  // master copy and moments together
  double parameter_shards = 1;  // 1 unless ZeRO-3 / HSDP
  double gradient_shards = 1;   // 1 unless ZeRO-2 and up
  double optimizer_shards = 1;  // 1 unless ZeRO-1 and up
};

struct StateRules {
  StateBytes dense;
  StateBytes expert;  // sharded over the expert data-parallel group
  // ZeRO-3: bytes a gathered parameter takes while its unit is alive, and how many units are.
  bool gathers = false;
  double gathered_bytes = 2;
};

// What happens at the peak.
enum class Moment : std::uint8_t {
  forward,    // inside the forward pass of the last micro-batch in flight
  loss,       // logits and their gradient
  backward,   // inside the backward pass of the first micro-batch to leave
  optimizer,  // the step: no activations
};
std::string_view name_of(Moment m);

// One holder of bytes at the peak, for tables and `explain`.
struct Holder {
  const char* name = "";
  ops::Module module = ops::Module::residual;
  Bytes bytes;
};

struct StageMemory {
  Bytes parameters;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;    // saved tensors of all micro-batches in flight at the peak
  Bytes transient;      // alive at the peak but not saved: working set, logits, gathered units
  Bytes communication;  // communicator buffers (outside the allocator)
  Bytes framework;      // context, workspaces
  Bytes allocated;      // what the allocator hands out at the peak
  Bytes reserved;       // what the allocator holds from the driver
  Bytes device;         // what the driver shows as used
  Moment moment = Moment::forward;
  ops::Module peak_module = ops::Module::residual;
  const char* peak_program = "";
  double in_flight = 0;  // micro-batches of the whole stage at the peak (chunks counted as parts)
};

struct StageInput {
  const ops::StageProgram* chunks = nullptr;  // vpp of them
  int chunk_count = 1;
  const int* in_flight = nullptr;  // per chunk: micro-batches between F and B at the peak,
                                   // the one being worked on included
  int peak_chunk = 0;              // chunk whose micro-batch is being worked on at the peak
  bool has_output = false;
  int communicators = 0;           // process groups with buffers on this rank
};

// Fills `out`. Allocation: none. Errors: none for lowered programs.
void stage_memory(const std::vector<ops::Program>& programs, const StageInput& stage,
                  const StateRules& state, const framework::FrameworkProfile& profile,
                  StageMemory& out);

// Per-module bytes at the same peak (saved tensors of all micro-batches in flight), indexed by
// ops::Module.
void module_memory(const std::vector<ops::Program>& programs, const StageInput& stage,
                   std::vector<Bytes>& out);

}  // namespace eratos::memory
