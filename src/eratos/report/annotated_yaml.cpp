#include "eratos/report/annotated_yaml.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "eratos/report/table.h"
#include "eratos/text/dump.h"

namespace eratos::report {

namespace {

using text::Node;

struct Line {
  std::string text;
  std::string path;  // of the value on it
};

std::string scalar_text(const Node& node) {
  std::string out = text::to_yaml(node);
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_leaf(const Node& node) { return !node.is_mapping() && !node.is_sequence(); }

// The value on the key's own line, or "" when it needs lines of its own.
std::string inline_text(const Node& node) {
  if (is_leaf(node)) return scalar_text(node);
  if (node.size() == 0) return node.is_mapping() ? "{}" : "[]";
  if (node.is_mapping()) return "";
  std::string out = "[";
  for (const Node& item : node.items()) {
    if (!is_leaf(item)) return "";
    out += (out.size() > 1 ? ", " : "") + scalar_text(item);
  }
  return out + ']';
}

void append(const Node& node, const std::string& path, std::size_t indent,
            std::vector<Line>& lines) {
  const std::string blanks(indent, ' ');
  for (const text::Entry& entry : node.entries()) {
    const std::string below = text::join_path(path, entry.key);
    const std::string head = blanks + scalar_text(Node::string(entry.key)) + ':';
    const std::string value = inline_text(entry.value);
    if (!value.empty()) {
      lines.push_back({head + ' ' + value, below});
    } else {
      lines.push_back({head, below});
      append(entry.value, below, indent + 2, lines);
    }
  }
  for (std::size_t i = 0; i < node.items().size(); ++i) {
    const Node& item = node.items()[i];
    const std::string below = text::join_path(path, i);
    const std::string value = inline_text(item);
    if (!value.empty()) {
      lines.push_back({blanks + "- " + value, below});
      continue;
    }
    const std::size_t first = lines.size();
    append(item, below, indent + 2, lines);
    lines[first].text[indent] = '-';
  }
}

}  // namespace

std::string annotated_yaml(const Node& root,
                           const std::function<std::string(const std::string& path)>& remark) {
  std::vector<Line> lines;
  append(root, "", 0, lines);
  constexpr std::size_t kMostColumns = 48;  // remarks of longer lines start where these end
  std::size_t column = 0;
  for (const Line& line : lines) {
    const std::size_t columns = width(line.text);
    if (columns <= kMostColumns) column = std::max(column, columns);
  }
  std::string out;
  for (const Line& line : lines) {
    const std::string words = remark(line.path);
    out += words.empty() ? line.text : padded(line.text, column) + "  # " + words;
    out += '\n';
  }
  return out;
}

}  // namespace eratos::report
