// One line of a CSV of measured runs, by column name; a column that the file lacks reads as empty.
// What a cell leaves out may be known all the same (`fill`): a framework's default, a recipe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eratos/text/csv.h"

namespace eratos::reader {

class TruthRow {
 public:
  TruthRow(const text::CsvTable& table, std::size_t row) : table_(&table), row_(row) {}

  std::string text(std::string_view column) const;
  std::optional<double> number(std::string_view column) const;
  std::optional<int> whole(std::string_view column) const;
  bool says_yes(std::string_view column) const;  // "true" or "yes"
  int line() const { return table_->line(row_); }
  // What an empty cell of `column` says from now on.
  void fill(std::string_view column, std::string_view value);

  // "`mbs` is `four`" for the first numeric column that is neither empty nor a number, else "".
  std::string unreadable() const;

 private:
  const text::CsvTable* table_;
  std::size_t row_;
  std::vector<std::pair<std::string, std::string>> filled_;  // column and value
};

}  // namespace eratos::reader
