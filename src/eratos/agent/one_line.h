// What a server or a model wrote, fit for a terminal and a report.
//
// Their words are shown as they came but for what would steer the screen that shows them: control
// characters (an escape sequence can retitle a terminal or rewrite the lines above it) and the
// marks that turn the direction of writing. Each run of those and of blanks is one blank.
//
// Worked example: "done\x1b[2J\n  at \xC2\x9B" is "done [2J at".
// Source: ECMA-48, control functions C0 and C1; Unicode 15.1, section 23.2, and UAX #9, the
// explicit directional formatting characters U+202A to U+202E and U+2066 to U+2069.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace eratos::agent {

// `text` in one line of at most `bytes` bytes and "..." where it is longer; no character of UTF-8
// is cut in two.
std::string one_line(std::string_view text, std::size_t bytes);

}  // namespace eratos::agent
