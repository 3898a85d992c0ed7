// First-match tables: data/*.csv whose first column is a glob.
//
// Answers "what does the first line that matches this word say?". Patterns know `*` (any run of
// characters, empty too) and nothing else; case does not matter.
//
// Worked example: in data/framework_aliases.csv "NeMo-2.0 (25.05 recipes)" meets `nemo*`, whose
// `profile` is megatron.
#pragma once

#include <optional>
#include <string_view>

#include "eratos/text/csv.h"

namespace eratos::reader {

bool matches(std::string_view pattern, std::string_view word);

class PatternTable {
 public:
  // `name` of a CSV file of data/. ERATOS_CHECK: it exists and is a table; it is part of the
  // program.
  explicit PatternTable(std::string_view name);

  // The first row whose pattern meets `word` and that `also` accepts.
  template <class Also>
  std::optional<std::size_t> find(std::string_view word, const Also& also) const {
    for (std::size_t row = 0; row < table_.rows(); ++row) {
      if (matches(table_.cell(row, 0), word) && also(row)) return row;
    }
    return std::nullopt;
  }
  std::optional<std::size_t> find(std::string_view word) const {
    return find(word, [](std::size_t) { return true; });
  }
  std::size_t rows() const { return table_.rows(); }
  // ERATOS_CHECK: the column exists.
  std::string_view cell(std::size_t row, std::string_view column) const;

 private:
  text::CsvTable table_;
};

}  // namespace eratos::reader
