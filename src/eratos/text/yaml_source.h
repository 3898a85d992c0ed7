// What do the characters at a token's mark say that the parser's events do not?
//
// yaml-cpp 0.7 lets two mistakes pass in silence when they stand at the end of a file: a quote that
// is never closed, and a key without its colon. Both would change a job unseen, so the text itself
// is asked. `at` counts bytes from 0 and is where the token, or its first `&anchor` or `!tag`,
// begins.
#pragma once

#include <cstddef>
#include <string_view>

namespace eratos::text {

// `at` moved past anchors and tags to the scalar itself.
std::size_t skip_properties(std::string_view yaml, std::size_t at);

// A quoted scalar begins at `at` and its closing quote is missing.
bool is_unclosed_quote(std::string_view yaml, std::size_t at);

// An unquoted `~` or `null` begins at `at`; false for a null that is only the absence of a value.
bool is_null_word(std::string_view yaml, std::size_t at);

// The scalar `key` (quotes resolved) begins at `at` as the key of a block mapping, and neither a
// colon follows nor a `?` precedes it.
bool lacks_colon(std::string_view yaml, std::size_t at, std::string_view key);

}  // namespace eratos::text
