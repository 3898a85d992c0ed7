// Merging trees and addressing values by path.
#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "eratos/text/tree.h"

namespace eratos::text {
namespace {

// A step of a path as an index into `size` items.
std::optional<std::size_t> index_of(std::string_view step, std::size_t size) {
  std::size_t index = 0;
  const char* begin = step.data();
  const char* end = begin + step.size();
  const auto [stop, error] = std::from_chars(begin, end, index);
  if (error != std::errc{} || stop != end || index >= size) return std::nullopt;
  return index;
}

std::string_view take_step(std::string_view& path) {
  const std::size_t dot = path.find('.');
  const std::string_view step = path.substr(0, dot);
  path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  return step;
}

std::string step_message(std::string_view path, const std::string& walked, const std::string& why) {
  const std::string at = walked.empty() ? "the whole file" : "`" + walked + "`";
  return "`" + std::string(path) + "`: " + at + " " + why;
}

void walk(const Node& node, const std::string& path,
          const std::function<void(const std::string&, const Node&)>& see) {
  if (node.size() == 0) {
    see(path, node);
    return;
  }
  for (const Entry& e : node.entries()) walk(e.value, join_path(path, e.key), see);
  for (std::size_t i = 0; i < node.items().size(); ++i) {
    walk(node.items()[i], join_path(path, i), see);
  }
}

}  // namespace

Node merge(Node base, const Node& overlay) {
  if (!base.is_mapping() || !overlay.is_mapping()) return overlay;
  std::vector<Entry>& entries = base.entries();
  // Reserving keeps the keys that `index` views where they are while new entries are appended.
  entries.reserve(entries.size() + overlay.size());
  std::unordered_map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < entries.size(); ++i) index.emplace(entries[i].key, i);
  for (const Entry& e : overlay.entries()) {
    const auto known = index.find(e.key);
    if (known == index.end()) {
      entries.push_back(e);
      continue;
    }
    Entry& mine = entries[known->second];
    mine.value = merge(std::move(mine.value), e.value);
    mine.key_place = e.key_place;
  }
  return base;
}

std::string join_path(std::string_view parent, std::string_view key) {
  std::string path(parent);
  if (!path.empty()) path += '.';
  path += key;
  return path;
}

std::string join_path(std::string_view parent, std::size_t index) {
  return join_path(parent, std::to_string(index));
}

const Node* find_at(const Node& root, std::string_view path) {
  const Node* node = &root;
  while (!path.empty() && node != nullptr) {
    const std::string_view step = take_step(path);
    if (node->is_sequence()) {
      const auto index = index_of(step, node->size());
      node = index ? &node->items()[*index] : nullptr;
    } else {
      node = node->find(step);
    }
  }
  return node;
}

Result<void> set_at(Node& root, std::string_view path, Node value) {
  const Location at = value.where();
  if (path.empty() || path.front() == '.' || path.back() == '.' ||
      path.find("..") != std::string_view::npos) {
    return fault({at, "`" + std::string(path) + "` is not a path",
                  "write keys joined by dots, as in parallel.tp"});
  }
  Node* node = &root;
  std::string_view rest = path;
  std::string walked;
  while (!rest.empty()) {
    const std::string_view step = take_step(rest);
    if (node->is_null()) {
      // Everything from here on is new: build it and put it in one move.
      std::vector<std::string_view> keys{step};
      while (!rest.empty()) keys.push_back(take_step(rest));
      std::reverse(keys.begin(), keys.end());
      for (const std::string_view key : keys) {
        Node outer = Node::mapping(value.place());
        outer.set(key, std::move(value), outer.place());
        value = std::move(outer);
      }
      break;
    }
    if (node->is_sequence()) {
      const auto index = index_of(step, node->size());
      if (!index) {
        return fault({at,
                      step_message(path, walked,
                                   "has " + std::to_string(node->size()) + " items and no item `" +
                                       std::string(step) + "`"),
                      "count items from 0"});
      }
      node = &node->items()[*index];
    } else if (node->is_mapping()) {
      if (node->find(step) == nullptr) node->set(step, Node::null(value.place()), value.place());
      node = node->find(step);
    } else {
      return fault({at, step_message(path, walked, "is " + node->describe() + ", not a mapping"),
                    "name a key of a mapping"});
    }
    walked = join_path(walked, step);
  }
  *node = std::move(value);
  return {};
}

void for_each_leaf(const Node& root,
                   const std::function<void(const std::string& path, const Node& leaf)>& see) {
  walk(root, "", see);
}

}  // namespace eratos::text
