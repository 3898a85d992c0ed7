// JOB as a user writes it, a file of any kind we read or a catalogue name, to a job.
//
// The kind of a file is recognised from its content, never from its name. A new reader is one file
// and one line in kJobReaders (read_job.cpp).
//
// Worked example: read_job("llama3.1-70b", {}) is that model on framework megatron with its
// defaults; read_job("exp.yaml", {{"TP", "4"}}) a Primus experiment with ${TP} replaced.
#pragma once

#include <string>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/environment.h"
#include "eratos/reader/import_report.h"

namespace eratos::reader {

// The job as it stands. Errors: no such file or name, a kind that is not known, and every fault of
// the reader that takes it.
Result<JobRead> read_job(const std::string& job, const Environment& environment);

struct ReadOptions {
  Environment environment;
  std::string schedule;           // "" leaves the job's own
  std::vector<std::string> sets;  // "parallel.vpp=2"
  std::string cluster;            // "" leaves the job's own
  int nodes = 0;                  // 0 leaves the cluster's own
};

// The job with --cluster, --nodes, --schedule and --set applied, in this order, and open questions answered.
Result<JobRead> read_job(const std::string& job, const ReadOptions& options);

// What a projection needs and neither the file nor a flag says (a vocabulary that only an unknown
// tokenizer knows), each at the place that should have said it.
Diagnostics open_questions(const JobRead& read);

}  // namespace eratos::reader
