// Buffers that are kept between calls, one set a thread: a warm one makes screen() free of
// allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "eratos/collective/collective.h"
#include "eratos/kernel/context.h"
#include "eratos/lower/program_set.h"
#include "eratos/memory/memory.h"
#include "eratos/ops/stage.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/passes.h"
#include "eratos/projection/time.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::projection {

// What experts' load adds to the memory of programs: those that route, walked at this load.
struct LoadedMemory {
  double load = -1;  // of `memory`, where `walked`
  std::vector<memory::ProgramMemory> memory;
  std::vector<std::uint8_t> walked;
};

// No schedule hides less than nothing: kernels alone, bounded below.
struct ProgramBound {
  double forward = 0;
  double backward = 0;
};

// What time_program() reads beside programs, prices and what a set of programs has in common.
struct TimesKey {
  std::uint64_t prices = 0;  // Workspace::prices_number
  bool split = false;
  job::ModuleSet graphed;
  double host_link = 0;
  int gpus_per_node = 0;
  std::uint32_t axes = 0;  // that some collective of the programs runs over
  std::array<collective::GroupPlacement, 11> placements{};  // of those axes
};

// A set of programs and what was found out about them. While it is the active one, its programs and
// their memory are the workspace's `lowered.programs` and `program_memory`.
struct KeptPrograms {
  lower::ProgramSet set;
  bool split = false;  // memory with the weights' gradients put off
  Bytes rounding;      // of the allocator
  std::vector<ops::Program> programs;
  std::vector<memory::ProgramMemory> memory;
  std::size_t walked = 0;  // so many programs have their memory
  std::array<LoadedMemory, 2> loaded;
  kernel::KernelContext kernels;  // of the bounds
  std::vector<ProgramBound> bounds;
  TimesKey times_key;
  std::vector<ProgramTime> times;
  std::vector<std::uint8_t> timed;  // by program: some of the set are no part of any job yet timed
  std::size_t hits = 0;
  std::uint64_t used = 0;  // the later the higher
};

// The newest set makes room for the next one unless it was met again, so that jobs that have nothing in
// common use the same buffers; one that was met again stays until it is the least recently used.
inline constexpr std::size_t kKeptSets = 8;

// What Workspace::peaks are of: the order looks at bytes alone, never at times.
struct PeaksKey {
  const schedule::Schedule* schedule = nullptr;  // null: of nothing known
  schedule::Shape shape;
  std::vector<std::int64_t> bytes;  // by slot: held, kept; then of each rank's output, then limits
};

struct Workspace {
  ops::LoweredJob lowered;
  std::vector<memory::ProgramMemory> program_memory;
  std::vector<std::uint8_t> in_job;  // by program: some of a kept set are no part of the job
  std::array<KeptPrograms, kKeptSets> kept;
  std::size_t newest = 0;
  KeptPrograms passing;  // at a load that no other job will ask for
  KeptPrograms* active = nullptr;
  std::uint64_t clock = 0;
  LoadedMemory at_peak;
  ops::Program scratch;
  std::vector<ops::Op> step;
  kernel::KernelContext priced_kernels;  // of times
  collective::CollectiveContext priced_links;
  std::uint64_t prices_number = 0;
  std::vector<schedule::ChunkCost> chunks;
  std::vector<schedule::LinkCost> links;
  std::vector<schedule::OutputCost> outputs;
  schedule::OutputLinks output_links;
  std::vector<std::int64_t> limits;
  std::vector<PartTime> parts;         // alike parts share one
  std::vector<std::uint32_t> part_at;  // [rank * parts + part]: index into `parts`
  schedule::Order order;
  schedule::Peaks peaks;
  PeaksKey peaks_key;
  std::vector<std::int64_t> peaks_bytes;  // of the job at hand
  schedule::Timing timing;
  schedule::Workspace schedule;
  std::vector<const ops::StageProgram*> stage_programs;
  std::vector<int> in_flight;
  std::vector<int> waiting;
};

}  // namespace eratos::projection
