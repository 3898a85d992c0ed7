// The fields of a plain struct, one by one: whoever writes a value down or reads it back needs no
// list of its own that a new field could be missing from.
//
// A struct here is an aggregate without bases, arrays of C or bit fields, of 1 to 40 fields.
//
// Worked example: struct P { int x; double y; } p; has kFields<P> == 2, and fields_of(p) is
// std::tie(p.x, p.y).
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace eratos::store {

namespace detail {

inline constexpr std::size_t kMostFields = 40;

struct Anything {
  template <class T>
  operator T() const;  // never called, so never written: only whether it could be is asked
};
template <std::size_t>
using OneOfMany = Anything;

template <class T, std::size_t... I>
constexpr bool takes(std::index_sequence<I...> /*as many initializers*/) {
  return requires { T{OneOfMany<I>{}...}; };
}

template <class T, std::size_t N = kMostFields + 1>
constexpr std::size_t count_fields() {
  if constexpr (takes<T>(std::make_index_sequence<N>())) {
    return N;
  } else {
    return count_fields<T, N - 1>();
  }
}

}  // namespace detail

template <class T>
inline constexpr std::size_t kFields = detail::count_fields<T>();

// clang-format off
#define ERATOS_NAMES_1 f1
#define ERATOS_NAMES_2 ERATOS_NAMES_1, f2
#define ERATOS_NAMES_3 ERATOS_NAMES_2, f3
#define ERATOS_NAMES_4 ERATOS_NAMES_3, f4
#define ERATOS_NAMES_5 ERATOS_NAMES_4, f5
#define ERATOS_NAMES_6 ERATOS_NAMES_5, f6
#define ERATOS_NAMES_7 ERATOS_NAMES_6, f7
#define ERATOS_NAMES_8 ERATOS_NAMES_7, f8
#define ERATOS_NAMES_9 ERATOS_NAMES_8, f9
#define ERATOS_NAMES_10 ERATOS_NAMES_9, f10
#define ERATOS_NAMES_11 ERATOS_NAMES_10, f11
#define ERATOS_NAMES_12 ERATOS_NAMES_11, f12
#define ERATOS_NAMES_13 ERATOS_NAMES_12, f13
#define ERATOS_NAMES_14 ERATOS_NAMES_13, f14
#define ERATOS_NAMES_15 ERATOS_NAMES_14, f15
#define ERATOS_NAMES_16 ERATOS_NAMES_15, f16
#define ERATOS_NAMES_17 ERATOS_NAMES_16, f17
#define ERATOS_NAMES_18 ERATOS_NAMES_17, f18
#define ERATOS_NAMES_19 ERATOS_NAMES_18, f19
#define ERATOS_NAMES_20 ERATOS_NAMES_19, f20
#define ERATOS_NAMES_21 ERATOS_NAMES_20, f21
#define ERATOS_NAMES_22 ERATOS_NAMES_21, f22
#define ERATOS_NAMES_23 ERATOS_NAMES_22, f23
#define ERATOS_NAMES_24 ERATOS_NAMES_23, f24
#define ERATOS_NAMES_25 ERATOS_NAMES_24, f25
#define ERATOS_NAMES_26 ERATOS_NAMES_25, f26
#define ERATOS_NAMES_27 ERATOS_NAMES_26, f27
#define ERATOS_NAMES_28 ERATOS_NAMES_27, f28
#define ERATOS_NAMES_29 ERATOS_NAMES_28, f29
#define ERATOS_NAMES_30 ERATOS_NAMES_29, f30
#define ERATOS_NAMES_31 ERATOS_NAMES_30, f31
#define ERATOS_NAMES_32 ERATOS_NAMES_31, f32
#define ERATOS_NAMES_33 ERATOS_NAMES_32, f33
#define ERATOS_NAMES_34 ERATOS_NAMES_33, f34
#define ERATOS_NAMES_35 ERATOS_NAMES_34, f35
#define ERATOS_NAMES_36 ERATOS_NAMES_35, f36
#define ERATOS_NAMES_37 ERATOS_NAMES_36, f37
#define ERATOS_NAMES_38 ERATOS_NAMES_37, f38
#define ERATOS_NAMES_39 ERATOS_NAMES_38, f39
#define ERATOS_NAMES_40 ERATOS_NAMES_39, f40
#define ERATOS_TIE(n)                     \
  if constexpr (kCount == (n)) {          \
    auto& [ERATOS_NAMES_##n] = value;     \
    return std::tie(ERATOS_NAMES_##n);    \
  }

// T may be const.
template <class T>
constexpr auto fields_of(T& value) {
  static_assert(std::is_aggregate_v<T>);
  constexpr std::size_t kCount = kFields<std::remove_const_t<T>>;
  static_assert(kCount > 0 && kCount <= detail::kMostFields);
  ERATOS_TIE(1) ERATOS_TIE(2) ERATOS_TIE(3) ERATOS_TIE(4) ERATOS_TIE(5) ERATOS_TIE(6)
  ERATOS_TIE(7) ERATOS_TIE(8) ERATOS_TIE(9) ERATOS_TIE(10) ERATOS_TIE(11) ERATOS_TIE(12)
  ERATOS_TIE(13) ERATOS_TIE(14) ERATOS_TIE(15) ERATOS_TIE(16) ERATOS_TIE(17) ERATOS_TIE(18)
  ERATOS_TIE(19) ERATOS_TIE(20) ERATOS_TIE(21) ERATOS_TIE(22) ERATOS_TIE(23) ERATOS_TIE(24)
  ERATOS_TIE(25) ERATOS_TIE(26) ERATOS_TIE(27) ERATOS_TIE(28) ERATOS_TIE(29) ERATOS_TIE(30)
  ERATOS_TIE(31) ERATOS_TIE(32) ERATOS_TIE(33) ERATOS_TIE(34) ERATOS_TIE(35) ERATOS_TIE(36)
  ERATOS_TIE(37) ERATOS_TIE(38) ERATOS_TIE(39) ERATOS_TIE(40)
}

#undef ERATOS_TIE
#undef ERATOS_NAMES_1
#undef ERATOS_NAMES_2
#undef ERATOS_NAMES_3
#undef ERATOS_NAMES_4
#undef ERATOS_NAMES_5
#undef ERATOS_NAMES_6
#undef ERATOS_NAMES_7
#undef ERATOS_NAMES_8
#undef ERATOS_NAMES_9
#undef ERATOS_NAMES_10
#undef ERATOS_NAMES_11
#undef ERATOS_NAMES_12
#undef ERATOS_NAMES_13
#undef ERATOS_NAMES_14
#undef ERATOS_NAMES_15
#undef ERATOS_NAMES_16
#undef ERATOS_NAMES_17
#undef ERATOS_NAMES_18
#undef ERATOS_NAMES_19
#undef ERATOS_NAMES_20
#undef ERATOS_NAMES_21
#undef ERATOS_NAMES_22
#undef ERATOS_NAMES_23
#undef ERATOS_NAMES_24
#undef ERATOS_NAMES_25
#undef ERATOS_NAMES_26
#undef ERATOS_NAMES_27
#undef ERATOS_NAMES_28
#undef ERATOS_NAMES_29
#undef ERATOS_NAMES_30
#undef ERATOS_NAMES_31
#undef ERATOS_NAMES_32
#undef ERATOS_NAMES_33
#undef ERATOS_NAMES_34
#undef ERATOS_NAMES_35
#undef ERATOS_NAMES_36
#undef ERATOS_NAMES_37
#undef ERATOS_NAMES_38
#undef ERATOS_NAMES_39
#undef ERATOS_NAMES_40
// clang-format on

}  // namespace eratos::store
