// The measured side of a row of measured runs: which figure is compared, in whose units.
#pragma once

#include "eratos/job/job.h"
#include "eratos/reader/pattern_table.h"
#include "eratos/reader/truth.h"
#include "eratos/reader/truth_row.h"

namespace eratos::reader {

class MeasuredConventions {
 public:
  Measured read(const TruthRow& row, const job::JobSpec& spec) const;

 private:
  void read_speed(const TruthRow& row, const job::JobSpec& spec, Measured& out) const;
  void read_memory(const TruthRow& row, Measured& out) const;

  PatternTable memory_{"run_memory"};
  PatternTable flops_{"run_flops"};
};

}  // namespace eratos::reader
