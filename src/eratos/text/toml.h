// From TOML text to the same tree that YAML and JSON give.
//
// TOML 1.0, as toml++ reads it. Integers are decimal in the tree whatever their notation
// (`10_000`, `0xff`), dates and times are strings, keys stand in the order of the file.
//
// Worked example: of "[training]\nseq_len = 8_192\n", find_at(root, "training.seq_len") is the
// integer 8192 at 2:11.
// Source: TOML v1.0.0, https://toml.io/en/v1.0.0.
#pragma once

#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/text/limits.h"
#include "eratos/text/tree.h"

namespace eratos::text {

// `file` names the text in diagnostics. Errors: not TOML (a key given twice is none), not text,
// beyond `limits`.
Result<Node> parse_toml(std::string_view text, const std::string& file, TreeLimits limits = {});

}  // namespace eratos::text
