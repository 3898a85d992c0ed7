// A traced step beside the model: where it went, op by op, module by module, and what was not
// matched.
#pragma once

#include <string>

#include "eratos/projection/step_account.h"
#include "eratos/projection/step_match.h"
#include "eratos/report/page.h"
#include "eratos/text/tree.h"

namespace eratos::report {

struct TraceAnswer {
  const projection::TracedStep* step = nullptr;
  const projection::StepAccount* account = nullptr;
  const projection::StepMatch* match = nullptr;
  const projection::Projection* projection = nullptr;
  std::string job;   // "llama3.1-8b on h100-sxm-1x8"
  std::string part;  // "h100-sxm"
  std::string version;
  std::size_t top = 20;  // rows to list of each table
};

Page trace_page(const TraceAnswer& a);
// Nanoseconds as whole numbers beside seconds: `account` adds up to `step_ns` exactly.
text::Node trace_node(const TraceAnswer& a);

}  // namespace eratos::report
