// The events of a Chrome trace, one after another, in memory that does not grow with the file.
//
// Answers "what does this trace of the PyTorch profiler hold?" for files of any size: the JSON is
// parsed as it comes, and each event is handed on and forgotten. Both forms are read: an object
// with `traceEvents` (Kineto, torch.profiler) and a bare list (the profiler before it). Times are
// microseconds in the file and whole nanoseconds here; a number with more decimals is rounded.
// Source: Chrome's Trace Event Format; pytorch/kineto libkineto/src/output_json.cpp;
// torch/autograd/profiler.py (export_chrome_trace).
//
// Worked example: {"ph": "X", "cat": "kernel", "name": "k", "ts": 4.25, "dur": 1, "pid": 0, "tid":
// 7, "args": {"stream": 7, "correlation": 9}} is a kernel from 4250 to 5250 ns on stream 7.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/projection/step_trace.h"

namespace eratos::reader {

// Bytes of a trace, from wherever they come.
class TraceSource {
 public:
  TraceSource() = default;
  TraceSource(const TraceSource&) = delete;
  TraceSource& operator=(const TraceSource&) = delete;
  virtual ~TraceSource() = default;
  // Up to `most` bytes; 0 at the end.
  virtual std::size_t read(char* to, std::size_t most) = 0;
  // Why it ended before its end: a damaged archive, a read error; "" where it did not.
  virtual std::string failure() const { return ""; }
};

// What a trace may ask of the memory; beyond it the file is refused.
struct TraceLimits {
  std::uint64_t bytes = 256'000'000'000;  // unpacked
  std::size_t value_bytes = 16'000'000;   // of one string or number
  std::size_t depth = 64;
  std::size_t step_events = 4'000'000;  // that one step may keep
  std::size_t names = 1'000'000;        // different ones of a step
};

enum class EventKind : std::uint8_t {
  other,
  host_op,
  runtime,  // a call of CUDA or HIP
  kernel,
  copy,
  fill,
  annotation,         // of the user, on the host
  device_annotation,  // the same as the device saw it
  python,             // a Python function or an nn.Module
};

struct TraceEvent {
  EventKind kind = EventKind::other;
  std::string name;
  projection::Nanoseconds start = 0;
  projection::Nanoseconds end = 0;
  bool timed = false;  // a complete event with a time that is not negative
  std::int64_t process = 0;
  std::int64_t thread = 0;
  std::int64_t correlation = -1;
  std::int64_t external = -1;
  std::int64_t sequence = -1;
  std::int64_t stream = -1;
  std::int64_t device = -1;
  std::vector<std::vector<double>> dims;
  std::vector<std::string> types;
  std::string collective;  // as the process group calls it
  std::string dtype;
  double in_elements = 0;
  double out_elements = 0;
  double group_size = 0;

  bool on_device() const {
    return kind == EventKind::kernel || kind == EventKind::copy || kind == EventKind::fill;
  }
};

// What stands beside the events.
struct TraceHeader {
  bool list_form = false;                                     // the bare list of the older profiler
  std::vector<std::pair<std::int64_t, std::string>> devices;  // number, driver's name
  std::int64_t rank = -1;
  std::int64_t world = 0;
  std::uint64_t events = 0;
  std::uint64_t bytes = 0;
  std::uint64_t untimed = 0;   // complete events without a time
  std::uint64_t negative = 0;  // with a negative length
};

using SeeEvent = std::function<void(const TraceEvent&)>;

// Hands every event to `see`. Errors, with line and column: not JSON, cut off in the middle,
// another kind of JSON, beyond the limits, a source that failed.
Result<TraceHeader> read_events(TraceSource& source, const std::string& file,
                                const TraceLimits& limits, const SeeEvent& see);

}  // namespace eratos::reader
