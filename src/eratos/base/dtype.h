// Number formats and what an element of each takes in memory.
//
// Worked example: 1,000 bf16 elements are bytes_of(1000, DType::bf16) == Bytes{2000}.
#pragma once

#include <cstdint>
#include <string_view>

#include "eratos/base/units.h"

namespace eratos {

enum class DType : std::uint8_t { fp32, tf32, fp16, bf16, fp8, fp4, int64, int32, int8, bool8 };

// Bytes of one element, scales not included (block formats add theirs as tensors of their own).
constexpr double bytes_per_element(DType t) {
  switch (t) {
    case DType::int64:
      return 8.0;
    case DType::fp32:
    case DType::tf32:
    case DType::int32:
      return 4.0;
    case DType::fp16:
    case DType::bf16:
      return 2.0;
    case DType::fp8:
    case DType::int8:
    case DType::bool8:
      return 1.0;
    case DType::fp4:
      return 0.5;
  }
  return 0.0;
}

constexpr Bytes bytes_of(double elements, DType t) {
  return Bytes{elements * bytes_per_element(t)};
}

constexpr std::string_view name_of(DType t) {
  switch (t) {
    case DType::fp32:
      return "fp32";
    case DType::tf32:
      return "tf32";
    case DType::fp16:
      return "fp16";
    case DType::bf16:
      return "bf16";
    case DType::fp8:
      return "fp8";
    case DType::fp4:
      return "fp4";
    case DType::int64:
      return "int64";
    case DType::int32:
      return "int32";
    case DType::int8:
      return "int8";
    case DType::bool8:
      return "bool8";
  }
  return "?";
}

}  // namespace eratos
