// Pieces of JSON, written and read: what the two interfaces to models and the tools are made of.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "eratos/text/tree.h"

namespace eratos::agent {

inline text::Node string_node(std::string_view s) { return text::Node::string(std::string(s)); }

inline text::Node object(std::initializer_list<std::pair<std::string_view, text::Node>> entries) {
  text::Node out = text::Node::mapping();
  for (const auto& [key, value] : entries) out.set(key, value);
  return out;
}

// The text at `key`, "" where there is none or it is no text.
inline std::string string_at(const text::Node& node, std::string_view key) {
  const text::Node* at = node.find(key);
  return at != nullptr && at->is_scalar() ? at->raw() : std::string();
}

// The integer at `key`, or `otherwise`.
inline std::int64_t integer_at(const text::Node& node, std::string_view key,
                               std::int64_t otherwise) {
  const text::Node* at = node.find(key);
  if (at == nullptr || !at->is_scalar()) return otherwise;
  const Result<std::int64_t> value = at->as_int64();
  return value ? *value : otherwise;
}

}  // namespace eratos::agent
