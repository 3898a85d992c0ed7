// NeMo's and Megatron-Bridge's overrides as YAML: Megatron's arguments in groups, under names that
// are often the same.
//
// The groups are flattened into Megatron's own keys (kNemoKeys says which is which) and read by
// job_from_megatron(). A model that is only named (`recipe`, `hf_path`) is the catalogue's.
//
// Worked example: {model: {tensor_model_parallel_size: 2, ...}, train: {micro_batch_size: 1,
// global_batch_size: 128}} gives tensor_model_parallel_size 2, micro_batch_size 1, ...; NeMo 1's
// `trainer: {devices: 8, num_nodes: 4}` says 32 accelerators.
// Source: NVIDIA-NeMo/Megatron-Bridge src/megatron/bridge/training/config.py and models/*; NVIDIA/
// NeMo examples/nlp/language_modeling/conf/megatron_gpt_config.yaml.
#pragma once

#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/environment.h"
#include "eratos/reader/import_report.h"
#include "eratos/reader/megatron_job.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// What says that `root` is one: "" when it is none.
std::string nemo_evidence(const text::Node& root);

Result<JobRead> read_nemo(const text::Node& root, const std::string& path,
                          const Environment& environment);

// The same from keys that something else resolved (a Primus experiment for megatron_bridge).
Result<JobRead> job_from_nemo(const text::Node& keys, const MegatronSource& source);

}  // namespace eratos::reader
