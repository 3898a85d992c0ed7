#include "eratos/text/yaml_source.h"

#include <algorithm>

#include "eratos/text/scalar.h"

namespace eratos::text {
namespace {

constexpr std::size_t kNone = std::string_view::npos;

bool is_quote(std::string_view yaml, std::size_t at) {
  return at < yaml.size() && (yaml[at] == '"' || yaml[at] == '\'');
}

// Position after the closing quote of the scalar at `at`, or kNone.
std::size_t after_quoted(std::string_view yaml, std::size_t at) {
  const char quote = yaml[at];
  for (std::size_t i = at + 1; i < yaml.size(); ++i) {
    if (quote == '"' && yaml[i] == '\\') {
      ++i;
    } else if (yaml[i] == quote) {
      // In single quotes a doubled quote stands for one.
      if (quote == '"' || i + 1 >= yaml.size() || yaml[i + 1] != quote) return i + 1;
      ++i;
    }
  }
  return kNone;
}

// Position of the first character that is neither white space nor part of a comment.
std::size_t skip_space_and_comments(std::string_view yaml, std::size_t at) {
  while (true) {
    at = std::min(yaml.find_first_not_of(" \t\r\n", at), yaml.size());
    if (at >= yaml.size() || yaml[at] != '#') return at;
    at = std::min(yaml.find('\n', at), yaml.size());
  }
}

}  // namespace

std::size_t skip_properties(std::string_view yaml, std::size_t at) {
  while (at < yaml.size() && (yaml[at] == '&' || yaml[at] == '!')) {
    at = std::min(yaml.find_first_of(" \t\r\n", at), yaml.size());
    at = skip_space_and_comments(yaml, at);
  }
  return at;
}

bool is_unclosed_quote(std::string_view yaml, std::size_t at) {
  at = skip_properties(yaml, at);
  return is_quote(yaml, at) && after_quoted(yaml, at) == kNone;
}

bool is_null_word(std::string_view yaml, std::size_t at) {
  const std::size_t end = std::min(yaml.find_first_of(" \t\r\n,]}", at), yaml.size());
  return at < end && pyyaml_kind(yaml.substr(at, end - at)) == ScalarKind::null;
}

bool lacks_colon(std::string_view yaml, std::size_t at, std::string_view key) {
  const std::size_t before = at == 0 ? kNone : yaml.find_last_not_of(" \t\r\n", at - 1);
  if (before != kNone && yaml[before] == '?') return false;
  at = skip_properties(yaml, at);
  if (is_quote(yaml, at)) {
    at = after_quoted(yaml, at);
    if (at == kNone) return true;
  } else if (yaml.substr(std::min(at, yaml.size()), key.size()) == key) {
    at += key.size();
  } else {
    return true;  // goes over several lines, as no key followed by a colon can
  }
  at = skip_space_and_comments(yaml, at);
  return at >= yaml.size() || yaml[at] != ':';
}

}  // namespace eratos::text
