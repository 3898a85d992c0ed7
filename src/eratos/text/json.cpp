#include "eratos/text/json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "eratos/text/duplicate_keys.h"
#include "eratos/text/encoding.h"
#include "eratos/text/file.h"
#include "eratos/text/yaml.h"

namespace eratos::text {
namespace {

void append_utf8(std::string& out, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | (code >> 6));
    put(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    put(0xE0 | (code >> 12));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  } else {
    put(0xF0 | (code >> 18));
    put(0x80 | ((code >> 12) & 0x3F));
    put(0x80 | ((code >> 6) & 0x3F));
    put(0x80 | (code & 0x3F));
  }
}

// Recursive descent; the first fault is kept in `fault_` and every function returns false then.
class JsonParser {
 public:
  JsonParser(std::string_view text, std::shared_ptr<const std::string> file, TreeLimits limits)
      : text_(text), file_(std::move(file)), limits_(limits) {}

  Result<Node> run() {
    Node root;
    if (!value(root, 0)) return fault(std::move(fault_));
    skip_space();
    if (!at_end()) {
      fail("one value and then the end of the file");
      return fault(std::move(fault_));
    }
    if (!duplicates_.empty()) return faults(std::move(duplicates_));
    return root;
  }

 private:
  bool at_end() const { return next_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[next_]; }
  Place here() const { return {file_, line_, static_cast<int>(next_ - line_start_) + 1}; }

  void skip_space() {
    while (!at_end()) {
      const char c = text_[next_];
      if (c == '\n') {
        ++line_;
        line_start_ = next_ + 1;
      } else if (c != ' ' && c != '\t' && c != '\r') {
        return;
      }
      ++next_;
    }
  }

  bool refuse(std::string message, std::string cure) {
    fault_ = Diagnostic{here().location(), std::move(message), std::move(cure)};
    return false;
  }

  bool fail(const std::string& expected, const std::string& cure = "correct the JSON here") {
    const std::string found =
        at_end() ? "the end of the file" : "`" + excerpt(text_.substr(next_, char_length())) + "`";
    return refuse("not valid JSON: expected " + expected + ", found " + found, cure);
  }

  std::size_t char_length() const {
    std::size_t n = 1;
    while (next_ + n < text_.size() &&
           (static_cast<unsigned char>(text_[next_ + n]) & 0xC0U) == 0x80U) {
      ++n;
    }
    return n;
  }

  bool value(Node& out, int depth) {
    skip_space();
    if (++nodes_ > limits_.nodes) {
      return refuse("more than " + std::to_string(limits_.nodes) + " values",
                    "write a smaller file");
    }
    const Place at = here();
    const char c = peek();
    if (c == '{' || c == '[') {
      if (depth >= limits_.depth) {
        return refuse("nested more than " + std::to_string(limits_.depth) + " levels deep",
                      "write a flatter file");
      }
      return c == '{' ? object(out, at, depth) : array(out, at, depth);
    }
    if (c == '"') {
      std::string s;
      if (!string(s)) return false;
      out = Node::string(std::move(s), at);
      return true;
    }
    if (c == '-' || (c >= '0' && c <= '9')) return number(out, at);
    for (std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(next_, word.size()) != word) continue;
      next_ += word.size();
      out = Node::plain(std::string(word), at);
      return true;
    }
    return fail("a value");
  }

  bool object(Node& out, const Place& at, int depth) {
    out = Node::mapping(at);
    ++next_;
    skip_space();
    if (peek() == '}') {
      ++next_;
      return true;
    }
    while (true) {
      skip_space();
      Entry entry;
      entry.key_place = here();
      if (peek() != '"') return fail("a key in double quotes");
      if (!string(entry.key)) return false;
      skip_space();
      if (peek() != ':') return fail("`:` after the key `" + excerpt(entry.key) + "`");
      ++next_;
      if (!value(entry.value, depth + 1)) return false;
      out.entries().push_back(std::move(entry));
      skip_space();
      if (peek() == '}') {
        ++next_;
        report_duplicate_keys(out.entries(), duplicates_);
        return true;
      }
      if (peek() != ',') return fail("`,` or `}`");
      ++next_;
    }
  }

  bool array(Node& out, const Place& at, int depth) {
    out = Node::sequence({}, at);
    ++next_;
    skip_space();
    if (peek() == ']') {
      ++next_;
      return true;
    }
    while (true) {
      Node item;
      if (!value(item, depth + 1)) return false;
      out.append(std::move(item));
      skip_space();
      if (peek() == ']') {
        ++next_;
        return true;
      }
      if (peek() != ',') return fail("`,` or `]`");
      ++next_;
    }
  }

