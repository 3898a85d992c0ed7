// From the flat arguments of a Megatron run (its own names, Primus's additions) to a job.
//
// The architecture is built from the keys, never looked up by a name. Every field of the job is
// given a provenance; keys that the user set and nothing read are listed with the reason; a key
// that looks like a misspelt one is a fault.
//
// Worked example: pipeline_model_parallel_size 4 with a layout string of 16 stages is pp 4, vpp 4;
// recompute_granularity full with recompute_method block and 0 layers is no recompute.
// Source of the rules: NVIDIA/Megatron-LM megatron/training/arguments.py (validate_args) and
// megatron/core/transformer/transformer_config.py; AMD-AGI/Primus@fd1eeabb for its own keys.
#pragma once

#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/import_report.h"
#include "eratos/reader/megatron_keys.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

struct MegatronSource {
  std::string format;       // "Primus experiment (Megatron)"
  std::string framework;    // profile: "primus-megatron"
  std::string name;         // of the job
  std::string model;        // of the architecture; "" takes the job's
  std::string preset_root;  // see MegatronKeys
  Location name_at;
  Location model_at;
  // Every argument is there, those too that nobody set (a log): what is not read is not listed.
  bool complete = false;
};

// The job without its cluster. A vocabulary that cannot be known is left 0 and named in
// report.provenance["model.vocab"]; read_job() refuses it unless --set gives one.
Result<JobRead> job_from_megatron(const text::Node& tree, const MegatronSource& source);

// The parts, one file each.
void read_megatron_model(MegatronKeys& keys, job::JobSpec& job);
void read_megatron_parallel(MegatronKeys& keys, job::JobSpec& job);
void read_megatron_training(MegatronKeys& keys, job::JobSpec& job);
// Lists what the user set and nobody read.
void report_unused(MegatronKeys& keys, ImportReport& report, Diagnostics& faults);

}  // namespace eratos::reader
