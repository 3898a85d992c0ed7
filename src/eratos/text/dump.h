// A tree as text again: one tree gives the same bytes everywhere.
#pragma once

#include <string>
#include <string_view>

#include "eratos/text/tree.h"

namespace eratos::text {

// Canonical YAML in block style, two spaces a level, ending in a line feed; parse_yaml gives an
// equal tree back. Numbers and booleans are normalised (0x10 is 16, yes is true), strings quoted
// where a reader of YAML 1.1 or 1.2 could take them for something else.
std::string to_yaml(const Node& root);

// Canonical JSON, `indent` spaces a level, or all on one line when 0; no line feed at the end.
// Infinity and NaN become null, dates strings.
std::string to_json(const Node& root, int indent = 2);

// `text` in double quotes with everything escaped that JSON demands. Bytes that are not UTF-8
// become U+FFFD.
std::string json_quoted(std::string_view text);

}  // namespace eratos::text
