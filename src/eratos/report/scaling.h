// The best configuration of one job on clusters of several sizes: how far does it scale?
//
// Efficiency is tokens a second and accelerator against the smallest cluster that has an answer.
#pragma once

#include <string>
#include <vector>

#include "eratos/report/search.h"

namespace eratos::report {

// `each`: one search a size, smallest first; their tops hold at most one configuration.
std::string scaling_text(const std::vector<const SearchAnswer*>& each, const Style& style);
std::string scaling_json(const std::vector<const SearchAnswer*>& each);

}  // namespace eratos::report
