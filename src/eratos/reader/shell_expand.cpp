#include "eratos/reader/shell_expand.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace eratos::reader {

namespace {

constexpr int kMostNested = 40;

bool starts_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::string ShellExpander::joined(const ShellRaw& word, bool empty) {
  ShellText out;
  empty_unset_ = empty;
  expand_into(word.begin, word.end, out, 0);
  empty_unset_ = false;
  return out.text;
}

std::vector<ShellText> ShellExpander::expand(const ShellRaw& word) {
  std::vector<ShellText> fields;
  ShellText now;
  bool begun = false;
  const auto close = [&] {
    if (begun) fields.push_back(std::move(now));
    now = {};
    begun = false;
  };
  std::size_t i = word.begin;
  while (i < word.end) {
    const char c = s_[i];
    if (c == '\\') {
      if (i + 1 < word.end && s_[i + 1] != '\n') {
        now.add(s_[i + 1], i + 1);
        begun = true;
      }
      i += 2;
    } else if (c == '\'') {
      begun = true;
      for (++i; i < word.end && s_[i] != '\''; ++i) now.add(s_[i], i);
      ++i;
    } else if (c == '"') {
      begun = true;
      const std::size_t end = quote_end(i, word.end);
      if (const auto* items = whole_array(i + 1, end)) {
        for (std::size_t n = 0; n < items->size(); ++n) {
          if (n > 0) close();
          now.add((*items)[n]);
          begun = true;
        }
        if (items->empty() && now.text.empty()) begun = false;
      } else {
        quoted_into(i + 1, end, now, 0);
      }
      i = end + 1;
    } else if (c == '$' || c == '`') {
      std::vector<ShellText> parts;
      i = dollar(i, word.end, parts, 0);
      for (std::size_t n = 0; n < parts.size(); ++n) {
        if (n > 0) close();
        for (std::size_t k = 0; k < parts[n].text.size(); ++k) {
          const char p = parts[n].text[k];
          if (is_shell_blank(p) || p == '\n') {
            close();
          } else {
            now.add(p, parts[n].at[k]);
            begun = true;
          }
        }
      }
    } else {
      now.add(c, i);
      begun = true;
      ++i;
    }
  }
  close();
  return fields;
}

void ShellExpander::expand_into(std::size_t begin, std::size_t end, ShellText& out, int depth) {
  std::size_t i = begin;
  while (i < end) {
    const char c = s_[i];
    if (c == '\\') {
      if (i + 1 < end && s_[i + 1] != '\n') out.add(s_[i + 1], i + 1);
      i += 2;
    } else if (c == '\'') {
      for (++i; i < end && s_[i] != '\''; ++i) out.add(s_[i], i);
      ++i;
    } else if (c == '"') {
      const std::size_t stop = quote_end(i, end);
      quoted_into(i + 1, stop, out, depth);
      i = stop + 1;
    } else if (c == '$' || c == '`') {
      i = dollar_into(i, end, out, depth);
    } else {
      out.add(c, i++);
    }
  }
}

void ShellExpander::quoted_into(std::size_t begin, std::size_t end, ShellText& out, int depth) {
  std::size_t i = begin;
  while (i < end) {
    const char c = s_[i];
    if (c == '\\' && i + 1 < end) {
      const char next = s_[i + 1];
      if (next != '\n') {
        if (next != '$' && next != '"' && next != '\\' && next != '`') out.add(c, i);
        out.add(next, i + 1);
      }
      i += 2;
    } else if (c == '$' || c == '`') {
      i = dollar_into(i, end, out, depth);
    } else {
      out.add(c, i++);
    }
  }
}

std::size_t ShellExpander::dollar_into(std::size_t i, std::size_t end, ShellText& out, int depth) {
  std::vector<ShellText> parts;
  i = dollar(i, end, parts, depth);
  for (std::size_t n = 0; n < parts.size(); ++n) {
    if (n > 0) out.add(' ', i - 1);
    out.add(parts[n]);
  }
  return i;
}

std::size_t ShellExpander::quote_end(std::size_t i, std::size_t end) const {
  for (++i; i < end && s_[i] != '"'; ++i) {
    if (s_[i] == '\\') ++i;
  }
  return std::min(i, end);
}

const std::vector<ShellText>* ShellExpander::whole_array(std::size_t begin, std::size_t end) const {
  const std::string_view text = s_.substr(begin, end - begin);
  if (text.size() < 6 || text.substr(0, 2) != "${" || text.back() != '}') return nullptr;
  const std::string_view inner = text.substr(2, text.size() - 3);
  if (inner.size() < 4 || inner.substr(inner.size() - 3) != "[@]") return nullptr;
  const auto known = variables.find(std::string(inner.substr(0, inner.size() - 3)));
  return known == variables.end() ? nullptr : &known->second;
}

std::optional<std::vector<ShellText>> ShellExpander::lookup(const std::string& name,
                                                            std::size_t at) const {
  if (const auto known = variables.find(name); known != variables.end()) return known->second;
  if (const auto given = environment_.find(name); given != environment_.end()) {
    ShellText out;
    out.add(given->second, at);
    return std::vector<ShellText>{std::move(out)};
  }
  return std::nullopt;
}

void ShellExpander::unset(const std::string& name, std::size_t at, std::vector<ShellText>& parts) {
  saw_unset = true;
  ShellText out;
  if (!empty_unset_) out.add("${" + name + "}", at);
  parts.push_back(std::move(out));
}

std::size_t ShellExpander::dollar(std::size_t i, std::size_t end, std::vector<ShellText>& parts,
                                  int depth) {
  const std::size_t at = i;
  if (s_[i] == '`') {
    for (++i; i < end && s_[i] != '`'; ++i) {
      if (s_[i] == '\\') ++i;
    }
    output(at, parts);
    return std::min(end, i + 1);
  }
  ++i;
  if (i >= end || depth > kMostNested) {
    ShellText out;
    out.add('$', at);
    parts.push_back(std::move(out));
    return i;
  }
  if (s_[i] == '(') {
    const std::size_t stop = balanced_end(i, end, '(', ')');
    if (i + 1 < end && s_[i + 1] == '(' && stop >= i + 4) {
      arithmetic(i + 2, stop - 2, at, parts, depth);
    } else {
      output(at, parts);
    }
    return stop;
  }
  if (s_[i] == '{') {
    const std::size_t stop = balanced_end(i, end, '{', '}');
    braced(i + 1, std::max(i + 1, stop - 1), at, parts, depth);
    return stop;
  }
  std::size_t stop = i;
  if (starts_name(s_[i])) {
    while (stop < end && is_name(s_[stop])) ++stop;
  } else if (std::isdigit(static_cast<unsigned char>(s_[i])) != 0 || s_[i] == '@' || s_[i] == '*' ||
             s_[i] == '#' || s_[i] == '?') {
    stop = i + 1;
  }
  if (stop == i) {
    ShellText out;
    out.add('$', at);
    parts.push_back(std::move(out));
    return i;
  }
  const std::string name(s_.substr(i, stop - i));
  if (name == "@" || name == "*") return stop;  // the script's own arguments: none
  if (name == "#" || name == "?") {
    ShellText out;
    out.add('0', at);
    parts.push_back(std::move(out));
    return stop;
  }
  if (auto value = lookup(name, at); value && !value->empty()) {
    parts.push_back((*value)[0]);
  } else if (!value) {
    unset(name, at, parts);
  }
  return stop;
}

void ShellExpander::output(std::size_t at, std::vector<ShellText>& parts) {
  saw_output = true;
  ShellText out;
  out.add("${OUTPUT_OF_COMMAND}", at);
  parts.push_back(std::move(out));
}

std::size_t ShellExpander::balanced_end(std::size_t i, std::size_t end, char open,
                                        char close) const {
  int depth = 0;
  for (; i < end; ++i) {
    if (s_[i] == '\\') {
      ++i;
      continue;
    }
    if (s_[i] == open) ++depth;
    if (s_[i] == close && --depth == 0) return i + 1;
  }
  return end;
}

void ShellExpander::braced(std::size_t i, std::size_t end, std::size_t at,
                           std::vector<ShellText>& parts, int depth) {
  if (i < end && s_[i] == '#') {  // a length
    output(at, parts);
    return;
  }
  std::size_t stop = i;
  while (stop < end && is_name(s_[stop])) ++stop;
  const std::string name(s_.substr(i, stop - i));
  auto value = lookup(name, at);
  std::string_view rest = s_.substr(stop, end - stop);
  if (rest.size() >= 3 && (rest.substr(0, 3) == "[@]" || rest.substr(0, 3) == "[*]")) {
    if (!value) {
      unset(name, at, parts);
    } else {
      for (ShellText& item : *value) parts.push_back(std::move(item));
    }
    return;
  }
  if (rest.empty()) {
    if (value && !value->empty()) parts.push_back((*value)[0]);
    if (!value) unset(name, at, parts);
    return;
  }
  const bool colon = rest[0] == ':';
  const char op = rest.size() > (colon ? 1U : 0U) ? rest[colon ? 1 : 0] : '\0';
  const std::size_t from = stop + (colon ? 2 : 1);
  const bool there = value && !value->empty() && !(colon && (*value)[0].text.empty());
  if (op == '-' || op == '=') {
    if (there) {
      parts.push_back((*value)[0]);
      return;
    }
    ShellText out;
    expand_into(std::min(from, end), end, out, depth + 1);
    if (op == '=') variables[name] = {out};
    parts.push_back(std::move(out));
  } else if (op == '+') {
    ShellText out;
    if (there) expand_into(std::min(from, end), end, out, depth + 1);
    parts.push_back(std::move(out));
  } else if (op == '?') {
    if (there) {
      parts.push_back((*value)[0]);
    } else {
      unset(name, at, parts);
    }
  } else {
    output(at, parts);  // prefixes, suffixes and replacements are not followed
  }
}

void ShellExpander::arithmetic(std::size_t begin, std::size_t end, std::size_t at,
                               std::vector<ShellText>& parts, int depth) {
  ShellText text;
  expand_into(begin, end, text, depth + 1);
  std::string out;
  std::string missing;
  for (std::size_t i = 0; i < text.text.size();) {
    if (text.text[i] == '$' && text.text.find('}', i) != std::string::npos && missing.empty()) {
      const std::size_t close = text.text.find('}', i);
      missing = text.text.substr(i + 2, close - std::min(close, i + 2));
    }
    if (!starts_name(text.text[i])) {
      out += text.text[i++];
      continue;
    }
    std::string name;
    while (i < text.text.size() && is_name(text.text[i])) name += text.text[i++];
    if (auto value = lookup(name, at); value && !value->empty()) {
      out += (*value)[0].text;
    } else if (missing.empty()) {
      missing = name;
    }
  }
  if (!missing.empty()) {
    unset(missing, at, parts);
    return;
  }
  if (const auto sum = shell_sum(out)) {
    ShellText digits;
    digits.add(std::to_string(*sum), at);
    parts.push_back(std::move(digits));
  } else {
    output(at, parts);
  }
}

}  // namespace eratos::reader
