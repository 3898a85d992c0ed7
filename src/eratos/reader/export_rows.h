// A job as a mapping of a framework's keys, from the same rows that its reader uses.
#pragma once

#include "eratos/job/job.h"
#include "eratos/reader/key_rows.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// Every row of kind copy whose field the job has, translated back where the row has words. A value
// that no word stands for is left out. Rows with a `*` name no key of their own.
//
// Worked example: {"optimizer.zero_stage", "sharding.stage", copy, "0=none,1=zero1"} of a ZeRO-1
// job gives optimizer: {zero_stage: 1}.
text::Node tree_from_rows(KeyRows rows, const text::Node& written);

// nanotron's YAML of a job. Without a cluster all accumulation is one replica's.
text::Node nanotron_tree_of(const job::JobSpec& job);

}  // namespace eratos::reader
