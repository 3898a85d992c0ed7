// A tree as YAML with a remark at the end of each value's line.
#pragma once

#include <functional>
#include <string>

#include "eratos/text/tree.h"

namespace eratos::report {

// `remark(path)` is what stands behind `#` of the value at `path`; "" for none. Lists of scalars
// are written on one line; everything else in block style. The remarks line up. Reads back as
// `root`.
std::string annotated_yaml(const text::Node& root,
                           const std::function<std::string(const std::string& path)>& remark);

}  // namespace eratos::report
