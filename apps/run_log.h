// The log of a real run, read back: how long does a step take, or did it run out of memory?
//
// Answers for `eratos tune --budget-run`. What counts, best first:
//   a JSON mapping as the last line, as --measure-command prints it
//   `elapsed time per iteration (ms): 9812.3` of Megatron-LM and Primus: the median of all but the
//   first two, which warm up
//   a line that says out of memory, where no step was logged
// Source: NVIDIA/Megatron-LM megatron/training/training.py, training_log; torch raises
// `torch.OutOfMemoryError: CUDA out of memory` (`HIP out of memory` on ROCm).
//
// Worked example: 30000, 12000, 9800, 9900 and 9700 ms: the median of the last three is 9.8 s.
#pragma once

#include <string>

#include "apps/measure_command.h"
#include "eratos/agent/trial.h"
#include "eratos/base/diagnostic.h"

namespace eratos::apps {

// Errors: none of the three is there.
Result<agent::Measured> measured_from_log(const std::string& log, const MeasureRequest& request);

}  // namespace eratos::apps
