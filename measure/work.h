// A piece made ready on a device, and the device itself, without a word of libtorch: what includes
// this compiles in a second.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "plan.h"

namespace eratos::device {

// One group of pieces (Plan::groups), with its data in place.
class Work {
 public:
  virtual ~Work() = default;

  // Runs `calls` calls, `samples` times. Appends the seconds of one call to out[i] for the i-th
  // piece of the group, a number a sample.
  virtual void sample(int calls, int samples, std::vector<std::vector<double>>& out) = 0;

  // Largest difference from a reference in double precision, as a share of the reference's largest
  // value; < 0 where there is none. `allowed`: what this number format explains.
  virtual double check(double& allowed) = 0;

  // What was done otherwise than the piece's name says.
  virtual std::vector<std::string> notes() const { return {}; }
};

struct MemoryPhase {
  double peak = -1;      // most bytes held at once during the phase
  double reserved = -1;  // most that the allocator had taken from the device by its end
  double live = -1;      // held at its end
};

enum class Reference { compute, memory };

// One device of one process. Every function may throw CannotMeasure, OutOfMemory among it.
class Device {
 public:
  virtual ~Device() = default;

  virtual std::string kind() const = 0;      // cpu or cuda (ROCm builds of libtorch say cuda)
  virtual std::string name() const = 0;      // "NVIDIA H200"
  virtual std::string driver() const = 0;    // "" on a processor
  virtual std::string libtorch() const = 0;  // version, then its BLAS or CUDA
  virtual std::string backend() const = 0;   // of collectives; "" alone
  virtual int threads() const = 0;

  virtual std::unique_ptr<Work> make(const Plan& plan, const std::vector<std::size_t>& group) = 0;
  // What is timed now and then to see whether the device is as fast as it was: a small product, or
  // a copy larger than the last-level cache.
  virtual std::unique_ptr<Work> reference(Reference of) = 0;
  // One for each piece of a group of kind `memory`.
  virtual std::vector<MemoryPhase> memory(const Plan& plan,
                                          const std::vector<std::size_t>& group) = 0;

  // Gives back what no tensor holds, after a piece or when one did not fit.
  virtual void release() = 0;
  // Ranks other than 0: takes part in what rank 0 measures together, until it says that it is done.
  virtual void follow(const Plan& plan) = 0;
  // Rank 0: the others may end.
  virtual void dismiss() = 0;
};

struct Rank;

// `kind`: cpu or cuda. `threads`: of one process on a processor; 0 for all it may run on, divided
// among the ranks of one host. `cache`: bytes of the last-level cache; < 0: as the system says.
// Errors: Fault kEnvironment where there is no such device.
std::unique_ptr<Device> open_device(const std::string& kind, int threads, double cache,
                                    const Rank& rank);

}  // namespace eratos::device
