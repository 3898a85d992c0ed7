// CRC-32 as zlib and PNG compute it: polynomial 0xEDB88320, reflected, all ones before and after.
//
// Answers "which of these lines are held out?" the same way in every language.
// Source: ISO 3309; RFC 1952, section 8.
// Worked example: crc32("123456789") is 0xCBF43926.
#pragma once

#include <cstdint>
#include <string_view>

namespace eratos {

constexpr std::uint32_t crc32(std::string_view text) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

}  // namespace eratos
