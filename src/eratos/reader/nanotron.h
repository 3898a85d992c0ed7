// nanotron's YAML configuration.
//
// Worked example: config_tiny_llama.yaml (dp 4, tp 2, pp 1, micro_batch_size 3, one accumulation)
// is 12 sequences a step on 8 accelerators, ZeRO-0, sequence parallelism (REDUCE_SCATTER).
// Keys given twice are read as PyYAML reads them, the last one counts, and are warned of: one of
// nanotron's own examples has `moe_config` twice.
// Source of the rules: huggingface/nanotron src/nanotron/config, src/nanotron/nn/moe.py.
#pragma once

#include <string>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/import_report.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

// What says that `root` is one: "" when it is none.
std::string nanotron_evidence(const text::Node& root);

Result<JobRead> read_nanotron(const text::Node& root, const std::string& path);

}  // namespace eratos::reader
