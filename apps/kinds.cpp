#include "apps/kinds.h"

#include <vector>

#include <fmt/format.h>

namespace eratos::apps {

Result<KindWord> kind_called(const std::string& word) {
  constexpr KindWord kKinds[] = {{"models", reader::Kind::models},
                                 {"accelerators", reader::Kind::accelerators},
                                 {"clusters", reader::Kind::clusters},
                                 {"schedules", std::nullopt},
                                 {"calibrations", reader::Kind::calibrations},
                                 {"frameworks", reader::Kind::frameworks}};
  std::vector<std::string> known;
  for (const KindWord& k : kKinds) {
    if (word == k.word || word + 's' == k.word) return k;
    known.emplace_back(k.word);
  }
  const std::string near = nearest_name(word, known);
  const std::string hint = near.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                                        : fmt::format("did you mean `{}`?", near);
  return fault({{}, fmt::format("unknown kind `{}`; {}", word, hint)});
}

}  // namespace eratos::apps
