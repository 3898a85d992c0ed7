// Every allocation of one pipeline rank over one step: what is alive when, where, and why.
//
// The schedule gives the order and the times of the rank's actions; inside an action the programs'
// ops run in order, and a tensor lives by the rules of memory::walk(): from the op that writes it
// to the last that reads it, a saved one to its last reader in backward, what weight gradients need
// to theirs. So this walks op by op what memory::stage_memory() sums up, and is its judge: the two
// peaks agree to a byte a state tensor where the model has no approximation (docs/model/memory.md
// says which it has).
//
// What the model knows as an amount is one block: workspace, hidden buffers, gathered ZeRO-3 units,
// gradient placeholders, buckets, the optimizer's own. Blocks have the model's size: tensors rounded
// to the allocator's granularity, state not rounded. Outside the allocator, and not here: context,
// communicators.
//
// The allocator is simulated under the job's setting, so the trace knows what it reserves for these
// allocations and no others: `reserved` is a lower bound of a run's, which also has other streams,
// other steps and an evaluation. On 15 published pairs of reserved and allocated peaks it explains
// 0 to 5 % of allocated where 3 to 9 % were measured (docs/model/memory.md).
//
// Assumes: ops of an action are spread evenly over its time, so that times inside it are places in
// order and no more. Two actions side by side run one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/memory/caching_allocator.h"
#include "eratos/ops/ops.h"
#include "eratos/projection/projection.h"
#include "eratos/schedule/order.h"

namespace eratos::projection {

enum class HeldAs : std::uint8_t {
  weight,
  gradient,
  optimizer,
  saved,  // for backward
  temporary,
  amount,  // known as a sum, not tensor by tensor
};
std::string_view name_of(HeldAs h);

// Whose a block is.
struct Owner {
  const char* tensor = "";
  const char* program = "";  // "" for an amount
  ops::Module module = ops::Module::residual;
  HeldAs held = HeldAs::temporary;
  schedule::Kind kind = schedule::Kind::forward;  // of the action that allocated it
  std::int32_t op = 0;                            // in its pass of the program
  std::int32_t block = -1;        // of the model, in its order: 0 is the embedding; -1: none
  std::int32_t micro_batch = -1;  // -1: held all step, or the step's own
};

enum class EventKind : std::uint8_t { segment, allocate, free };

struct AllocationEvent {
  EventKind kind = EventKind::allocate;
  std::int32_t owner = -1;  // -1 for a segment
  std::int64_t address = 0;
  std::int64_t bytes = 0;
  Picoseconds time = 0;  // from the start of the step
};

// A level that the timeline names.
struct Phase {
  const char* name = "";
  Picoseconds time = 0;
  std::int64_t bytes = 0;
};

struct AllocationTrace {
  int rank = 0;
  int micro_batches = 0;  // that each chunk of the rank sees in a step
  int traced = 0;         // of them, the first ones
  std::vector<Owner> owners;
  std::vector<AllocationEvent> events;
  memory::CachingAllocator allocator;  // as the step leaves it
  std::int64_t peak = 0;               // bytes
  std::int64_t reserved = 0;           // by the end of the step; a segment is never given back
  // Of it at the peak: reserved by then, and what could not be given back then.
  std::int64_t reserved_at_peak = 0;
  std::int64_t held_at_peak = 0;
  std::size_t peak_event = 0;          // whose allocation reaches it first
  std::vector<Phase> phases;  // start of step, end of warm-up, peak, end of cool-down, optimizer

  std::vector<std::int32_t> alive_at_peak() const;  // indices of events, allocation order
};

struct TraceOptions {
  int rank = 0;
  // Micro-batches are traced from the first on until there are about so many allocations; always as
  // many as the peak needs.
  std::int64_t most_allocations = 100000;
};

// Errors: no such rank; a schedule that cannot run.
Result<AllocationTrace> trace_allocations(const job::CheckedJob& job,
                                          const calibration::Calibration& calibration,
                                          const TraceOptions& options, Workspace& w);

// What is alive at the peak, by what holds it, module and tensor name.
struct PeakTensor {
  const char* tensor = "";
  ops::Module module = ops::Module::residual;
  HeldAs held = HeldAs::temporary;
  std::int64_t bytes = 0;
  std::int64_t copies = 0;
};
// Largest first, at most `most`.
std::vector<PeakTensor> top_at_peak(const AllocationTrace& trace, std::size_t most);

// What a page says of a trace.
struct MemoryTimeline {
  int rank = 0;
  bool expandable = false;
  std::int64_t peak = 0;  // bytes; the next three as in AllocationTrace
  std::int64_t reserved = 0;
  std::int64_t reserved_at_peak = 0;
  std::int64_t held_at_peak = 0;
  std::vector<Phase> phases;
  std::vector<PeakTensor> top;
};

}  // namespace eratos::projection
