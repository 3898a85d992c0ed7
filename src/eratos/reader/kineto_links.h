// What launched each kernel of a step, inside which op and module, and what a message moves.
//
// Answers how the events of one step hang together: a kernel and its call by `correlation`, the
// call and the ops and modules around it by thread and time, a backward op and its forward one by
// sequence number (kineto.h has the rules).
//
// Worked example: a kernel of correlation 9; a call of correlation 9 on thread 1 at 4 us; ops of
// thread 1: aten::linear from 2 to 12 us, aten::mm from 3 to 11. The kernel's op is aten::mm, whose
// parent is aten::linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "eratos/projection/step_trace.h"
#include "eratos/reader/kineto_events.h"

namespace eratos::reader {

// The second reading keeps what may belong to the step.
struct StepEvents {
  std::vector<TraceEvent> device;  // kernels, copies, fills
  std::vector<TraceEvent> runtime;
  std::vector<TraceEvent> ops;
  std::vector<TraceEvent> spans;  // modules and annotations
  std::size_t size() const { return device.size() + runtime.size() + ops.size() + spans.size(); }
};

// Borrows both for its life; sorts the events.
class StepLinks {
 public:
  StepLinks(StepEvents& events, projection::TracedStep& step);
  StepLinks(const StepLinks&) = delete;
  StepLinks& operator=(const StepLinks&) = delete;
  ~StepLinks();

  // Start of the host's call that launched it, or -1.
  projection::Nanoseconds launched(const TraceEvent& kernel) const;
  // Of compute kernels; of several the lowest number.
  std::int64_t busiest_stream();
  // Appends the kernel to the step, and the ops around its launch that are not there yet.
  void add(const TraceEvent& kernel);

 private:
  class Linker;
  std::unique_ptr<Linker> linker_;
};

}  // namespace eratos::reader
