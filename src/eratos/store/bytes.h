// A plain value as bytes, and back: every field of every struct in it, whatever is added to it
// later (fields.h). Bytes are those of this machine: they go to another process of the same
// program, or into a digest, never to another program.
//
// Numbers and enumerators lie as in memory; texts and lists begin with their length, a variant with
// the place of its alternative.
//
// Worked example: struct { std::string name; int pp; } of {"a", 4} is 8 bytes of 1, "a", 4 bytes
// of 4.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "eratos/base/inplace_vector.h"
#include "eratos/base/units.h"
#include "eratos/store/fields.h"

namespace eratos::store {

class Writer {
 public:
  std::string bytes;

  template <class T>
  void operator()(const T& v) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      bytes.append(reinterpret_cast<const char*>(&v), sizeof v);
    } else {
      write(v);
    }
  }

 private:
  template <class Tag>
  void write(const Quantity<Tag>& v) {
    (*this)(v.value);
  }
  void write(const std::string& v) {
    length(v.size());
    bytes += v;
  }
  template <class T>
  void write(const std::vector<T>& v) {
    length(v.size());
    for (const T& one : v) (*this)(one);
  }
  template <class T, std::size_t N>
  void write(const InplaceVector<T, N>& v) {
    length(v.size());
    for (const T& one : v) (*this)(one);
  }
  template <class T, std::size_t N>
  void write(const std::array<T, N>& v) {
    for (const T& one : v) (*this)(one);
  }
  template <std::size_t N>
  void write(const std::bitset<N>& v) {
    static_assert(N <= 64);
    (*this)(static_cast<std::uint64_t>(v.to_ullong()));
  }
  template <class... T>
  void write(const std::variant<T...>& v) {
    (*this)(static_cast<std::uint8_t>(v.index()));
    std::visit(*this, v);
  }
  void write(const std::monostate& /*nothing in it*/) {}
  template <class T>
  requires std::is_aggregate_v<T>
  void write(const T& v) {
    std::apply([this](const auto&... field) { ((*this)(field), ...); }, fields_of(v));
  }
  void length(std::size_t n) { (*this)(static_cast<std::uint64_t>(n)); }
};

// What does not end where the value does, or holds a length that it has no bytes for, is not
// good().
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  bool good() const { return good_; }
  bool at_end() const { return left_.empty(); }

  template <class T>
  void operator()(T& v) {
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      (*this)(byte);
      if (byte > 1) good_ = false;
      v = byte == 1;
    } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      if (const char* from = take(sizeof v)) std::memcpy(&v, from, sizeof v);
    } else {
      read(v);
    }
  }

 private:
  template <class Tag>
  void read(Quantity<Tag>& v) {
    (*this)(v.value);
  }
  void read(std::string& v) {
    const std::size_t n = length();
    if (const char* from = take(n)) v.assign(from, n);
  }
  template <class T>
  void read(std::vector<T>& v) {
    v.clear();
    for (std::size_t n = length(); n > 0 && good_; --n) (*this)(v.emplace_back());
  }
  template <class T, std::size_t N>
  void read(InplaceVector<T, N>& v) {
    v.clear();
    const std::size_t n = length();
    if (n > N) good_ = false;
    for (std::size_t i = 0; i < n && good_; ++i) {
      T one{};
      (*this)(one);
      v.push_back(one);
    }
  }
  template <class T, std::size_t N>
  void read(std::array<T, N>& v) {
    for (T& one : v) (*this)(one);
  }
  template <std::size_t N>
  void read(std::bitset<N>& v) {
    static_assert(N <= 64);
    std::uint64_t bits = 0;
    (*this)(bits);
    v = std::bitset<N>(bits);
    if (v.to_ullong() != bits) good_ = false;
  }
  template <class... T>
  void read(std::variant<T...>& v) {
    std::uint8_t at = 0;
    (*this)(at);
    if (at >= sizeof...(T)) good_ = false;
    if (good_) read_alternative(v, at, std::index_sequence_for<T...>());
  }
  template <class V, std::size_t... I>
  void read_alternative(V& v, std::size_t at, std::index_sequence<I...> /*of all alternatives*/) {
    ((at == I ? (*this)(v.template emplace<I>()) : void()), ...);
  }
  void read(std::monostate& /*nothing in it*/) {}
  template <class T>
  requires std::is_aggregate_v<T>
  void read(T& v) {
    std::apply([this](auto&... field) { ((*this)(field), ...); }, fields_of(v));
  }

  std::size_t length() {
    std::uint64_t n = 0;
    (*this)(n);
    // An element is a byte at least: a length beyond what is left is broken, and allocates nothing.
    if (n > left_.size()) good_ = false;
    return good_ ? static_cast<std::size_t>(n) : 0;
  }
  const char* take(std::size_t n) {
    if (!good_ || n > left_.size()) {
      good_ = false;
      return nullptr;
    }
    const char* from = left_.data();
    left_.remove_prefix(n);
    return from;
  }

  std::string_view left_;
  bool good_ = true;
};

template <class T>
std::string bytes_of(const T& value) {
  Writer w;
  w(value);
  return std::move(w.bytes);
}

// False when the bytes are not those of a T; `value` is then anything.
template <class T>
bool from_bytes(std::string_view bytes, T& value) {
  Reader r(bytes);
  r(value);
  return r.good() && r.at_end();
}

}  // namespace eratos::store
