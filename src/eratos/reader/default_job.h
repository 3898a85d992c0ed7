// A job where only the architecture is known: a catalogue name, a Hugging Face config.json.
//
// Worked example: `eratos project llama3.1-70b --cluster h100-sxm-8x8` trains on 4,096 tokens, 512
// sequences a step, micro-batch 1, bf16, ZeRO-1, framework megatron; every one of these is listed
// as a default and can be changed with --set.
#pragma once

#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/model/architecture.h"
#include "eratos/reader/import_report.h"

namespace eratos::reader {

inline constexpr int kDefaultSequence = 4096;
inline constexpr int kDefaultGlobalBatch = 512;

// Provenance of the model is the caller's.
Result<JobRead> default_job(model::Architecture model, const std::string& name,
                            const std::string& format);

}  // namespace eratos::reader
