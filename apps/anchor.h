// `eratos project JOB --anchor RUN`: the measured run as a job, and the answer that it changes.
//
// RUN is a row of a CSV of measured runs, `FILE.csv:ID` (docs/USING.md, validate), or what differs
// from JOB with what was measured, `gpus=8,step_s=12.3`:
//
//   gpus, cluster                         where it ran; the cluster is JOB's with fewer nodes, or
//   one
//                                         node of fewer accelerators
//   step_s, tokens_per_s_per_gpu          its speed
//   peak_gb, peak_gib                     its peak memory a GPU; peak=allocated|reserved|device
//   (device) gbs, mbs, seq, tp, cp, pp, vpp, ep, etp, or any field as --set has it
//   (recompute.granularity=full)
//
// Worked example: JOB of 1,024 sequences on 64 H100 at tp 2 (dp 32, micro-batch 1: 32
// micro-batches) with gpus=8: one node, dp 4, and, as gbs is not said, 4 x 32 = 128 sequences.
#pragma once

#include <string>
#include <vector>

#include "apps/arguments.h"
#include "apps/load_job.h"
#include "eratos/base/diagnostic.h"
#include "eratos/projection/anchor.h"
#include "eratos/reader/truth.h"
#include "eratos/report/accuracy.h"
#include "eratos/report/anchor.h"
#include "eratos/text/tree.h"

namespace eratos::apps {

projection::PeakKind peak_kind(reader::MemoryKind kind);

// What the row states, its speed in seconds a step: as much longer than the projected one as the
// figure that the row states is off.
projection::MeasuredRun measured_run(const reader::Run& run, const report::AccuracyRow& row);

// Paths at which two written jobs differ; name, cluster and batch.global apart, as those are what
// size is. A list or a value that one of them lacks is one difference.
std::vector<std::string> differing_fields(const text::Node& a, const text::Node& b);

// Reads --anchor, projects its run, carries what carries into `projected` and projects it anew; its
// bands are those of anchored runs. Errors: of the run, all at once.
Result<report::AnchorAnswer> anchor(const Arguments& arguments, Projected& projected);

}  // namespace eratos::apps
