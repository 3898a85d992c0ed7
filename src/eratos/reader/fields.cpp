#include "eratos/reader/fields.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace eratos::reader {

namespace {

constexpr Name<DType> kDTypes[] = {
    {"fp32", DType::fp32}, {"tf32", DType::tf32}, {"fp16", DType::fp16}, {"bf16", DType::bf16},
    {"fp8", DType::fp8},   {"fp4", DType::fp4},   {"int8", DType::int8},
};

}  // namespace

std::string list_of(const std::vector<std::string>& names) {
  std::string all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) all += i + 1 == names.size() ? " or " : ", ";
    all += names[i];
  }
  return all;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest_name(word, known);
  if (!near.empty()) return "did you mean `" + near + "`?";
  return known.empty() ? std::string() : "known: " + list_of(known);
}

Fields::Fields(const text::Node* mapping, std::string path, Diagnostics& faults)
    : path_(std::move(path)), faults_(&faults) {
  if (mapping == nullptr || mapping->is_null()) return;
  where_ = mapping->where();
  if (!mapping->is_mapping()) {
    Diagnostic d = mapping->mismatch(path_.empty() ? "the document" : path_, "a mapping");
    d.field = path_;
    faults.push_back(std::move(d));
    return;
  }
  node_ = mapping;
}

Location Fields::where() const { return where_; }

const text::Node* Fields::get(std::string_view key) {
  known_.emplace_back(key);
  if (node_ == nullptr) return nullptr;
  const text::Node* value = node_->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const text::Node* Fields::need(std::string_view key) {
  const text::Node* value = get(key);
  if (value == nullptr && node_ != nullptr) {
    faults_->push_back({.where = where_,
                        .message = "`" + path_of(key) + "` is missing",
                        .cure = "add it",
                        .field = path_of(key)});
  }
  return value;
}

void Fields::fail(std::string_view key, std::string message, std::string cure) {
  const text::Node* value = node_ == nullptr ? nullptr : node_->find(key);
  faults_->push_back({.where = value == nullptr ? where_ : value->where(),
                      .message = std::move(message),
                      .cure = std::move(cure),
                      .field = path_of(key)});
}

namespace {

template <class T>
bool take(Result<T> value, T& to, const std::string& path, Diagnostics& faults) {
  if (value) {
    to = std::move(*value);
    return true;
  }
  for (Diagnostic d : value.error()) {
    d.field = path;
    faults.push_back(std::move(d));
  }
  return false;
}

}  // namespace

bool Fields::read(std::string_view key, int& to) {
  const text::Node* node = get(key);
  if (node == nullptr) return false;
  const std::string path = path_of(key);
  std::int64_t value = 0;
  if (!take(node->as_int64(path), value, path, *faults_)) return false;
  if (value > std::numeric_limits<int>::max() || value < std::numeric_limits<int>::min()) {
    fail(key, "`" + path + "` is " + node->raw() + ", beyond 32 bits", "use a smaller number");
    return false;
  }
  to = static_cast<int>(value);
  return true;
}

bool Fields::read(std::string_view key, double& to) {
  const text::Node* node = get(key);
  if (node == nullptr) return false;
  const std::string path = path_of(key);
  return take(node->as_double(path), to, path, *faults_);
}

bool Fields::read(std::string_view key, bool& to) {
  const text::Node* node = get(key);
  if (node == nullptr) return false;
  const std::string path = path_of(key);
  return take(node->as_bool(path), to, path, *faults_);
}

bool Fields::read(std::string_view key, std::string& to) {
  const text::Node* node = get(key);
  if (node == nullptr) return false;
  const std::string path = path_of(key);
  return take(node->as_string(path), to, path, *faults_);
}

bool Fields::read(std::string_view key, DType& to) { return read_name(key, to, kDTypes); }

bool Fields::read(std::string_view key, std::vector<std::string>& to) {
  const text::Node* node = get(key);
  if (node == nullptr) return false;
  const std::string path = path_of(key);
  if (!node->is_sequence()) {
    Diagnostic d = node->mismatch(path, "a list");
    d.field = path;
    faults_->push_back(std::move(d));
    return false;
  }
  to.clear();
  for (const text::Node& item : node->items()) {
    std::string word;
    if (take(item.as_string(path), word, path, *faults_)) to.push_back(std::move(word));
  }
  return true;
}

bool Fields::read(std::string_view key, std::vector<int>& to) {
  const text::Node* node = get(key);
  if (node == nullptr) return false;
  const std::string path = path_of(key);
  if (!node->is_sequence()) {
    Diagnostic d = node->mismatch(path, "a list of integers");
    d.field = path;
    faults_->push_back(std::move(d));
    return false;
  }
  to.clear();
  for (const text::Node& item : node->items()) {
    std::int64_t value = 0;
    if (take(item.as_int64(path), value, path, *faults_)) to.push_back(static_cast<int>(value));
  }
  return true;
}

void Fields::bad_name(std::string_view key, const text::Node& node,
                      const std::vector<std::string>& known) {
  const std::string path = path_of(key);
  if (!node.is_scalar()) {
    Diagnostic d = node.mismatch(path, "one of " + list_of(known));
    d.field = path;
    faults_->push_back(std::move(d));
    return;
  }
  fail(key, "`" + path + "` cannot be `" + node.raw() + "`; it is one of " + list_of(known), [&] {
    const std::string near = nearest_name(node.raw(), known);
    return near.empty() ? std::string() : "did you mean `" + near + "`?";
  }());
}

void Fields::finish() {
  if (node_ == nullptr) return;
  constexpr int kMost = 20;  // a file of another kind: the rest says no more
  int unknown = 0;
  for (const text::Entry& entry : node_->entries()) {
    if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
    if (++unknown > kMost) continue;
    const std::string near = nearest_name(entry.key, known_);
    faults_->push_back({.where = entry.key_location(),
                        .message = "unknown key `" + path_of(entry.key) + "`",
                        .cure = near.empty() ? "known here: " + list_of(known_)
                                             : "did you mean `" + path_of(near) + "`?",
                        .field = path_of(entry.key)});
  }
  if (unknown > kMost) {
    faults_->push_back({.where = where_,
                        .message = "and " + std::to_string(unknown - kMost) + " more unknown keys" +
                                   (path_.empty() ? "" : " in `" + path_ + "`"),
                        .cure = {},
                        .field = path_});
  }
}

}  // namespace eratos::reader
