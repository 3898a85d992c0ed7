#include "apps/axis_words.h"

#include <cstddef>

namespace eratos::apps {

std::vector<std::string> axis_words(const std::string& text) {
  std::vector<std::string> out;
  std::size_t begin = 0;
  while ((begin = text.find_first_not_of(" \t\n", begin)) != std::string::npos) {
    const std::size_t end = text.find_first_of(" \t\n", begin);
    out.push_back(text.substr(begin, end - begin));
    begin = end;
    if (end == std::string::npos) break;
  }
  return out;
}

}  // namespace eratos::apps
