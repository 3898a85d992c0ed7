#include "eratos/reader/pattern_table.h"

#include <cctype>
#include <string>

#include "eratos/base/check.h"
#include "eratos/catalogue_data.h"

namespace eratos::reader {

namespace {

char lower(char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); }

text::CsvTable table_called(std::string_view name) {
  for (const DataFile& file : data_files()) {
    if (!file.folder.empty() || file.name != name) continue;
    Result<text::CsvTable> table = text::parse_csv(file.text, "data/" + std::string(name) + ".csv");
    ERATOS_CHECK(table.has_value());
    return *std::move(table);
  }
  ERATOS_CHECK(false);
  return {};
}

}  // namespace

bool matches(std::string_view pattern, std::string_view word) {
  // On a mismatch the last `*` swallows one more character.
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0;
  std::size_t w = 0;
  std::size_t star = kNone;
  std::size_t star_word = 0;
  while (w < word.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_word = w;
    } else if (p < pattern.size() && lower(pattern[p]) == lower(word[w])) {
      ++p;
      ++w;
    } else if (star != kNone) {
      p = star + 1;
      w = ++star_word;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

PatternTable::PatternTable(std::string_view name) : table_(table_called(name)) {}

std::string_view PatternTable::cell(std::size_t row, std::string_view column) const {
  const std::optional<std::size_t> at = table_.column(column);
  ERATOS_CHECK(at.has_value());
  return table_.cell(row, *at);
}

}  // namespace eratos::reader
