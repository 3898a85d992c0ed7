// One look at one configuration: what was asked, what it cost, what came back.
//
// Four fidelities, each dearer than the one before: memory (exact by the model, free), simulate
// (the whole projection, microseconds), measure (parts of the job or the job itself timed on a
// device), run (a real run that the user makes, whose log is read back). A trial at one fidelity
// says nothing against another at a higher one of the same job.
//
// Worked example: {"parallel.tp=4", "batch.micro=2"} on a job of tp 8 is the trial of tp 4 and
// micro-batch 2 with everything else as it was; its digest is that of the whole normalised job, so
// that {"batch.micro=2", "parallel.tp=4"} is the same trial.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace eratos::agent {

enum class Fidelity : std::uint8_t { memory, simulate, measure, run };
inline constexpr std::size_t kFidelities = 4;
std::string_view name_of(Fidelity f);
std::optional<Fidelity> fidelity_of(std::string_view word);

// KEY=VALUE by paths of the normalised job, as --set takes them.
using Patch = std::vector<std::string>;
std::string text_of(const Patch& patch);  // "batch.micro=2 parallel.tp=4"; "as it came" when empty

// A number with the band of error that runs like it showed; low = high = value: none is known.
struct Figure {
  double value = 0;
  double low = 0;
  double high = 0;

  friend bool operator==(const Figure&, const Figure&) = default;
};

// By the model. SI units.
struct Projected {
  Figure step_s;
  Figure tokens_per_s_per_gpu;
  Figure device_peak_bytes;
  double mfu = 0;
  // Shares of the step that are no work at the part's peak rate, the largest first.
  std::vector<std::pair<std::string, double>> losses;

  friend bool operator==(const Projected&, const Projected&) = default;
};

// By a device. Out of memory: the rest says nothing.
struct Measured {
  bool out_of_memory = false;
  double step_s = 0;
  double tokens_per_s_per_gpu = 0;
  double device_peak_bytes = 0;  // 0: not stated
  double cost_s = 0;             // device time it took, as whoever measured says
  std::string source;            // "command: ./bench.sh", "log: run.log"

  friend bool operator==(const Measured&, const Measured&) = default;
};

enum class Verdict : std::uint8_t {
  fits,
  too_big,  // by the model; nothing dearer was asked
  illegal,  // refused by the reader, check() or the schedule
  ran_out,  // on the device
  failed,   // the measurement came to no figure
};
std::string_view name_of(Verdict v);

struct Trial {
  int number = 0;  // from 1, in the order in which they were made
  Fidelity asked = Fidelity::simulate;
  Fidelity fidelity = Fidelity::memory;  // what was reached: memory where it does not fit
  std::string stage;                     // "baseline", "seeds", "investigation", "refinement"
  Patch patch;                           // against the base job, sorted by key
  std::string digest;                    // of the normalised job; "" where it could not be read
  Verdict verdict = Verdict::fits;
  std::vector<std::string> why;  // where it is not `fits`: a line a fault
  Projected projected;           // zeros where the fidelity did not reach it
  std::optional<Measured> measured;
  std::string provenance;  // what stands behind the figures
  std::string reason;      // why it was tried

  bool fits() const { return verdict == Verdict::fits; }
  friend bool operator==(const Trial&, const Trial&) = default;
};

}  // namespace eratos::agent
