// What the reports are made of: the job, its projection, and what the reader of the file said.
//
// A report turns an Answer into text and knows nothing of files, terminals or the network. Formats
// are a table (format.h): one file each.
#pragma once

#include <string>
#include <vector>

#include "eratos/job/job.h"
#include "eratos/projection/allocation_trace.h"
#include "eratos/projection/projection.h"
#include "eratos/text/tree.h"

namespace eratos::projection {
struct HybridAnswer;
}

namespace eratos::report {

struct Answer {
  const job::JobSpec* spec = nullptr;
  const job::CheckedJob* checked = nullptr;
  const projection::Projection* projection = nullptr;
  const projection::MemoryTimeline* timeline = nullptr;  // of `memory`; null: none could be drawn
  const projection::HybridAnswer* hybrid = nullptr;  // with measurements: what `projection` is made of
  const projection::Projection* simulated = nullptr;  // shown beside it; null: not asked for
  text::Node job;                                    // the normalised job
  std::string version;                               // of eratos
  std::size_t defaults = 0;                          // values that the file did not state
  std::vector<projection::Warning> reader_warnings;  // keys not used, and the like
};

}  // namespace eratos::report
