// Megatron-LM's arguments wherever people keep them: a YAML mapping of options, a launch script or
// argument string, the block a run prints at its start.
//
// Each becomes the same flat mapping (`num_layers: 32`, with the place of each value), which
// job_from_megatron() reads.
//
// Worked example: "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --num-layers 32 --swiglu
// --disable-bias-linear" gives num_layers 32, swiglu true, add_bias_linear false, and 16
// accelerators; of a log, "  num_layers ...................................... 32" the same, and
// the accelerators from world_size.
// Source: NVIDIA/Megatron-LM megatron/training/arguments.py (parse_args, _print_args).
#pragma once

#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/environment.h"
#include "eratos/reader/import_report.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// What says that a mapping holds Megatron's options (`MODEL_ARGS`, keys that begin with `--`, its
// own names): "" when it does not.
std::string megatron_args_evidence(const text::Node& root);
Result<JobRead> read_megatron_yaml(const text::Node& root, const std::string& path,
                                   const Environment& environment);

// The same for text that is no mapping.
bool is_megatron_log(std::string_view text);
bool is_megatron_script(std::string_view text);
Result<JobRead> read_megatron_log(std::string_view text, const std::string& path);
Result<JobRead> read_megatron_script(std::string_view text, const std::string& path,
                                     const Environment& environment);

}  // namespace eratos::reader
