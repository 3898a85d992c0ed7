// `eratos validate --anchored`: how well the smallest run of a group foretells the larger ones.
//
// A group: runs of one source and file that share its word for the software, the framework's
// profile and generation, the model, the accelerator, the number format, the micro-batch and the
// sequence length, on two numbers of accelerators or more; suspect and excluded times are left out.
// Runs on the fewest accelerators are the anchors; each larger run is projected from one of them
// (projection/anchor.h): from the one whose job differs in the fewest fields, cluster, global batch
// and name apart; where several do, from the one whose degrees and counts are fewest doublings
// away, then the first in the file.
#pragma once

#include <vector>

#include "apps/measured_runs.h"
#include "eratos/base/diagnostic.h"
#include "eratos/projection/projection.h"
#include "eratos/report/accuracy.h"
#include "eratos/report/anchored.h"

namespace eratos::apps {

// `rows` are measured.rows with their projections. Errors: the classes of anchored errors, which
// are part of the program, cannot be read.
Result<std::vector<report::AnchoredRow>> anchor_all(const MeasuredRuns& measured,
                                                    const projection::Options& options,
                                                    const std::vector<report::AccuracyRow>& rows);

}  // namespace eratos::apps
