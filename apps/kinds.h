// The kinds of things that `list` and `show` know, as the user names them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "eratos/base/diagnostic.h"
#include "eratos/calibration/parameters.h"
#include "eratos/reader/catalogue.h"

namespace eratos::apps {

struct KindWord {
  std::string_view word;             // "models"
  std::optional<reader::Kind> kind;  // none for schedules and parameters, which are code and not data
};

// Plural or singular. Errors: unknown, with the nearest.
Result<KindWord> kind_called(const std::string& word);

// One constant that a fit may move, as list and show print it.
text::Node parameter_node(const calibration::Parameter& parameter);

}  // namespace eratos::apps
