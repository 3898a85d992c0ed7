// Is this text at all?
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"

namespace eratos::text {

// Nothing when `bytes` is UTF-8 text; otherwise what the first byte is that cannot be in a text
// file (an invalid UTF-8 sequence, NUL, a control character other than tab, line feed and carriage
// return), with its line, column and offset from 0.
std::optional<Diagnostic> find_non_text(std::string_view bytes, const std::string& file);

// Length in bytes of the well-formed UTF-8 sequence that `bytes` begins with; 0 when there is none.
std::size_t utf8_length(std::string_view bytes);

// `bytes` without a leading UTF-8 byte order mark.
std::string_view without_byte_order_mark(std::string_view bytes);

}  // namespace eratos::text
