#include "eratos/agent/one_line.h"

namespace eratos::agent {
namespace {

// Bytes at the front of `text` that are no mark on paper; 0 where there is one.
std::size_t blank_at(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  if (byte(0) <= 0x20 || byte(0) == 0x7F) return 1;
  if (byte(0) == 0xC2 && byte(1) >= 0x80 && byte(1) < 0xA0) return 2;  // C1
  const bool turns = byte(0) == 0xE2 && ((byte(1) == 0x80 && byte(2) >= 0xAA && byte(2) <= 0xAE) ||
                                         (byte(1) == 0x81 && byte(2) >= 0xA6 && byte(2) <= 0xA9));
  return turns ? 3 : 0;
}

}  // namespace

std::string one_line(std::string_view text, std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < text.size() && out.size() <= bytes;) {
    const std::size_t blank = blank_at(text.substr(i));
    if (blank == 0) {
      out += text[i++];
      continue;
    }
    if (!out.empty() && out.back() != ' ') out += ' ';
    i += blank;
  }
  while (!out.empty() && out.back() == ' ') out.pop_back();
  if (out.size() <= bytes) return out;
  out.resize(bytes);
  while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0) == 0x80) out.pop_back();
  if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xC0) out.pop_back();
  return out + "...";
}

}  // namespace eratos::agent
