// DeepSpeed's JSON and the Hugging Face Trainer's arguments (YAML or JSON).
//
// Neither says what is trained: the architecture is that of the config.json in the same folder, or
// of the folder or catalogue model that `model_name_or_path` names.
//
// Worked example: {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
// "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 3}} beside the config.json of
// Llama 3.1 8B is ZeRO-3 on the 64 / (2 x 4) = 8 accelerators that these three imply.
// Source of the rules: deepspeedai/DeepSpeed docs/_pages/config-json.md (batch sizes, "auto" is the
// Trainer's), huggingface/transformers src/transformers/training_args.py (defaults).
#pragma once

#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/environment.h"
#include "eratos/reader/import_report.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// What says that `root` is one: "" when it is none.
std::string deepspeed_evidence(const text::Node& root);
std::string trainer_evidence(const text::Node& root);

Result<JobRead> read_deepspeed(const text::Node& root, const std::string& path);
Result<JobRead> read_trainer(const text::Node& root, const std::string& path,
                             const Environment& environment);

}  // namespace eratos::reader
