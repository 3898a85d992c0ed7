// The timeline of one rank's memory and the tensors at its peak, as tables and as JSON.
#pragma once

#include <string>

#include "eratos/projection/allocation_trace.h"
#include "eratos/report/table.h"
#include "eratos/text/tree.h"

namespace eratos::report {

// A phase a row: time, allocated bytes, and a bar where `bars` says so.
Table phase_rows(const projection::MemoryTimeline& t, bool bars);
// A kind of tensor a row: name, module, what it is held as, how many, bytes.
Table top_rows(const projection::MemoryTimeline& t);
// What the simulated allocator reserves for these allocations, in bytes and in allocated peaks.
Table allocator_rows(const projection::MemoryTimeline& t);
std::string timeline_tables(const projection::MemoryTimeline& t, const Style& style);

// {stage, phases[], top_tensors[], allocator{}}
text::Node timeline_node(const projection::MemoryTimeline& t);

}  // namespace eratos::report
