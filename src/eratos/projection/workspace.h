// Buffers that are kept between calls, one set a thread: a warm one makes screen() free of
// allocation.
#pragma once

#include <cstdint>
#include <vector>

#include "eratos/collective/collective.h"
#include "eratos/kernel/context.h"
#include "eratos/memory/memory.h"
#include "eratos/ops/stage.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/passes.h"
#include "eratos/projection/time.h"
#include "eratos/schedule/registry.h"
#include "eratos/schedule/simulate.h"

namespace eratos::projection {

struct Workspace {
  ops::LoweredJob lowered;
  std::vector<memory::ProgramMemory> program_memory;
  std::vector<ProgramTime> program_time;
  std::vector<schedule::ChunkCost> chunks;
  std::vector<schedule::LinkCost> links;
  std::vector<schedule::OutputCost> outputs;
  schedule::OutputLinks output_links;
  std::vector<std::int64_t> limits;
  std::vector<PartTime> parts;
  schedule::Order order;
  schedule::Peaks peaks;
  schedule::Timing timing;
  schedule::Workspace schedule;
  std::vector<const ops::StageProgram*> stage_programs;
  std::vector<int> in_flight;
  std::vector<int> waiting;
};

}  // namespace eratos::projection