  bool digits() {
    const std::size_t begin = next_;
    while (peek() >= '0' && peek() <= '9') ++next_;
    return next_ > begin || fail("a digit");
  }

  bool number(Node& out, const Place& at) {
    const std::size_t begin = next_;
    bool floating = false;
    if (peek() == '-') ++next_;
    if (peek() == '0') {
      ++next_;
      if (peek() >= '0' && peek() <= '9') {
        return fail("no digit after a leading zero", "remove the zero");
      }
    } else if (!digits()) {
      return false;
    }
    if (peek() == '.') {
      floating = true;
      ++next_;
      if (!digits()) return false;
    }
    if (peek() == 'e' || peek() == 'E') {
      floating = true;
      ++next_;
      if (peek() == '+' || peek() == '-') ++next_;
      if (!digits()) return false;
    }
    out = Node::typed(std::string(text_.substr(begin, next_ - begin)),
                      floating ? ScalarKind::floating : ScalarKind::integer, at);
    return true;
  }

  bool string(std::string& out) {
    ++next_;
    while (true) {
      const std::size_t stop = std::min(text_.find_first_of("\"\\\t\n\r", next_), text_.size());
      out.append(text_.substr(next_, stop - next_));
      next_ = stop;
      if (at_end()) return fail("`\"` to end the string");
      if (peek() == '"') {
        ++next_;
        return true;
      }
      if (peek() != '\\') {
        return refuse("not valid JSON: a line break or tab inside a string",
                      "end the string with `\"` or write \\n or \\t");
      }
      if (!escape(out)) return false;
    }
  }

  bool hex4(std::uint32_t& code) {
    code = 0;
    for (int i = 0; i < 4; ++i, ++next_) {
      const char c = peek();
      std::uint32_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<std::uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<std::uint32_t>(c - 'a' + 10);
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<std::uint32_t>(c - 'A' + 10);
      } else {
        return fail("four hexadecimal digits after \\u");
      }
      code = code * 16 + digit;
    }
    return true;
  }

  bool escape(std::string& out) {
    ++next_;
    constexpr std::string_view kLetters = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (at_end()) return fail("an escape such as \\n");
    if (const std::size_t i = kLetters.find(peek()); i != std::string_view::npos) {
      out += kMeanings[i];
      ++next_;
      return true;
    }
    if (peek() != 'u') return fail("an escape such as \\n");
    ++next_;
    std::uint32_t code = 0;
    if (!hex4(code)) return false;
    if (code >= 0xD800 && code < 0xDC00) {
      std::uint32_t low = 0;
      if (text_.substr(next_, 2) != "\\u") return fail("the second half of a surrogate pair");
      next_ += 2;
      if (!hex4(low)) return false;
      if (low < 0xDC00 || low > 0xDFFF) {
        return refuse("not valid JSON: half a surrogate pair", "write the character itself");
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      return refuse("not valid JSON: half a surrogate pair", "write the character itself");
    }
    append_utf8(out, code);
    return true;
  }

  std::string_view text_;
  std::shared_ptr<const std::string> file_;
  TreeLimits limits_;
  std::size_t next_ = 0;
  int line_ = 1;
  std::size_t line_start_ = 0;
  std::size_t nodes_ = 0;
  Diagnostic fault_;
  Diagnostics duplicates_;
};

}  // namespace

Result<Node> parse_json(std::string_view text, const std::string& file, TreeLimits limits) {
  if (text.size() > limits.bytes) return fault(too_large(file, text.size(), limits.bytes));
  if (auto junk = find_non_text(text, file)) return fault(std::move(*junk));
  const std::string_view json = without_byte_order_mark(text);
  return JsonParser(json, std::make_shared<const std::string>(file), limits).run();
}

Result<Node> parse_json_file(const std::string& path, TreeLimits limits) {
  const Result<std::string> text = read_file(path, limits.bytes);
  if (!text) return faults(text.error());
  return parse_json(*text, path, limits);
}

Result<Node> parse_config_file(const std::string& path, TreeLimits limits) {
  constexpr std::string_view kJson = ".json";
  const bool is_json = path.size() >= kJson.size() &&
                       path.compare(path.size() - kJson.size(), kJson.size(), kJson) == 0;
  return is_json ? parse_json_file(path, limits) : parse_yaml_file(path, limits);
}

}  // namespace eratos::text
