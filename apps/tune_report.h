// What `eratos tune` says: one page for the terminal, report.md and report.html.
#pragma once

#include <string>
#include <vector>

#include "eratos/agent/answer.h"
#include "eratos/report/page.h"

namespace eratos::apps {

struct TuneFiles {
  std::string folder;
  std::vector<std::string> winner;  // names of its files
  std::vector<std::string> unsaid;  // what they cannot hold
};

report::Page tune_page(const agent::Answer& answer, const TuneFiles& files);

}  // namespace eratos::apps
