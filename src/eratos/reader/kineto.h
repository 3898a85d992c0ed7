// One step of a trace of the PyTorch profiler, with its kernels tied to what launched them.
//
// Read first: kineto_events.h (the file), projection/step_trace.h (the answer).
//
// The file is read twice: first for its steps and devices, then for the events of one step alone,
// so that memory depends on the step and not on the file. Which step? The one asked for; else, of
// the complete ones, the one of median length (the first of several), for the first of a trace
// often still warms up. Its window is the accelerator's where another step follows: from the first
// kernel that it launched on the stream that computes most to the first that the next one launched
// there. Else it is the host's
// annotation, drawn out to the last kernel that the step launched. A trace without steps (no
// ProfilerStep#N) is one window from its first kernel to its last.
//
// A kernel's call is the one of its `correlation`, the last that began before it; its op the
// innermost host op around that call, else the one of its `External id`. Backward is what runs
// inside an autograd node; such a kernel's module is that of the forward op of the same sequence
// number. Source: pytorch/kineto libkineto/src/output_json.cpp; pytorch
// torch/csrc/profiler/collection.cpp.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/projection/step_trace.h"
#include "eratos/reader/kineto_events.h"

namespace eratos::reader {

struct TraceOptions {
  std::optional<std::int64_t> step;    // of ProfilerStep#N
  std::optional<std::int64_t> device;  // the one whose kernels take longest, where it is not said
  TraceLimits limits;
};

// Opens the trace from its beginning; called once a reading.
using OpenTrace = std::function<Result<std::unique_ptr<TraceSource>>()>;

// Errors: those of read_events(); no kernel of a device; no such step, with those that there are; a
// step without a kernel; a step of more events than the limits allow.
Result<projection::TracedStep> read_trace_step(const OpenTrace& open, const std::string& file,
                                               const TraceOptions& options);

}  // namespace eratos::reader
