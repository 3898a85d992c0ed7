// Columns that line up, bars, and colour: the little that a text report needs.
//
// Widths count characters, not bytes, so "7.5 µs" and a bar line up too.
//
// Worked example: Table t({{"stage"}, {"GiB", Align::right}}); t.row({"0", "71.2"});
// t.text(2) is "  stage   GiB\n  0      71.2\n".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace eratos::report {

// How the text may look; a file or a pipe gets no colour.
struct Style {
  bool colour = false;

  std::string bold(std::string_view s) const { return paint("1", s); }
  std::string dim(std::string_view s) const { return paint("2", s); }
  std::string good(std::string_view s) const { return paint("1;32", s); }
  std::string bad(std::string_view s) const { return paint("1;31", s); }
  std::string bar(std::string_view s) const { return paint("36", s); }

 private:
  std::string paint(std::string_view code, std::string_view s) const;
};

enum class Align { left, right };

struct Column {
  std::string head;
  Align align = Align::left;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // ERATOS_CHECK: as many cells as columns.
  void row(std::vector<std::string> cells, bool strong = false);
  struct Row {
    std::vector<std::string> cells;
    bool strong = false;
  };
  const std::vector<Column>& columns() const { return columns_; }
  const std::vector<Row>& rows() const { return rows_; }

  // Lines indented by `indent`, columns two apart, no trailing blanks. A strong row is bold.
  std::string text(int indent, const Style& style = {}) const;

 private:
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// Characters of UTF-8 text (one column each).
std::size_t width(std::string_view s);
std::string padded(std::string_view s, std::size_t columns, Align align = Align::left);

// `share` of `columns` cells as blocks, to an eighth of a cell; at least a sliver when positive.
std::string bar(double share, int columns);

// Breaks text at blanks into lines of at most `columns`, each after the first behind `indent`.
std::string wrapped(std::string_view text, std::size_t columns, std::string_view indent);

}  // namespace eratos::report
