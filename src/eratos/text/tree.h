// What did the user write, and where?
//
// A Node is one value of a configuration file (YAML, JSON, ...): null, a scalar, a sequence of
// nodes or a mapping from keys to nodes, in the order of the file. Each remembers its line and
// column, so that any fault found later, by whoever reads the value, names the place.
//
// Worked example: for the file "job.yaml"
//     parallel:
//       tp: 8
// find_at(root, "parallel.tp")->as_int64("parallel.tp") is 8, and ->where() is job.yaml:2:7. With
// `tp: "8"` it is the diagnostic
//     job.yaml:2:7: error: `parallel.tp` must be an integer, found the string `8`; remove the
//     quotes
//
// Lines and columns count from 1; columns count bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/text/scalar.h"

namespace eratos::text {

// A Location whose file name is shared by all nodes of the file.
struct Place {
  std::shared_ptr<const std::string> file;
  int line = 0;
  int column = 0;

  Place() = default;
  Place(std::shared_ptr<const std::string> f, int l, int c)
      : file(std::move(f)), line(l), column(c) {}
  Place(const Location& at)  // NOLINT(google-explicit-constructor): a Location is a Place
      : file(std::make_shared<const std::string>(at.file)), line(at.line), column(at.column) {}

  Location location() const { return {file ? *file : std::string(), line, column}; }
};

struct Entry;

class Node {
 public:
  enum class Kind : std::uint8_t { null, scalar, sequence, mapping };

  Node();  // null, from nowhere
  Node(const Node&);
  Node(Node&&) noexcept;
  Node& operator=(const Node&);
  Node& operator=(Node&&) noexcept;
  ~Node();

  static Node null(Place at = {});
  // An unquoted word as YAML reads it: plain("8") is an integer, plain("~") null.
  static Node plain(std::string word, Place at = {});
  static Node string(std::string text, Place at = {});
  static Node boolean(bool value, Place at = {});
  static Node integer(std::int64_t value, Place at = {});
  static Node number(double value, Place at = {});
  // A scalar whose kind the file states itself (a YAML tag, a JSON number). `word` must read as
  // `kind`; null is Node::null().
  static Node typed(std::string word, ScalarKind kind, Place at = {});
  static Node sequence(std::vector<Node> items = {}, Place at = {});
  static Node mapping(Place at = {});

  Kind kind() const { return kind_; }
  bool is_null() const { return kind_ == Kind::null; }
  bool is_scalar() const { return kind_ == Kind::scalar; }
  bool is_sequence() const { return kind_ == Kind::sequence; }
  bool is_mapping() const { return kind_ == Kind::mapping; }

  Location where() const { return place_.location(); }
  const Place& place() const { return place_; }
  void set_place(Place at) { place_ = std::move(at); }

  // ScalarKind::null for null; ERATOS_CHECK for sequences and mappings.
  ScalarKind scalar_kind() const;
  // Text of a scalar as written, quotes and escapes resolved; "" for everything else.
  const std::string& raw() const { return raw_; }
  bool is_quoted() const { return quoted_; }

  // The value, or a Diagnostic at this node that names `what` (a path, say).
  // as_bool: kind boolean. as_int64: kind integer, within 64 bits. as_double: integers, floats,
  // and plain decimal numbers such as 1e-5 that PyYAML takes for strings; a reader that must follow
  // PyYAML asks scalar_kind() first. as_string: raw() of any scalar (`1.10` stays "1.10").
  Result<bool> as_bool(std::string_view what = "value") const;
  Result<std::int64_t> as_int64(std::string_view what = "value") const;
  Result<double> as_double(std::string_view what = "value") const;
  Result<std::string> as_string(std::string_view what = "value") const;
  // The Diagnostic the four above give: "`what` must be `wanted`, found ...".
  Diagnostic mismatch(std::string_view what, std::string_view wanted, std::string cure = {}) const;
  // "the string `abc`", "a mapping", "null": for messages.
  std::string describe() const;

  // Empty unless a sequence.
  const std::vector<Node>& items() const { return items_; }
  std::vector<Node>& items();  // ERATOS_CHECK: a sequence
  void append(Node item);      // ERATOS_CHECK: a sequence

  // Empty unless a mapping. Keys are unique.
  const std::vector<Entry>& entries() const { return entries_; }
  std::vector<Entry>& entries();  // ERATOS_CHECK: a mapping
  // The value of `key`, or nullptr when there is none or this is no mapping.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  const Entry* find_entry(std::string_view key) const;
  // Replaces the value (and the key's place) or appends. ERATOS_CHECK: a mapping.
  void set(std::string_view key, Node value, Place key_at = {});
  bool erase(std::string_view key);

  // Items of a sequence, entries of a mapping, otherwise 0.
  std::size_t size() const;

  // Same meaning, places ignored: `0x10` equals `16`, the order of keys does not matter.
  friend bool operator==(const Node& a, const Node& b);

 private:
  Node(Kind kind, Place at);

  Kind kind_ = Kind::null;
  ScalarKind scalar_kind_ = ScalarKind::null;
  bool quoted_ = false;
  Place place_;
  std::string raw_;
  std::vector<Node> items_;
  std::vector<Entry> entries_;
};

struct Entry {
  std::string key;
  Place key_place;
  Node value;

  Location key_location() const { return key_place.location(); }
};

inline std::size_t Node::size() const { return items_.size() + entries_.size(); }

// Mappings merge key by key, recursively; everything else, sequences and an explicit null included,
// is replaced by the overlay. New keys follow in the overlay's order. Whatever wins keeps its own
// place. An overlay that is null as a whole gives null: an empty file is for the caller to skip.
Node merge(Node base, const Node& overlay);

// `text` for a message: on one line, cut after 60 bytes.
std::string excerpt(std::string_view text);

// Path of a value: keys and sequence indices joined by dots, "blocks.0.tp". Keys that contain a dot
// cannot be written this way.
std::string join_path(std::string_view parent, std::string_view key);
std::string join_path(std::string_view parent, std::size_t index);

// The value at `path`, or nullptr. The empty path is the root.
const Node* find_at(const Node& root, std::string_view path);

// Puts `value` at `path`, making mappings on the way where there is nothing (or null). Errors, at
// the place of `value`: an empty path or key, a step into a scalar, an index beyond the sequence.
Result<void> set_at(Node& root, std::string_view path, Node value);

// Calls `see(path, node)` for every scalar, null and empty container, in file order.
void for_each_leaf(const Node& root,
                   const std::function<void(const std::string& path, const Node& leaf)>& see);

}  // namespace eratos::text
