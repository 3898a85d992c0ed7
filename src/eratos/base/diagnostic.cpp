#include "eratos/base/diagnostic.h"

#include <algorithm>
#include <cstddef>

namespace eratos {

namespace {

// Control characters of a user's file must not reach a terminal as they are.
// Nor may a value of megabytes fill it: the beginning says which one it was.
std::string printable(const std::string& text) {
  constexpr char kDigits[] = "0123456789abcdef";
  constexpr std::size_t kMost = 2000;
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const bool inside_character = (byte & 0xc0) == 0x80;  // of UTF-8
    if (i >= kMost && !inside_character) {
      return out + "... (" + std::to_string(text.size() - i) + " bytes more)";
    }
    if (byte >= 0x20 && byte != 0x7f) {
      out += c;
    } else {
      out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return out;
}

}  // namespace

std::string to_text(const Diagnostic& d) {
  std::string out;
  if (!d.where.file.empty()) {
    out += printable(d.where.file);
    if (d.where.line > 0) {
      out += ':' + std::to_string(d.where.line);
      if (d.where.column > 0) out += ':' + std::to_string(d.where.column);
    }
    out += ": ";
  }
  out += "error: " + printable(d.message);
  if (!d.cure.empty()) out += "; " + printable(d.cure);
  return out;
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above + 1, row[j - 1] + 1, change});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view word, const std::vector<std::string>& known) {
  const std::size_t limit = std::clamp<std::size_t>(word.size() / 3, 1, 3);
  std::size_t best = limit + 1;
  std::string name;
  for (const std::string& k : known) {
    const std::size_t d = edit_distance(word, k);
    if (d < best) {
      best = d;
      name = k;
    }
  }
  return name;
}

}  // namespace eratos
