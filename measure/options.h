// The command line of eratos-device.
#pragma once

#include <string>
#include <vector>

namespace eratos::device {

struct Options {
  std::string plan;
  std::string output;
  std::string device = "cpu";
  std::string commit;  // of the checkout that measures, for the provenance
  double budget_s = 120;
  double tolerance = -1;    // < 0: as the number format explains
  double cache_bytes = -1;  // of the last level; < 0: as the system says
  int ranks = 0;            // to start; 0: this process alone, or as a launcher has started it
  int threads = 0;          // of a process; 0: all
  bool resume = false;
  bool force = false;
  bool progress = false;
  bool probe = false;  // say which device it is, measure nothing
  bool help = false;
};

// Errors: Fault kUsage.
Options read_options(const std::vector<std::string>& words);
std::string help_text();

}  // namespace eratos::device
