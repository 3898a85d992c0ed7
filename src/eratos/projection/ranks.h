// One pipeline rank at a time, with any layers: what a choice of layers for every rank asks.
//
// project() prices a whole job. Where every rank is one chunk of the model and the order of its passes
// looks at no times, a job comes apart: what a rank holds, and what its passes take, follow from its own
// layers and from its place in the pipeline; the step follows from the ranks' times. Put together again
// they are what project() says, bit for bit.
//
// Worked example: Llama 3.1 8B on two ranks: rank 0 with layers 0..15 of which 4 are recomputed costs
// the same whatever rank 1 does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/units.h"
#include "eratos/calibration/calibration.h"
#include "eratos/job/job.h"
#include "eratos/lower/program_set.h"
#include "eratos/memory/memory.h"
#include "eratos/projection/projection.h"
#include "eratos/projection/time.h"
#include "eratos/schedule/order.h"
#include "eratos/schedule/peak.h"
#include "eratos/schedule/simulate.h"

namespace eratos::projection {

// What the step asks of a rank.
struct RankCost {
  Picoseconds forward = 0;  // one micro-batch
  Picoseconds backward = 0;
  double exposed = 0;    // seconds of gradient reduction and parameter gather that nothing hides
  double optimizer = 0;  // seconds
  double tensors = 0;    // that its host gathers one by one
};

class Ranks {
 public:
  // Why the job does not come apart, or nothing.
  static std::optional<Diagnostic> refusal(const job::CheckedJob& job);

  // `job` stays where it is. Its own split of layers says nothing. Requires that nothing is refused.
  Ranks(const job::CheckedJob& job, const calibration::Calibration& calibration);

  // The rank that the other calls ask of: layers first, first + 1, ... of which those are recomputed
  // whose `full` is not 0; the first rank has the embedding, the last one all prediction modules and
  // the output layer.
  void put(int rank, int first, std::span<const std::uint8_t> full);
  // Of the rank last put.
  const memory::StageMemory& memory();
  RankCost cost();

  // Seconds of a step of the whole pipeline.
  double step(std::span<const RankCost* const> ranks);

  // What a bound of the step may know.
  const schedule::Order& order() const { return order_; }
  std::span<const schedule::LinkCost> links() const;
  double host(double most_tensors) const;

 private:
  void price_new_programs();

  const job::CheckedJob& job_;
  const Pricing pricing_;
  const memory::StateRules state_;
  const memory::StageInput frame_;
  WorkspacePtr workspace_;
  lower::ProgramSet set_;
  std::vector<ProgramTime> times_;  // by program
  std::size_t priced_ = 0;
  schedule::Order order_;
  schedule::Peaks held_;   // of ranks that keep anything between their passes
  schedule::Peaks empty_;  // and of those that keep nothing
  memory::StageMemory memory_;
  int rank_ = 0;
};

}  // namespace eratos::projection
