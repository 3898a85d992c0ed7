// The kinds of things that `list` and `show` know, as the user names them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/reader/catalogue.h"

namespace eratos::apps {

struct KindWord {
  std::string_view word;             // "models"
  std::optional<reader::Kind> kind;  // none for schedules, which are code and not data
};

// Plural or singular. Errors: unknown, with the nearest.
Result<KindWord> kind_called(const std::string& word);

}  // namespace eratos::apps
