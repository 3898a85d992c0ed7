// A vector of at most N elements that lives where it is declared: no allocation on the hot path.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "eratos/base/check.h"

namespace eratos {

// T must be default constructible and cheap to copy. Elements beyond size() are as their constructor
// leaves them. Errors: more than N elements is a programmer's mistake and aborts.
template <class T, std::size_t N>
class InplaceVector {
 public:
  constexpr InplaceVector() = default;
  constexpr InplaceVector(std::initializer_list<T> items) {
    for (const T& item : items) push_back(item);
  }

  constexpr void push_back(const T& item) {
    ERATOS_CHECK(size_ < N);
    items_[size_++] = item;
  }
  constexpr void clear() { size_ = 0; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  static constexpr std::size_t capacity() { return N; }

  constexpr T& operator[](std::size_t i) { return items_[i]; }
  constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  constexpr T& back() { return items_[size_ - 1]; }
  constexpr const T& back() const { return items_[size_ - 1]; }
  constexpr T* begin() { return items_.data(); }
  constexpr T* end() { return items_.data() + size_; }
  constexpr const T* begin() const { return items_.data(); }
  constexpr const T* end() const { return items_.data() + size_; }

  friend constexpr bool operator==(const InplaceVector& a, const InplaceVector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (!(a.items_[i] == b.items_[i])) return false;
    }
    return true;
  }

 private:
  // Small, for hot tables hold many of them.
  using Size = std::conditional_t<N <= 0xff, std::uint8_t, std::uint32_t>;

  std::array<T, N> items_{};
  Size size_ = 0;
};

}  // namespace eratos
