#include "eratos/text/tree.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "eratos/base/check.h"

namespace eratos::text {

Node::Node() = default;
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

Node::Node(Kind kind, Place at) : kind_(kind), place_(std::move(at)) {}

Node Node::null(Place at) { return Node(Kind::null, std::move(at)); }

Node Node::plain(std::string word, Place at) {
  const ScalarKind kind = pyyaml_kind(word);
  if (kind == ScalarKind::null) return null(std::move(at));
  return typed(std::move(word), kind, std::move(at));
}

Node Node::string(std::string text, Place at) {
  Node node = typed(std::move(text), ScalarKind::string, std::move(at));
  node.quoted_ = true;
  return node;
}

Node Node::boolean(bool value, Place at) {
  return typed(value ? "true" : "false", ScalarKind::boolean, std::move(at));
}

Node Node::integer(std::int64_t value, Place at) {
  return typed(std::to_string(value), ScalarKind::integer, std::move(at));
}

Node Node::number(double value, Place at) {
  return typed(yaml_double(value), ScalarKind::floating, std::move(at));
}

Node Node::typed(std::string word, ScalarKind kind, Place at) {
  ERATOS_CHECK(kind != ScalarKind::null);
  Node node(Kind::scalar, std::move(at));
  node.scalar_kind_ = kind;
  node.raw_ = std::move(word);
  return node;
}

Node Node::sequence(std::vector<Node> items, Place at) {
  Node node(Kind::sequence, std::move(at));
  node.items_ = std::move(items);
  return node;
}

Node Node::mapping(Place at) { return Node(Kind::mapping, std::move(at)); }

ScalarKind Node::scalar_kind() const {
  ERATOS_CHECK(is_scalar() || is_null());
  return scalar_kind_;
}

std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 60;
  std::string shown(text);
  if (shown.size() > kShown) {
    std::size_t cut = kShown;
    while (cut > 0 && (static_cast<unsigned char>(shown[cut]) & 0xC0U) == 0x80U) --cut;
    shown.resize(cut);
    shown += "...";
  }
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return shown;
}

std::string Node::describe() const {
  switch (kind_) {
    case Kind::null:
      return "null";
    case Kind::sequence:
      return "a sequence";
    case Kind::mapping:
      return "a mapping";
    case Kind::scalar:
      break;
  }
  const std::string_view kind = name_of(scalar_kind_);
  const std::string_view noun = kind.substr(kind.find(' ') + 1);
  return "the " + std::string(noun) + " `" + excerpt(raw_) + "`";
}

Diagnostic Node::mismatch(std::string_view what, std::string_view wanted, std::string cure) const {
  return {where(),
          "`" + std::string(what) + "` must be " + std::string(wanted) + ", found " + describe(),
          std::move(cure)};
}

Result<bool> Node::as_bool(std::string_view what) const {
  if (is_scalar() && scalar_kind_ == ScalarKind::boolean) {
    if (const auto value = bool_of(raw_)) return *value;
  }
  const bool only_quoted = quoted_ && bool_of(raw_);
  return fault(
      mismatch(what, "a boolean", only_quoted ? "remove the quotes" : "write true or false"));
}

Result<std::int64_t> Node::as_int64(std::string_view what) const {
  if (is_scalar() && scalar_kind_ == ScalarKind::integer) {
    if (const auto value = int_of(raw_)) return *value;
    return fault(mismatch(what, "an integer of 64 bits", "give a smaller value"));
  }
  const bool only_quoted = quoted_ && int_of(raw_);
  return fault(mismatch(what, "an integer",
                        only_quoted ? "remove the quotes" : "write a whole number such as 8"));
}

Result<double> Node::as_double(std::string_view what) const {
  if (is_scalar() && !quoted_ && scalar_kind_ != ScalarKind::timestamp) {
    if (const auto value = double_of(raw_)) return *value;
    if (scalar_kind_ != ScalarKind::string && scalar_kind_ != ScalarKind::boolean) {
      return fault(mismatch(what, "a number within double precision", "give a smaller value"));
    }
  }
  const bool only_quoted = quoted_ && double_of(raw_);
  return fault(mismatch(what, "a number",
                        only_quoted ? "remove the quotes" : "write a number such as 0.5 or 1e-5"));
}

Result<std::string> Node::as_string(std::string_view what) const {
  if (is_scalar()) return raw_;
  return fault(mismatch(what, "a string", "write a single word or a quoted text"));
}

std::vector<Node>& Node::items() {
  ERATOS_CHECK(is_sequence());
  return items_;
}

void Node::append(Node item) {
  ERATOS_CHECK(is_sequence());
  items_.push_back(std::move(item));
}

std::vector<Entry>& Node::entries() {
  ERATOS_CHECK(is_mapping());
  return entries_;
}

const Entry* Node::find_entry(std::string_view key) const {
  for (const Entry& e : entries_) {
    if (e.key == key) return &e;
  }
  return nullptr;
}

const Node* Node::find(std::string_view key) const {
  const Entry* e = find_entry(key);
  return e == nullptr ? nullptr : &e->value;
}

Node* Node::find(std::string_view key) {
  for (Entry& e : entries_) {
    if (e.key == key) return &e.value;
  }
  return nullptr;
}

void Node::set(std::string_view key, Node value, Place key_at) {
  ERATOS_CHECK(is_mapping());
  for (Entry& e : entries_) {
    if (e.key != key) continue;
    e.value = std::move(value);
    e.key_place = std::move(key_at);
    return;
  }
  entries_.push_back({std::string(key), std::move(key_at), std::move(value)});
}

bool Node::erase(std::string_view key) {
  const auto it =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.key == key; });
  if (it == entries_.end()) return false;
  entries_.erase(it);
  return true;
}

namespace {

bool same_scalar(const Node& a, const Node& b) {
  if (a.scalar_kind() != b.scalar_kind()) return false;
  switch (a.scalar_kind()) {
    case ScalarKind::null:
      return true;
    case ScalarKind::boolean:
      return bool_of(a.raw()) == bool_of(b.raw());
    case ScalarKind::integer: {
      const auto x = int_of(a.raw());
      const auto y = int_of(b.raw());
      return x && y ? *x == *y : a.raw() == b.raw();
    }
    case ScalarKind::floating: {
      const auto x = double_of(a.raw());
      const auto y = double_of(b.raw());
      if (!x || !y) return a.raw() == b.raw();
      return *x == *y || (std::isnan(*x) && std::isnan(*y));
    }
    case ScalarKind::string:
    case ScalarKind::timestamp:
      return a.raw() == b.raw();
  }
  return false;
}

std::vector<const Entry*> by_key(const Node& mapping) {
  std::vector<const Entry*> sorted;
  for (const Entry& e : mapping.entries()) sorted.push_back(&e);
  std::sort(sorted.begin(), sorted.end(),
            [](const Entry* x, const Entry* y) { return x->key < y->key; });
  return sorted;
}

}  // namespace

bool operator==(const Node& a, const Node& b) {
  if (a.kind_ != b.kind_ || a.size() != b.size()) return false;
  switch (a.kind_) {
    case Node::Kind::null:
      return true;
    case Node::Kind::scalar:
      return same_scalar(a, b);
    case Node::Kind::sequence:
      return a.items_ == b.items_;
    case Node::Kind::mapping:
      break;
  }
  const std::vector<const Entry*> x = by_key(a);
  const std::vector<const Entry*> y = by_key(b);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i]->key != y[i]->key || !(x[i]->value == y[i]->value)) return false;
  }
  return true;
}

}  // namespace eratos::text
