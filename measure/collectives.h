// Collectives that this program's ranks run together.
//
// Rank 0 leads: it says at the store what comes next, the others follow, so that all of them do the
// same. A sample is the slowest rank's: of `calls` collectives one after another behind a barrier.
#pragma once

#include <memory>
#include <string>

#include "plan.h"
#include "ranks.h"
#include "torch_device.h"

namespace eratos::device {

class Ranks {
 public:
  // gloo on a processor; on a GPU NCCL or RCCL where this program was built with it. Errors: Fault
  // kEnvironment where ranks do not meet, or this program has no way to let them.
  static std::unique_ptr<Ranks> meet(const Place& place, const Rank& rank);
  virtual ~Ranks() = default;

  virtual std::string backend() const = 0;
  // On rank 0. Errors: CannotMeasure where the piece wants another number of ranks.
  virtual std::unique_ptr<Work> make(const Piece& piece, std::size_t index) = 0;
  virtual void follow(const Plan& plan) = 0;
  virtual void dismiss() = 0;
};

}  // namespace eratos::device
