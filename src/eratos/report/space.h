// The space of a search, axis by axis, and what each rule removed of it.
#pragma once

#include <string>
#include <vector>

#include "eratos/report/table.h"
#include "eratos/search/walk.h"
#include "eratos/text/tree.h"

namespace eratos::report {

std::string space_text(const search::Space& space, const search::Count& count, const Style& style);

// The names of rules.
text::Node rules_node(const std::vector<const search::Rule*>& rules);

// {raw, legal, axes: [{axis, values, left}], left_out: [{axis, value}], rules: [{rule, ground,
// removed, reason, source}]}
text::Node space_node(const search::Space& space, const search::Count& count);
std::string space_json(const search::Space& space, const search::Count& count,
                       const std::string& version);

}  // namespace eratos::report
