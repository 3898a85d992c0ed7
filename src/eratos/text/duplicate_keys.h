// Which keys of one mapping are given twice? Shared by the parsers, for a tree must not hide them.
#pragma once

#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/text/tree.h"

namespace eratos::text {

// Appends a Diagnostic at every repetition, naming both lines. Stops when `all` holds 100.
void report_duplicate_keys(const std::vector<Entry>& entries, Diagnostics& all);

// Leaves of entries with one key the last, where the first stood.
void keep_last_keys(std::vector<Entry>& entries);

}  // namespace eratos::text
