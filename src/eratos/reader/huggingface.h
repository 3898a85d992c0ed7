// Hugging Face `config.json`: an architecture; everything else about the job is a default.
//
// Known model types: llama, mistral, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe, deepseek_v2,
// deepseek_v3, gpt2, gemma, gemma2, gemma3_text, phi3, olmo2, gpt_oss. A new type is one line in
// the table of huggingface.cpp.
//
// Worked example: the config.json of Qwen/Qwen3-30B-A3B (qwen3_moe, 48 layers, 128 experts) gives
// 30,532,122,624 parameters, those of the catalogue's file.
// Source of defaults and meanings: huggingface/transformers src/transformers/models/*/
// configuration_*.py and modeling_*.py.
#pragma once

#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/import_report.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

bool is_huggingface(const text::Node& root);

// Errors: a model type that is not known (with the known ones), missing sizes, and parts that are
// not modelled (vision towers).
Result<JobRead> read_huggingface(const text::Node& root, const std::string& path);

}  // namespace eratos::reader
