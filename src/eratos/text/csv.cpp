#include "eratos/text/csv.h"

#include <algorithm>
#include <utility>

#include "eratos/base/check.h"
#include "eratos/text/encoding.h"
#include "eratos/text/file.h"

namespace eratos::text {

std::optional<std::size_t> CsvTable::column(std::string_view name) const {
  for (std::size_t i = 0; i < header_.size(); ++i) {
    if (header_[i] == name) return i;
  }
  return std::nullopt;
}

Result<std::size_t> CsvTable::require_column(std::string_view name) const {
  if (const auto position = column(name)) return *position;
  const std::string near = nearest_name(name, header_);
  return fault({{file_, 1, 0},
                "no column `" + std::string(name) + "`",
                near.empty() ? "add the column to the header" : "did you mean `" + near + "`?"});
}

std::string_view CsvTable::cell(std::size_t row, std::size_t column) const {
  ERATOS_CHECK(row < rows() && column < columns());
  const Span s = cells_[row * columns() + column];
  return std::string_view(content_).substr(s.begin, s.size);
}

int CsvTable::line(std::size_t row) const {
  ERATOS_CHECK(row < rows());
  return lines_[row];
}

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file) : text_(text) {
    table_.file_ = file;
    table_.content_.reserve(text.size());
  }

  Result<CsvTable> run() {
    bool has_header = false;
    while (next_ < text_.size()) {
      if (take_line_end()) continue;
      const int first_line = line_;
      row_.clear();
      if (!read_row() || faults_.size() >= kMaxFaults) break;
      if (!has_header) {
        has_header = true;
        take_header();
      } else {
        take_row(first_line);
      }
    }
    if (!has_header && faults_.empty()) {
      report(1, 1, "the table is empty", "begin with a row of column names");
    }
    if (!faults_.empty()) return faults(std::move(faults_));
    return std::move(table_);
  }

 private:
  static constexpr std::size_t kMaxFaults = 20;

  void report(int line, int column, std::string message, std::string cure) {
    faults_.push_back({{table_.file_, line, column}, std::move(message), std::move(cure)});
  }

  int column_here() const { return static_cast<int>(next_ - line_start_) + 1; }

  bool take_line_end() {
    std::size_t length = 0;
    if (text_[next_] == '\n') length = 1;
    if (text_.substr(next_, 2) == "\r\n") length = 2;
    if (length == 0) return false;
    next_ += length;
    ++line_;
    line_start_ = next_;
    return true;
  }

  // False when the rest of the file makes no sense.
  bool read_row() {
    places_.clear();
    while (true) {
      places_.push_back({line_, column_here()});
      const std::size_t begin = table_.content_.size();
      if (next_ < text_.size() && text_[next_] == '"') {
        if (!read_quoted()) return false;
      } else {
        read_plain();
      }
      row_.push_back({static_cast<std::uint32_t>(begin),
                      static_cast<std::uint32_t>(table_.content_.size() - begin)});
      row_end_ = {line_, column_here()};
      if (next_ >= text_.size() || take_line_end()) return true;
      if (text_[next_] != ',') {
        report(line_, column_here(), "text after the closing quote of a field",
               "double a quote that belongs to the field");
        return false;
      }
      ++next_;
    }
  }

  void read_plain() {
    const std::size_t begin = next_;
    next_ = std::min(text_.find_first_of(",\n", next_), text_.size());
    std::string_view field = text_.substr(begin, next_ - begin);
    const bool ends_line = next_ >= text_.size() || text_[next_] == '\n';
    if (ends_line && !field.empty() && field.back() == '\r') {
      field.remove_suffix(1);
      if (next_ < text_.size()) --next_;
    }
    if (const std::size_t quote = field.find('"'); quote != std::string_view::npos) {
      report(line_, static_cast<int>(begin + quote - line_start_) + 1,
             "a quote inside a field that is not quoted",
             "quote the whole field and double its quotes");
    }
    table_.content_ += field;
  }

  bool read_quoted() {
    const int opened_line = line_;
    const int opened_column = column_here();
    ++next_;
    while (true) {
      const std::size_t stop = text_.find_first_of("\"\n", next_);
      if (stop == std::string_view::npos) {
        report(opened_line, opened_column, "this quote is never closed",
               "close the field with a quote");
        return false;
      }
      const bool is_quote = text_[stop] == '"';
      table_.content_ += text_.substr(next_, stop - next_ + (is_quote ? 0 : 1));
      next_ = stop + 1;
      if (!is_quote) {
        ++line_;
        line_start_ = next_;
      } else if (next_ < text_.size() && text_[next_] == '"') {
        table_.content_ += '"';
        ++next_;
      } else {
        return true;
      }
    }
  }

  std::string field(const CsvTable::Span& s) const {
    return table_.content_.substr(s.begin, s.size);
  }

  void take_header() {
    for (std::size_t i = 0; i < row_.size(); ++i) {
      std::string name = field(row_[i]);
      if (table_.column(name)) {
        report(places_[i].line, places_[i].column, "column `" + name + "` is given twice",
               "keep one of them");
      }
      table_.header_.push_back(std::move(name));
    }
  }

  void take_row(int first_line) {
    if (row_.size() != table_.columns()) {
      // The first field too many, or the end of a row that is too short.
      const Place at = row_.size() > table_.columns() ? places_[table_.columns()] : row_end_;
      report(at.line, at.column,
             "this row has " + std::to_string(row_.size()) + " fields, the header has " +
                 std::to_string(table_.columns()),
             "give one field a column");
      return;
    }
    table_.cells_.insert(table_.cells_.end(), row_.begin(), row_.end());
    table_.lines_.push_back(first_line);
  }

  struct Place {
    int line = 0;
    int column = 0;
  };

  std::string_view text_;
  CsvTable table_;
  std::vector<CsvTable::Span> row_;
  std::vector<Place> places_;  // where the row's fields begin
  Place row_end_;
  std::size_t next_ = 0;
  int line_ = 1;
  std::size_t line_start_ = 0;
  Diagnostics faults_;
};

Result<CsvTable> parse_csv(std::string_view text, const std::string& file, std::size_t max_bytes) {
  // Spans are 32 bits wide.
  max_bytes = std::min<std::size_t>(max_bytes, 0xFFFFFFFFU);
  if (text.size() > max_bytes) return fault(too_large(file, text.size(), max_bytes));
  if (auto junk = find_non_text(text, file)) return fault(std::move(*junk));
  return CsvReader(without_byte_order_mark(text), file).run();
}

Result<CsvTable> parse_csv_file(const std::string& path, std::size_t max_bytes) {
  const Result<std::string> text = read_file(path, max_bytes);
  if (!text) return faults(text.error());
  return parse_csv(*text, path, max_bytes);
}

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

}  // namespace eratos::text
