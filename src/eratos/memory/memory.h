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

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
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
  double optimizer_matrix = 0;  // optimizer bytes added for a weight of a linear layer
  double narrow = 0;  // parameter bytes added for one whose products run in 8 or 4 bits
  double widened = 0;  // during the update alone, a parameter that the rank updates
};

struct StateRules {
  StateBytes dense;
  StateBytes expert;  // sharded over the expert data-parallel group
  // ZeRO-3: bytes a gathered parameter takes while its unit is alive, and how many units are.
  bool gathers = false;
  double gathered_bytes = 2;
  double placeholder_bytes = 0;  // a cached stand-in gradient of each distinct weight shape
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
  Bytes held;           // saved tensors of all micro-batches in flight, as a forward leaves them
  Bytes transient;      // alive at the peak but not saved: working set, logits, gathered units
  Bytes communication;  // communicator buffers (outside the allocator)
  Bytes framework;      // context, workspaces
  Bytes allocated;      // what the allocator hands out at the peak
  Bytes reserved;       // what the allocator holds from the driver
  Bytes device;         // what the driver shows as used
  Bytes least;          // the same once every segment without a live block has been given back
  Moment moment = Moment::forward;
  ops::Module peak_module = ops::Module::residual;
  const char* peak_program = "";
  double in_flight = 0;  // micro-batches of the whole stage at the peak (chunks counted as parts)
  double waiting = 0;    // the same, between input gradient and weight gradient
};

// One program's lifetimes, walked once; every stage that repeats the program reads the result.
struct ProgramMemory {
  Bytes saved;          // kept between its forward and its backward, one micro-batch
  Bytes forward_peak;   // most bytes alive inside forward, its kept tensors included
  Bytes backward_peak;  // the same inside backward, all its kept tensors included at the start
  // With the weights' gradients put off: what they still need, and the peak of the rest of backward.
  Bytes put_off;
  Bytes gradient_peak;
  Bytes weight_peak;    // and of the weights' gradients, what they need included
  ops::Module forward_module = ops::Module::residual;   // where those peaks are
  ops::Module backward_module = ops::Module::residual;
  ops::Module gradient_module = ops::Module::residual;
  double dense_parameters = 0;   // local
  double expert_parameters = 0;
  double dense_frozen = 0;  // of them: not trained
  double expert_frozen = 0;
  double dense_matrix = 0;  // of the trained ones: weights of linear layers
  double expert_matrix = 0;
  double dense_narrow = 0;  // of them: held in 8 or 4 bits for their products
  double expert_narrow = 0;
  double placeholder_elements = 0;  // one matrix of each shape (see StateRules::placeholders)
  const char* name = "";
};

// Walks forward, then backward, in program order: a tensor lives from the op that writes it to
// the last that reads it, a kept one to its last reader in backward. Bytes are rounded up to
// `rounding` a tensor. `split`: also with the weights' gradients put off. Allocation: none. Limit:
// ops::kMaxTensors a program.
void walk(const ops::Program& program, Bytes rounding, bool split, ProgramMemory& out);

// By tensor: is it read by a weight gradient and made before one? That is what a backward that puts
// them off has to keep: the inputs of linear layers and the gradients of their outputs.
// Source: arXiv 2401.10241, section 2.1.
// Assumes: operands gathered for sequence parallelism wait whole, as Transformer Engine's delayed
// weight gradients hold them; Sea AI's fork of Megatron-LM keeps the shard and gathers again in W.
void find_put_off(const ops::Program& program, std::span<bool> out);

// Bytes of one of them while it waits: as its products read it. In 8 or 4 bits those read a cast of it,
// and the 16-bit tensor goes.
// Source: NVIDIA/TransformerEngine pytorch/module/linear.py: what a delayed weight gradient is given are
// the quantized input and the quantized gradient of the output.
Bytes put_off_bytes(const ops::Program& program, ops::TensorId id);

struct StageInput {
  const ops::StageProgram* const* chunks = nullptr;  // `chunk_count` of them
  const int* in_flight = nullptr;  // per chunk: micro-batches between F and B at the peak, the one
                                   // being worked on included
  const int* waiting = nullptr;    // per chunk: between input gradient and weight gradient then;
                                   // null: none anywhere
  bool splits_backward = false;    // the chunks' backward puts the weights' gradients off
  bool whole_too = false;          // and some of their backwards are whole all the same
  int chunk_count = 1;
  int model_chunks = 1;            // of them parts of the model; one more is the rank's share of the
                                   // vocabulary layers
  int vpp = 1;                     // chunks that make one stage: less than model_chunks with two copies
  int peak_chunk = 0;              // chunk whose forward reached the peak
  bool gradients_from_start = true;  // held before the first backward (buffer, or accumulation)
  bool has_tensor_parallel = false;
  Bytes stage_output;              // kept for every micro-batch in flight: what the stage sent on
  Bytes hidden_buffer;             // T x h in the activation format, unsharded
  double lagging_buffers = 0;      // as many more that the device has not reached yet
  int communicators = 0;           // process groups with buffers on this rank
  int all_to_all_peers = 0;        // ranks it exchanges with through the library's all-to-all
  bool reduces_gradients = false;  // over a group of more than one rank
};

// Fills `out`. Allocation: none.
void stage_memory(const std::vector<ProgramMemory>& programs, const StageInput& stage,
                  const StateRules& state, const framework::FrameworkProfile& profile,
                  StageMemory& out);

// Kept bytes of all micro-batches in flight by module, indexed by ops::Module.
void module_memory(const std::vector<ops::Program>& programs, const StageInput& stage,
                   std::vector<Bytes>& out);

// Kept bytes by tensor name and module, largest first, at most `most` of them.
std::vector<Holder> holders(const std::vector<ops::Program>& programs, const StageInput& stage,
                            std::size_t most);

}  // namespace eratos::memory
