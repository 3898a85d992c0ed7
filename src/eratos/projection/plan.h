// What to measure so that a projection has less to guess: every distinct piece of work of a job.
//
// Answers "which measurements would this projection be made of, and how often does each count?".
// Pieces are the job's own, at the shapes of one of its ranks: nothing about them is scaled, so one
// device measures what a thousand run. The programs of all stages and what is done once a step are
// walked; pieces of one id are one. What takes more than one rank is planned for groups that the
// ranks at hand make up, and in two sizes where the job's own group is larger, to fit the link
// model.
//
// Order: whole blocks, kernels, a layer's halves, collectives, memory; inside each, what takes most
// of a step first, by the model. Whoever runs out of time has measured what matters most.
//
// Worked example: Llama 3.1 8B at tp 2, pp 4: 2 pieces each of embedding, layer, its two halves and
// head; about 30 kernels; all-gather and reduce-scatter of 2 ranks; 4 phases of memory.
#pragma once

#include <string>
#include <vector>

#include "eratos/calibration/piece.h"
#include "eratos/projection/downscale.h"

namespace eratos::projection {

struct PlannedPiece {
  calibration::Piece piece;
  std::string id;
  double count =
      0;  // how often a step of one rank runs it: of the rank that does most; 0 for memory
  Seconds modelled;  // one run; 0 for memory
};

// Work of the job that is no piece, and why.
struct Unplanned {
  std::string what;
  std::string why;
};

struct Plan {
  std::string job;
  std::string digest;  // of all ids: two plans of one digest ask for the same
  std::vector<PlannedPiece> pieces;
  std::vector<Unplanned> unplanned;
  Downscaled small;  // what the memory phases are of
};

Plan plan_of(const job::CheckedJob& job, const calibration::Calibration& calibration,
             const Devices& devices, Workspace& w);

// The memory phases of a small job: the pieces of a plan and the anchors of a projection. Empty,
// with the reason, where its layers are of several kinds or no block.
std::vector<calibration::Piece> memory_pieces(const job::CheckedJob& small, Workspace& w,
                                              std::string& why);

}  // namespace eratos::projection
