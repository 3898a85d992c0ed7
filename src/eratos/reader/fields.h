// Reading a mapping strictly: every key is asked for by name, and what nobody asked for is a fault.
//
// Answers "is this mapping what its schema says, and if not, everything that is wrong with it?".
// Faults go to one list, so that a reader goes on after the first and reports all at once.
//
// Worked example: for `parallel: {tp: 8, ppp: 2}`
//   Fields parallel(node, "parallel", faults);
//   parallel.read("tp", spec.tp);   // 8
//   parallel.read("pp", spec.pp);   // absent: untouched
//   parallel.finish();              // job.yaml:1:19: error: unknown key `parallel.ppp`; did you
//                                   // mean `parallel.pp`?
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/base/dtype.h"
#include "eratos/base/units.h"
#include "eratos/text/tree.h"

namespace eratos::reader {

template <class E>
using Name = std::pair<std::string_view, E>;

class Fields {
 public:
  // `mapping` may be nullptr (nothing is there) or null; anything else that is no mapping is a
  // fault. Both references must outlive this.
  Fields(const text::Node* mapping, std::string path, Diagnostics& faults);

  bool exists() const { return node_ != nullptr; }
  Location where() const;
  const std::string& path() const { return path_; }
  std::string path_of(std::string_view key) const { return text::join_path(path_, key); }

  // The value of `key`, or nullptr where it is absent or null. Marks the key as known.
  const text::Node* get(std::string_view key);
  // The same, absent or null being a fault.
  const text::Node* need(std::string_view key);

  // Each sets `to` and returns true when `key` is there and not null. Errors: another kind, a
  // number that does not fit.
  bool read(std::string_view key, int& to);
  bool read(std::string_view key, double& to);
  bool read(std::string_view key, bool& to);
  bool read(std::string_view key, std::string& to);
  bool read(std::string_view key, DType& to);
  bool read(std::string_view key, std::vector<std::string>& to);
  bool read(std::string_view key, std::vector<int>& to);
  template <class Tag>
  bool read(std::string_view key, Quantity<Tag>& to, double scale = 1.0) {
    double value = 0;
    if (!read(key, value)) return false;
    to = Quantity<Tag>{value * scale};
    return true;
  }
  // As read(), and a fault when absent.
  template <class T>
  bool require(std::string_view key, T& to) {
    return need(key) != nullptr && read(key, to);
  }

  // A word of a fixed list.
  template <class E, std::size_t N>
  bool read_name(std::string_view key, E& to, const Name<E> (&names)[N]) {
    const text::Node* node = get(key);
    if (node == nullptr) return false;
    std::vector<std::string> known;
    for (const auto& [name, value] : names) {
      if (node->is_scalar() && node->raw() == name) {
        to = value;
        return true;
      }
      known.emplace_back(name);
    }
    bad_name(key, *node, known);
    return false;
  }

  Fields child(std::string_view key) { return {get(key), path_of(key), *faults_}; }

  // Names a key as known without reading it.
  void skip(std::string_view key) { known_.emplace_back(key); }

  bool is_known(std::string_view key) const {
    return std::find(known_.begin(), known_.end(), key) != known_.end();
  }

  void fail(std::string_view key, std::string message, std::string cure = {});

  // Faults every key that was never asked for, with the nearest known one.
  void finish();

 private:
  void bad_name(std::string_view key, const text::Node& node,
                const std::vector<std::string>& known);

  const text::Node* node_ = nullptr;
  std::string path_;
  Diagnostics* faults_;
  Location where_;
  std::vector<std::string> known_;
};

// "a, b or c"
std::string list_of(const std::vector<std::string>& names);

// " did you mean `x`?" or, where nothing is near, "known: a, b or c".
std::string suggestion(std::string_view word, const std::vector<std::string>& known);

}  // namespace eratos::reader
