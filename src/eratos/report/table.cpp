#include "eratos/report/table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "eratos/base/check.h"

namespace eratos::report {

std::string Style::paint(std::string_view code, std::string_view s) const {
  if (!colour) return std::string(s);
  std::string out = "\x1b[";
  out += code;
  out += 'm';
  out += s;
  out += "\x1b[0m";
  return out;
}

void Table::row(std::vector<std::string> cells, bool strong) {
  ERATOS_CHECK(cells.size() == columns_.size());
  rows_.push_back({std::move(cells), strong});
}

std::string Table::text(int indent, const Style& style) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t most = width(columns_[c].head);
    for (const Row& r : rows_) most = std::max(most, width(r.cells[c]));
    widths.push_back(most);
  }
  const auto line_of = [&](const auto& cell_of) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line += "  ";
      line += padded(cell_of(c), widths[c], columns_[c].align);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  };
  std::string out;
  const bool headed = std::any_of(columns_.begin(), columns_.end(),
                                  [](const Column& c) { return !c.head.empty(); });
  if (headed) out += style.dim(line_of([&](std::size_t c) { return columns_[c].head; })) + '\n';
  for (const Row& r : rows_) {
    const std::string line = line_of([&](std::size_t c) { return r.cells[c]; });
    out += (r.strong ? style.bold(line) : line) + '\n';
  }
  return out;
}

std::size_t width(std::string_view s) {
  return static_cast<std::size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U; }));
}

std::string padded(std::string_view s, std::size_t columns, Align align) {
  const std::size_t have = width(s);
  const std::string blanks(have < columns ? columns - have : 0, ' ');
  return align == Align::left ? std::string(s) + blanks : blanks + std::string(s);
}

std::string bar(double share, int columns) {
  constexpr std::array<std::string_view, 8> kPart{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  if (!(share > 0)) return "";
  const auto eighths =
      std::max(1L, std::lround(std::min(share, 1.0) * 8 * static_cast<double>(columns)));
  std::string out;
  for (long i = 0; i < eighths / 8; ++i) out += "█";
  out += kPart[static_cast<std::size_t>(eighths % 8)];
  return out;
}

std::string wrapped(std::string_view text, std::size_t columns, std::string_view indent) {
  std::string out;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (used > 0 && used + 1 + width(word) > columns) {
      out += '\n';
      out += indent;
      used = width(indent);
    } else if (used > 0) {
      out += ' ';
      ++used;
    }
    out += word;
    used += width(word);
  }
  return out;
}

}  // namespace eratos::report
