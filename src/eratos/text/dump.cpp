#include "eratos/text/dump.h"

#include <array>
#include <cstddef>
#include <cstdio>

#include "eratos/text/encoding.h"

namespace eratos::text {
namespace {

constexpr bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string quoted(std::string_view text, bool for_yaml) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      out += "\xEF\xBF\xBD";
      ++i;
      continue;
    }
    const std::string_view character = text.substr(i, length);
    i += length;
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)) {
      std::array<char, 8> hex{};
      std::snprintf(hex.data(), hex.size(), "\\u%04x", static_cast<unsigned>(c));
      out += hex.data();
    } else if (for_yaml && length == 2 && static_cast<unsigned char>(c) == 0xC2 &&
               static_cast<unsigned char>(character[1]) < 0xA0) {
      std::array<char, 8> hex{};
      std::snprintf(hex.data(), hex.size(), "\\x%02x",
                    static_cast<unsigned>(static_cast<unsigned char>(character[1])));
      out += hex.data();
    } else if (for_yaml && (character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9")) {
      out += character == "\xE2\x80\xA8" ? "\\u2028" : "\\u2029";  // line breaks in YAML 1.1
    } else if (for_yaml && character == "\xEF\xBB\xBF") {
      out += "\\ufeff";
    } else {
      out += character;
    }
  }
  return out + '"';
}

// Words that every reader of YAML takes for this very string.
bool is_plain_word(std::string_view s) {
  if (s.empty() || !(is_letter(s.front()) || s.front() == '_' || s.front() == '/')) return false;
  if (s.size() == 1 && (s == "y" || s == "Y" || s == "n" || s == "N")) return false;
  for (char c : s) {
    if (!is_letter(c) && !is_digit(c) &&
        std::string_view("_./+-@").find(c) == std::string_view::npos) {
      return false;
    }
  }
  return pyyaml_kind(s) == ScalarKind::string;
}

std::string yaml_string(std::string_view s) {
  return is_plain_word(s) ? std::string(s) : quoted(s, true);
}

// An integer in decimal; beyond 64 bits as it was written.
std::string integer_text(const Node& n) {
  const auto value = int_of(n.raw());
  return value ? std::to_string(*value) : n.raw();
}

std::string yaml_scalar(const Node& n) {
  switch (n.scalar_kind()) {
    case ScalarKind::null:
      return "null";
    case ScalarKind::boolean:
      return bool_of(n.raw()).value_or(false) ? "true" : "false";
    case ScalarKind::integer:
      return integer_text(n);
    case ScalarKind::floating: {
      const auto value = double_of(n.raw());
      return value ? yaml_double(*value) : n.raw();
    }
    case ScalarKind::timestamp:
      return n.raw();
    case ScalarKind::string:
      // An unquoted 1e-5 stays unquoted: as_double() reads it.
      return !n.is_quoted() && double_of(n.raw()) ? n.raw() : yaml_string(n.raw());
  }
  return "null";
}

std::string json_scalar(const Node& n) {
  switch (n.scalar_kind()) {
    case ScalarKind::null:
      return "null";
    case ScalarKind::boolean:
      return bool_of(n.raw()).value_or(false) ? "true" : "false";
    case ScalarKind::integer: {
      const auto value = int_of(n.raw());
      const bool is_json = n.raw().find_first_not_of("0123456789") == std::string::npos;
      if (value) return std::to_string(*value);
      return is_json ? n.raw() : json_quoted(n.raw());
    }
    case ScalarKind::floating: {
      const auto value = double_of(n.raw());
      return value ? json_double(*value) : json_quoted(n.raw());
    }
    case ScalarKind::timestamp:
    case ScalarKind::string:
      return json_quoted(n.raw());
  }
  return "null";
}

void yaml_block(const Node& node, std::size_t indent, bool first_line_begun, std::string& out);

// What follows a `-` or a `key:`.
void yaml_value(const Node& node, std::size_t indent, bool in_sequence, std::string& out) {
  if (node.size() == 0) {
    out += ' ';
    out += node.is_sequence() ? "[]" : node.is_mapping() ? "{}" : yaml_scalar(node);
    out += '\n';
  } else if (in_sequence) {
    out += ' ';
    yaml_block(node, indent + 2, true, out);
  } else {
    out += '\n';
    yaml_block(node, indent + 2, false, out);
  }
}

void yaml_block(const Node& node, std::size_t indent, bool first_line_begun, std::string& out) {
  const auto begin_line = [&] {
    if (!first_line_begun) out.append(indent, ' ');
    first_line_begun = false;
  };
  for (const Node& item : node.items()) {
    begin_line();
    out += '-';
    yaml_value(item, indent, true, out);
  }
  // Readers look for the colon of `key:` within 1024 characters; longer keys take the long form.
  constexpr std::size_t kLongKey = 1000;
  for (const Entry& e : node.entries()) {
    begin_line();
    const std::string key = yaml_string(e.key);
    if (key.size() > kLongKey) {
      out += "? " + key + "\n";
      out.append(indent, ' ');
    } else {
      out += key;
    }
    out += ':';
    yaml_value(e.value, indent, false, out);
  }
}

void json_value(const Node& node, std::size_t indent, std::size_t level, std::string& out) {
  if (!node.is_sequence() && !node.is_mapping()) {
    out += json_scalar(node);
    return;
  }
  const bool is_mapping = node.is_mapping();
  const auto new_line = [&](std::size_t at) {
    if (indent == 0) return;
    out += '\n';
    out.append(at * indent, ' ');
  };
  out += is_mapping ? '{' : '[';
  bool first = true;
  const auto begin = [&] {
    if (!first) out += ',';
    first = false;
    new_line(level + 1);
  };
  for (const Node& item : node.items()) {
    begin();
    json_value(item, indent, level + 1, out);
  }
  for (const Entry& e : node.entries()) {
    begin();
    out += json_quoted(e.key);
    out += indent == 0 ? ":" : ": ";
    json_value(e.value, indent, level + 1, out);
  }
  if (!first) new_line(level);
  out += is_mapping ? '}' : ']';
}

}  // namespace

std::string to_yaml(const Node& root) {
  std::string out;
  if (root.size() == 0) {
    yaml_value(root, 0, false, out);
    return out.substr(1);
  }
  yaml_block(root, 0, false, out);
  return out;
}

std::string to_json(const Node& root, int indent) {
  std::string out;
  json_value(root, indent > 0 ? static_cast<std::size_t>(indent) : 0, 0, out);
  return out;
}

std::string json_quoted(std::string_view text) { return quoted(text, false); }

}  // namespace eratos::text
