#include "eratos/text/encoding.h"

#include <array>
#include <cstdio>

namespace eratos::text {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

bool is_control(std::string_view s, std::size_t length) {
  const auto first = static_cast<unsigned char>(s[0]);
  if (length == 1) {
    return (first < 0x20 && first != '\t' && first != '\n' && first != '\r') || first == 0x7F;
  }
  // U+0080 to U+009F are controls too; YAML allows only the next line, U+0085.
  if (length == 2 && first == 0xC2) {
    const auto second = static_cast<unsigned char>(s[1]);
    return second < 0xA0 && second != 0x85;
  }
  return false;
}

}  // namespace

// Source: The Unicode Standard 15.0, table 3-7 (well-formed UTF-8 byte sequences).
std::size_t utf8_length(std::string_view s) {
  if (s.empty()) return 0;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (s.size() < length) return 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (first == 0xE0) low = 0xA0;
  if (first == 0xED) high = 0x9F;
  if (first == 0xF0) low = 0x90;
  if (first == 0xF4) high = 0x8F;
  if (byte(1) < low || byte(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  return length;
}

std::optional<Diagnostic> find_non_text(std::string_view bytes, const std::string& file) {
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < bytes.size();) {
    const std::string_view rest = bytes.substr(i);
    const std::size_t length = utf8_length(rest);
    if (length == 0 || is_control(rest, length)) {
      std::array<char, 8> hex{};
      std::snprintf(hex.data(), hex.size(), "0x%02X",
                    static_cast<unsigned>(static_cast<unsigned char>(bytes[i])));
      const std::string what = length == 0 ? "is not UTF-8" : "is a control character";
      return Diagnostic{{file, line, static_cast<int>(i - line_start) + 1},
                        "not a text file: byte " + std::string(hex.data()) + " at offset " +
                            std::to_string(i) + " " + what,
                        "give a text file in UTF-8"};
    }
    if (bytes[i] == '\n') {
      ++line;
      line_start = i + 1;
    }
    i += length;
  }
  return std::nullopt;
}

std::string_view without_byte_order_mark(std::string_view bytes) {
  return bytes.substr(0, kByteOrderMark.size()) == kByteOrderMark
             ? bytes.substr(kByteOrderMark.size())
             : bytes;
}

}  // namespace eratos::text
