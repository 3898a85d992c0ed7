#include "eratos/reader/environment.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <optional>

namespace eratos::reader {

namespace {

struct Placeholder {
  std::size_t begin = 0;
  std::size_t end = 0;  // behind the `}`
  std::string name;
  std::optional<std::string> fallback;
};

// The next `${NAME}` or `${NAME:default}` from `at`; names hold no `:{}`, defaults no `}`.
std::optional<Placeholder> next_placeholder(std::string_view text, std::size_t at) {
  for (;;) {
    const std::size_t begin = text.find("${", at);
    if (begin == std::string_view::npos) return std::nullopt;
    const std::size_t stop = text.find_first_of(":{}", begin + 2);
    if (stop == std::string_view::npos) return std::nullopt;
    if (stop > begin + 2 && text[stop] != '{') {
      Placeholder out{.begin = begin,
                      .name = std::string(text.substr(begin + 2, stop - begin - 2))};
      if (text[stop] == '}') {
        out.end = stop + 1;
        return out;
      }
      const std::size_t close = text.find('}', stop);
      if (close == std::string_view::npos) return std::nullopt;
      out.fallback = std::string(text.substr(stop + 1, close - stop - 1));
      out.end = close + 1;
      return out;
    }
    at = begin + 2;
  }
}

bool is_integer(std::string_view word) {
  if (!word.empty() && word.front() == '-') word.remove_prefix(1);
  return !word.empty() && word.size() < 19 && std::all_of(word.begin(), word.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

bool is_float(const std::string& word) {
  if (word.find_first_of("0123456789") == std::string::npos) return false;
  if (word.find_first_not_of("0123456789+-.eE") != std::string::npos) return false;
  char* end = nullptr;
  (void)std::strtod(word.c_str(), &end);
  return end == word.c_str() + word.size();
}

text::Node typed_again(const std::string& word, const text::Place& at) {
  std::string lower = word;
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower == "true" || lower == "false") return text::Node::boolean(lower == "true", at);
  if (is_integer(word)) return text::Node::integer(std::strtoll(word.c_str(), nullptr, 10), at);
  if (is_float(word)) return text::Node::number(std::strtod(word.c_str(), nullptr), at);
  return text::Node::string(word, at);
}

}  // namespace

void substitute(text::Node& tree, const Environment& environment) {
  if (tree.is_sequence()) {
    for (text::Node& item : tree.items()) substitute(item, environment);
    return;
  }
  if (tree.is_mapping()) {
    for (text::Entry& entry : tree.entries()) substitute(entry.value, environment);
    return;
  }
  if (!tree.is_scalar() || tree.raw().find("${") == std::string::npos) return;
  const std::string& text = tree.raw();
  std::string out;
  std::size_t at = 0;
  bool changed = false;
  while (const auto each = next_placeholder(text, at)) {
    out += text.substr(at, each->begin - at);
    const auto given = environment.find(each->name);
    const std::optional<std::string> value =
        given == environment.end() ? each->fallback : std::optional<std::string>(given->second);
    changed = changed || value.has_value();
    out += value ? *value : text.substr(each->begin, each->end - each->begin);
    at = each->end;
  }
  if (!changed) return;
  out += text.substr(at);
  const text::Place place = tree.place();
  tree = typed_again(out, place);
}

std::vector<std::string> open_placeholders(std::string_view text) {
  std::vector<std::string> out;
  std::size_t at = 0;
  while (const auto each = next_placeholder(text, at)) {
    if (!each->fallback) out.push_back(each->name);
    at = each->end;
  }
  return out;
}

}  // namespace eratos::reader
