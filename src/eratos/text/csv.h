// From a CSV file to cells that know their lines.
//
// RFC 4180: commas, fields in double quotes may hold commas, line breaks and doubled quotes; lines
// end in LF or CRLF. The first row names the columns. Stricter: every row must have as many fields
// as the header, and a column name may be given once. More lenient: empty lines are skipped.
// Source: RFC 4180, "Common Format and MIME Type for Comma-Separated Values (CSV) Files", 2005.
//
// Worked example: parse_csv("id,tp\nrun-1,8\n", "runs.csv") has one row; cell(0, *column("tp")) is
// "8" and line(0) is 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "eratos/base/diagnostic.h"
#include "eratos/text/limits.h"

namespace eratos::text {

class CsvTable {
 public:
  const std::string& file() const { return file_; }
  const std::vector<std::string>& header() const { return header_; }
  std::size_t columns() const { return header_.size(); }
  std::size_t rows() const { return lines_.size(); }

  // Position of the column of that name.
  std::optional<std::size_t> column(std::string_view name) const;
  // As column(), or a Diagnostic with the nearest name.
  Result<std::size_t> require_column(std::string_view name) const;

  // Content of a field, quotes resolved; valid as long as the table. ERATOS_CHECK: both in range.
  std::string_view cell(std::size_t row, std::size_t column) const;
  // Line on which the row begins, from 1.
  int line(std::size_t row) const;
  Location where(std::size_t row) const { return {file_, line(row), 0}; }

 private:
  friend class CsvReader;

  struct Span {
    std::uint32_t begin = 0;
    std::uint32_t size = 0;
  };

  std::string file_;
  std::string content_;  // fields with quotes resolved, one after another
  std::vector<std::string> header_;
  std::vector<Span> cells_;  // row by row
  std::vector<int> lines_;
};

// Errors: text after a closing quote, a quote inside an unquoted field, a quote never closed, a row
// of another length, a column given twice, no header, not text, too large. Up to 20 at once.
Result<CsvTable> parse_csv(std::string_view text, const std::string& file,
                           std::size_t max_bytes = kMaxTableBytes);
Result<CsvTable> parse_csv_file(const std::string& path, std::size_t max_bytes = kMaxTableBytes);

// A field as it stands in a CSV file: in double quotes where it must be.
std::string csv_field(std::string_view text);

}  // namespace eratos::text
