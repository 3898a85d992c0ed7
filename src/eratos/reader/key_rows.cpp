#include "eratos/reader/key_rows.h"

#include "eratos/reader/pattern_table.h"

namespace eratos::reader {

namespace {

// Calls `see(theirs, ours)` for each pair until it returns true.
template <class See>
std::string_view search(std::string_view words, const See& see) {
  while (!words.empty()) {
    const std::size_t comma = words.find(',');
    const std::string_view pair = words.substr(0, comma);
    const std::size_t equals = pair.find('=');
    if (equals != std::string_view::npos) {
      const std::string_view found = see(pair.substr(0, equals), pair.substr(equals + 1));
      if (!found.empty()) return found;
    }
    if (comma == std::string_view::npos) break;
    words.remove_prefix(comma + 1);
  }
  return {};
}

}  // namespace

const KeyRow* find_row(KeyRows rows, std::string_view key) {
  const KeyRow* best = nullptr;
  for (const KeyRow& row : rows) {
    if (row.key == key) return &row;
    if (row.key.empty() || row.key.back() != '*') continue;
    const std::string_view prefix = row.key.substr(0, row.key.size() - 1);
    if (key.substr(0, prefix.size()) != prefix) continue;
    if (best == nullptr || row.key.size() > best->key.size()) best = &row;
  }
  return best;
}

std::string_view our_word(std::string_view words, std::string_view theirs) {
  return search(words, [&](std::string_view a, std::string_view b) {
    return matches(a, theirs) ? b : std::string_view();
  });
}

std::string_view their_word(std::string_view words, std::string_view ours) {
  return search(words, [&](std::string_view a, std::string_view b) {
    return b == ours ? a : std::string_view();
  });
}

}  // namespace eratos::reader
