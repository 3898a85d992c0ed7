#include "apps/numbers.h"

#include <charconv>
#include <string>

namespace eratos::apps {

double number_of(const Arguments& arguments, std::string_view flag, double otherwise) {
  const std::string word = arguments.value(flag);
  double value = otherwise;
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

projection::Options options_of(const Arguments& arguments) {
  projection::Options options;
  options.memory_margin = number_of(arguments, "--memory-margin", options.memory_margin);
  return options;
}

}  // namespace eratos::apps
