// Reading and writing whole files, without surprises: nothing large is read, nothing is lost.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/text/limits.h"

namespace eratos::text {

// The bytes of the file. Errors: no such file (a near name in the same folder is suggested), a
// folder, unreadable, more than `max_bytes` (known from the size of a regular file before anything
// is read; pipes are read up to the limit).
Result<std::string> read_file(const std::string& path, std::size_t max_bytes = kMaxConfigBytes);

enum class Overwrite { no, yes };

// Writes all of `text` or nothing: into a new file beside `path`, which then takes its name. With
// Overwrite::no an existing file is a fault and stays as it is, even when it appears meanwhile.
// With Overwrite::yes the permissions of the old file are kept, and a symbolic link keeps pointing
// where it did. A device or pipe (/dev/stdout) is written directly.
Result<void> write_file(const std::string& path, std::string_view text,
                        Overwrite overwrite = Overwrite::no);

// "the file has 100000000 bytes, the limit is 1000000", for everyone who refuses by size.
Diagnostic too_large(const std::string& file, std::size_t bytes, std::size_t max_bytes);

}  // namespace eratos::text
