// From YAML text to a tree that knows its lines, as PyYAML would read it, or every reason why not.
//
// Follows PyYAML where YAML leaves room: the kinds of plain words (scalar.h) and merge keys (`<<`:
// merged keys come first, the mapping's own keys win, of several sources the earlier wins).
// Stricter than PyYAML on purpose: a key given twice, a key that is no scalar, tags other than
// !!str !!int !!float !!bool !!null !!seq !!map, and a second document are faults.
//
// Values reached through an alias carry the place where they are written, not the alias's; a value
// that is missing (`key:`) carries the place of its key.
#pragma once

#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/text/limits.h"
#include "eratos/text/tree.h"

namespace eratos::text {

// `file` names the text in diagnostics. An empty document is a null node at line 1.
// Errors: not YAML, not text, beyond `limits`, and the stricter rules above. Keys given twice are
// all reported; any other fault ends the reading.
Result<Node> parse_yaml(std::string_view text, const std::string& file, TreeLimits limits = {});

// The same, but of a key given twice the last value counts, as PyYAML's own loader has it, and the
// repetitions go to `repeated` for the caller to judge: some files that their framework reads every
// day have them.
Result<Node> parse_yaml_last_key(std::string_view text, const std::string& file,
                                 Diagnostics& repeated, TreeLimits limits = {});

// Errors as above, and those of read_file (file.h); a file beyond limits.bytes is never read.
Result<Node> parse_yaml_file(const std::string& path, TreeLimits limits = {});

}  // namespace eratos::text
