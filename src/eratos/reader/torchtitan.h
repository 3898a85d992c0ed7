// torchtitan's configuration: TOML files, and Primus experiments that run it.
//
// Worked example: llama3_70b.toml (tensor_parallel_degree 8, data_parallel_shard_degree -1,
// local_batch_size 8, no global_batch_size) is model llama3.1-70b, tp 8 with sequence parallelism,
// ZeRO-3, micro-batch 8, and 8 sequences a data-parallel rank: 64 a step on 64 accelerators.
// Source of the rules: pytorch/torchtitan torchtitan/config/job_config.py (defaults),
// torchtitan/distributed/activation_checkpoint.py, pipeline_parallel.py, models/*/infra.
#pragma once

#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/import_report.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

struct TorchtitanSource {
  std::string format;                   // "torchtitan (TOML)"
  std::string name;                     // of the job
  std::string preset_root;              // files below it are presets
  std::string compiled = "torchtitan";  // profiles of compiled and eager blocks
  std::string eager = "torchtitan-eager";
};

// What says that `root` is one: "" when it is none.
std::string torchtitan_evidence(const text::Node& root);

Result<JobRead> read_torchtitan(const text::Node& root, const TorchtitanSource& source);

}  // namespace eratos::reader
