#include "eratos/agent/schema.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "eratos/agent/json_parts.h"
#include "eratos/base/diagnostic.h"

namespace eratos::agent {
namespace {

using text::Node;
using text::ScalarKind;

constexpr std::string_view kWords[] = {
    "type",          "enum",    "properties", "required",   "additionalProperties",
    "maxProperties", "items",   "minItems",   "maxItems",   "minLength",
    "maxLength",     "minimum", "maximum",    "description"};

bool is_of(const Node& value, std::string_view type) {
  if (type == "object") return value.is_mapping();
  if (type == "array") return value.is_sequence();
  if (type == "null") return value.is_null();
  if (!value.is_scalar()) return false;
  const ScalarKind kind = value.scalar_kind();
  if (type == "boolean") return kind == ScalarKind::boolean;
  if (type == "integer") return kind == ScalarKind::integer;
  if (type == "number") return kind == ScalarKind::integer || kind == ScalarKind::floating;
  return type == "string" && kind == ScalarKind::string;
}

std::vector<std::string> types_of(const Node& type) {
  std::vector<std::string> out;
  if (type.is_scalar()) out.push_back(type.raw());
  for (const Node& item : type.items()) out.push_back(item.raw());
  return out;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : std::string(between)) + word;
  return out;
}

class Checker {
 public:
  std::vector<std::string> faults;

  void check(const Node& schema, const Node& value, const std::string& path) {
    if (const Node* type = schema.find("type")) {
      const std::vector<std::string> types = types_of(*type);
      const bool fits = std::any_of(types.begin(), types.end(),
                                    [&](const std::string& t) { return is_of(value, t); });
      if (!fits) {
        say(fmt::format("`{}` must be {}, found {}", name(path), joined(types, " or "),
                        value.describe()));
        return;
      }
    }
    if (const Node* words = schema.find("enum")) check_enum(*words, value, path);
    if (value.is_mapping()) check_object(schema, value, path);
    if (value.is_sequence()) check_array(schema, value, path);
    if (is_of(value, "string")) check_string(schema, value, path);
    if (is_of(value, "number")) check_number(schema, value, path);
  }

 private:
  static std::string name(const std::string& path) { return path.empty() ? "arguments" : path; }
  void say(std::string fault) { faults.push_back(std::move(fault)); }

  void check_enum(const Node& words, const Node& value, const std::string& path) {
    std::vector<std::string> known;
    for (const Node& word : words.items()) {
      if (word == value) return;
      known.push_back(word.raw());
    }
    say(fmt::format("`{}` must be one of {}, found {}", name(path), joined(known, ", "),
                    value.describe()));
  }

  void check_object(const Node& schema, const Node& value, const std::string& path) {
    const Node* properties = schema.find("properties");
    const Node* others = schema.find("additionalProperties");
    std::vector<std::string> known;
    if (properties != nullptr) {
      for (const text::Entry& e : properties->entries()) known.push_back(e.key);
    }
    for (const text::Entry& e : value.entries()) {
      const std::string at = text::join_path(path, e.key);
      if (const Node* own = properties == nullptr ? nullptr : properties->find(e.key)) {
        check(*own, e.value, at);
      } else if (others != nullptr && others->is_mapping()) {
        check(*others, e.value, at);
      } else if (others != nullptr) {
        const std::string near = nearest_name(e.key, known);
        say(fmt::format("unknown argument `{}`; {}", text::excerpt(at),
                        near.empty() ? "known: " + joined(known, ", ")
                                     : fmt::format("did you mean `{}`?", near)));
      }
    }
    if (const Node* required = schema.find("required")) {
      for (const Node& key : required->items()) {
        if (value.find(key.raw()) != nullptr) continue;
        say(fmt::format("`{}` is missing", text::join_path(path, key.raw())));
      }
    }
    bound(schema, "maxProperties", value.size(), path, "entries");
  }

  void check_array(const Node& schema, const Node& value, const std::string& path) {
    if (const Node* items = schema.find("items")) {
      for (std::size_t i = 0; i < value.items().size(); ++i) {
        check(*items, value.items()[i], text::join_path(path, i));
      }
    }
    bound(schema, "minItems", value.size(), path, "items");
    bound(schema, "maxItems", value.size(), path, "items");
  }

  void check_string(const Node& schema, const Node& value, const std::string& path) {
    bound(schema, "minLength", value.raw().size(), path, "bytes");
    bound(schema, "maxLength", value.raw().size(), path, "bytes");
  }

  void check_number(const Node& schema, const Node& value, const std::string& path) {
    const Result<double> number = value.as_double();
    for (const bool least : {true, false}) {
      const Node* at = schema.find(least ? "minimum" : "maximum");
      if (at == nullptr || !number) continue;
      const double limit = *at->as_double();
      if (least ? *number >= limit : *number <= limit) continue;
      say(fmt::format("`{}` must be at {} {}, found {}", name(path), least ? "least" : "most",
                      at->raw(), value.raw()));
    }
  }

  void bound(const Node& schema, std::string_view word, std::size_t size, const std::string& path,
             std::string_view what) {
    const Node* at = schema.find(word);
    if (at == nullptr) return;
    const auto limit = static_cast<std::size_t>(*at->as_int64());
    const bool least = word.substr(0, 3) == "min";
    if (least ? size >= limit : size <= limit) return;
    say(fmt::format("`{}` has {} {}, {} or {} are {}", name(path), size, what, limit,
                    least ? "more" : "fewer", least ? "needed" : "taken"));
  }
};

void check_words(const Node& schema, const std::string& path, std::vector<std::string>& faults) {
  for (const text::Entry& e : schema.entries()) {
    if (std::find(std::begin(kWords), std::end(kWords), e.key) == std::end(kWords)) {
      faults.push_back(
          fmt::format("`{}` is no word of the schemas here", text::join_path(path, e.key)));
    }
  }
  if (const Node* properties = schema.find("properties")) {
    for (const text::Entry& e : properties->entries()) {
      check_words(e.value, text::join_path(path, e.key), faults);
    }
  }
  for (const char* word : {"items", "additionalProperties"}) {
    const Node* at = schema.find(word);
    if (at != nullptr && at->is_mapping()) check_words(*at, text::join_path(path, word), faults);
  }
}

}  // namespace

std::vector<std::string> schema_faults(const Node& schema, const Node& value) {
  Checker checker;
  checker.check(schema, value, "");
  return std::move(checker.faults);
}

std::vector<std::string> faults_of_schema(const Node& schema) {
  std::vector<std::string> faults;
  check_words(schema, "", faults);
  return faults;
}

}  // namespace eratos::agent
