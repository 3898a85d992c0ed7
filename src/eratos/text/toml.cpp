#include "eratos/text/toml.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 1
#include <toml++/toml.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <utility>
#include <vector>

#include "eratos/text/encoding.h"
#include "eratos/text/file.h"

namespace eratos::text {
namespace {

class Builder {
 public:
  Builder(std::shared_ptr<const std::string> file, TreeLimits limits)
      : file_(std::move(file)), limits_(limits) {}

  // False when a limit was met; `fault` says which.
  bool build(const toml::node& from, Node& to, int depth) {
    const Place at = place(from.source());
    if (depth > limits_.depth) {
      return refuse(at, "nested more than " + std::to_string(limits_.depth) + " levels deep",
                    "write a flatter file");
    }
    if (++nodes_ > limits_.nodes) {
      return refuse(at, "more than " + std::to_string(limits_.nodes) + " values",
                    "write a smaller file");
    }
    if (const auto* table = from.as_table()) return mapping(*table, to, at, depth);
    if (const auto* array = from.as_array()) {
      to = Node::sequence({}, at);
      for (const toml::node& each : *array) {
        Node item;
        if (!build(each, item, depth + 1)) return false;
        to.append(std::move(item));
      }
      return true;
    }
    to = scalar(from, at);
    return true;
  }

  Diagnostic fault;

  Place place(const toml::source_region& region) const {
    return {file_, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
  }

 private:
  bool mapping(const toml::table& table, Node& to, const Place& at, int depth) {
    struct Keyed {
      const toml::key* key;
      const toml::node* value;
    };
    std::vector<Keyed> keys;
    for (const auto& [key, value] : table) keys.push_back({&key, &value});
    // toml++ sorts by name.
    std::stable_sort(keys.begin(), keys.end(), [](const Keyed& a, const Keyed& b) {
      const auto& x = a.key->source().begin;
      const auto& y = b.key->source().begin;
      return x.line != y.line ? x.line < y.line : x.column < y.column;
    });
    to = Node::mapping(at);
    for (const Keyed& each : keys) {
      Node value;
      if (!build(*each.value, value, depth + 1)) return false;
      to.set(each.key->str(), std::move(value), place(each.key->source()));
    }
    return true;
  }

  static Node scalar(const toml::node& from, const Place& at) {
    if (const auto* value = from.as_string()) return Node::string(value->get(), at);
    if (const auto* value = from.as_boolean()) return Node::boolean(value->get(), at);
    if (const auto* value = from.as_integer()) return Node::integer(value->get(), at);
    if (const auto* value = from.as_floating_point()) return Node::number(value->get(), at);
    std::ostringstream out;
    from.visit([&](const auto& value) { out << value; });
    return Node::string(out.str(), at);
  }

  bool refuse(const Place& at, std::string message, std::string cure) {
    fault = {at.location(), std::move(message), std::move(cure)};
    return false;
  }

  std::shared_ptr<const std::string> file_;
  TreeLimits limits_;
  std::size_t nodes_ = 0;
};

}  // namespace

Result<Node> parse_toml(std::string_view text, const std::string& file, TreeLimits limits) {
  if (text.size() > limits.bytes) return eratos::fault(too_large(file, text.size(), limits.bytes));
  if (auto junk = find_non_text(text, file)) return eratos::fault(std::move(*junk));
  const toml::parse_result parsed = toml::parse(without_byte_order_mark(text));
  Builder builder(std::make_shared<const std::string>(file), limits);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return eratos::fault({.where = builder.place(error.source()).location(),
                          .message = "not valid TOML: " + excerpt(error.description()),
                          .cure = "correct the TOML here"});
  }
  Node root;
  if (!builder.build(parsed.table(), root, 1)) return eratos::fault(std::move(builder.fault));
  root.set_place(Place(std::make_shared<const std::string>(file), 1, 1));
  return root;
}

}  // namespace eratos::text
