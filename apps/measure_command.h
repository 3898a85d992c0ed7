// A program of the user's that times one job: `eratos tune --measure-command CMD`.
//
// CMD runs under `sh -c` with
//   ERATOS_JOB      the job as eratos's own YAML
//   ERATOS_CONFIG   the same as the framework's own file; not set where it has no writer
//   ERATOS_DIGEST   its digest
//   ERATOS_BENCHMARK_GPUS, ERATOS_BENCHMARK_ARCH   what a target file says of the host that
//   measures
// in its environment, and prints one JSON mapping as its last line: {"step_s": 9.81}, and as it
// knows them "tokens_per_s_per_gpu", "device_peak_bytes", "cost_s"; or {"out_of_memory": true}. A
// command that ends without one has failed, which says nothing of the job.
//
// Each job is measured once, whatever happens to eratos: the command belongs to a process group of
// its own and writes into the run's folder, under a lock that lives as long as it does. An eratos
// that was killed and is resumed waits for a command that still runs, and takes its answer.
//
// Worked example: FOLDER/measurements/3f1c.yaml is the job, 3f1c.out what the command printed,
// 3f1c.rc its exit status, there only once it has ended.
#pragma once

#include <functional>
#include <string>

#include "eratos/agent/workshop.h"
#include "eratos/base/diagnostic.h"

namespace eratos::apps {

struct MeasureRequest {
  std::string command;
  std::string folder;  // of the measurements; made where it is not there
  std::string digest;
  std::string job;     // text of the YAML
  std::string config;  // text of the framework's file, or ""
  double tokens_per_step = 0;
  int gpus = 1;
  int benchmark_gpus = 0;      // 0: not said
  std::string benchmark_arch;  // "": not said
};

// `interrupted` is asked while it waits; then the command is ended.
Result<agent::Measured> measure_by_command(const MeasureRequest& request,
                                           const std::function<bool()>& interrupted);

// The last line of what a command printed. Errors: none that is a JSON mapping with a figure.
Result<agent::Measured> measured_from(const std::string& printed, const MeasureRequest& request);

}  // namespace eratos::apps
