// From JSON text to the same tree that YAML gives.
//
// Strict RFC 8259: no comments, no trailing commas, no NaN. Stricter still: a key given twice is a
// fault (RFC 8259 section 4 leaves its meaning open). A number with a point or an exponent is
// floating, any other an integer; `1e-5` is a number here, though YAML would call it a string.
// Source: RFC 8259, "The JavaScript Object Notation (JSON) Data Interchange Format", 2017.
#pragma once

#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/text/limits.h"
#include "eratos/text/tree.h"

namespace eratos::text {

// `file` names the text in diagnostics. Errors: not JSON (line, column, what was expected), not
// text, beyond `limits`.
Result<Node> parse_json(std::string_view text, const std::string& file, TreeLimits limits = {});

// Errors as above, and those of read_file (file.h).
Result<Node> parse_json_file(const std::string& path, TreeLimits limits = {});

// parse_json_file for names that end in .json, parse_yaml_file for all others.
Result<Node> parse_config_file(const std::string& path, TreeLimits limits = {});

}  // namespace eratos::text
