// The words of --axes: `tp=1,2 rest=job` is two.
#pragma once

#include <string>
#include <vector>

namespace eratos::apps {

std::vector<std::string> axis_words(const std::string& text);

}  // namespace eratos::apps
