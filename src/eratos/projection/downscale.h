// A job made small enough for the devices at hand, and what the way back restores.
//
// Answers "what of this job can one device run, and what has to be put back?". Rules, in this
// order, each as far as it has to go:
//   pipeline      pp to 1: one rank keeps the layers of the stage that has most, with both ends
//   data          dp to 1: the ranks of one replica
//   context       cp to 1: the rank's own share of each sequence
//   experts       ep down, experts a rank kept
//   tensor        tp down, the rank's own heads, widths and rows of the vocabulary kept
//   micro-batches to one
//   layers        to one of each distinct block
//   sequence      halved, then
//   micro-batch   halved, until it fits
// The first five are for ranks, and what a rank computes stays as it is; the last three are for
// memory. What was left out is put back by simulation: each step says how.
//
// Worked example: tp 4, pp 4, 32 layers on one device: pp 4 -> 1 (8 layers), tp 4 -> 1 (heads 32 ->
// 8, ffn 14336 -> 3584), and the schedule, sends and tensor-parallel exchanges are simulated.
#pragma once

#include <string>
#include <vector>

#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/projection/projection.h"

namespace eratos::projection {

// Devices at hand.
struct Devices {
  Bytes memory;   // of one; 0: the job's own part's
  int ranks = 1;  // that run at once
};

struct DownscaleStep {
  std::string what;  // pipeline, data, context, experts, tensor, micro-batches, layers, sequence,
                     // micro-batch
  double from = 0;
  double to = 0;
  std::string restored;  // what the upscale puts back
  std::string how;
};

struct Downscaled {
  job::JobSpec spec;
  std::vector<DownscaleStep> steps;
  bool legal = true;  // false: no small job of this one is a job; `steps` holds as far as it went
  std::string why;    // where it is not
  bool fits = false;
  Bytes needed;  // device peak of the small job, by the model
};

Downscaled downscale(const job::CheckedJob& job, const calibration::Calibration& calibration,
                     const Devices& devices, Workspace& w);

}  // namespace eratos::projection
