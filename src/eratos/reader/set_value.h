// `--set KEY=VALUE`: one field of a job changed by its path in the normalised form.
//
// The change is made in the written job, which is then read again, so that it meets the same
// checks as a file. Faults stand at "--set parallel.vpp=2".
//
// Worked example: "batch.global=1024" on a job of 128 gives 1024; "batch.globl=1" is the fault
// "--set batch.globl=1: error: unknown key `batch.globl`; did you mean `batch.global`?", and
// "tp=4" suggests `parallel.tp`.
#pragma once

#include <string>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/import_report.h"

namespace eratos::reader {

// Applies `schedule`, when there is one, as schedule.algorithm and then all of `sets`, in order, and
// records them in the report. Errors: every set that has no `=`, names an unknown key, or gives a
// value the job cannot take. Faults of the schedule stand at "--schedule zbv". On error `read` is
// unchanged.
Result<void> apply_sets(JobRead& read, const std::vector<std::string>& sets,
                        const std::string& schedule = {});

// Takes a cluster by name or file, as if it stood in the job. `nodes` 0 leaves its number of nodes.
Result<void> apply_cluster(JobRead& read, const std::string& cluster, int nodes);

}  // namespace eratos::reader
