// How this program ends, and the three things that can be wrong.
#pragma once

#include <stdexcept>
#include <string>

namespace eratos::device {

// The exit codes of `eratos` (docs/USING.md); scripts rely on them.
enum ExitCode : int {
  kAnswered = 0,
  kUsage = 2,
  kBadInput = 3,
  kEnvironment = 4,
  kBug = 70,
  kInterrupted = 130,
};

// Ends the whole program with `code`; the message says what to do about it.
class Fault : public std::runtime_error {
 public:
  Fault(ExitCode ends_with, const std::string& what) : std::runtime_error(what), code(ends_with) {}
  ExitCode code;
};

// Ends one piece of work: it is listed as unmeasured with this reason, and the rest goes on.
class CannotMeasure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The device has no room for one piece: as above.
class OutOfMemory : public CannotMeasure {
 public:
  using CannotMeasure::CannotMeasure;
};

}  // namespace eratos::device
