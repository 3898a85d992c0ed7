#include <algorithm>

#include "eratos/report/page.h"

namespace eratos::report {

namespace {

constexpr std::size_t kColumns = 95;  // and "note " before the first line
constexpr int kBarColumns = 40;

std::string bar_lines(const std::vector<Bar>& bars, const Style& style) {
  std::size_t name = 0;
  std::size_t value = 0;
  std::size_t note = 0;
  for (const Bar& b : bars) {
    name = std::max(name, width(b.name));
    value = std::max(value, width(b.value));
    note = std::max(note, width(b.note));
  }
  std::string out;
  for (const Bar& b : bars) {
    out += "  " + padded(b.name, name) + "  " + padded(b.value, value, Align::right) + "  " +
           padded(b.note, note, Align::right) + "  " + style.bar(bar(b.share, kBarColumns)) + '\n';
  }
  return out;
}

}  // namespace

std::string page_text(const Page& page, const Style& style) {
  std::string out = style.bold(page.title) + '\n';
  for (const std::string& line : page.lead) out += line + '\n';
  if (!page.facts.empty()) {
    Table facts({{""}, {""}});
    for (const auto& [name, value] : page.facts) facts.row({name, value});
    out += '\n' + facts.text(0, style);
  }
  for (const Section& s : page.sections) {
    out += '\n' + style.bold(s.heading);
    if (!s.note.empty()) out += style.dim("   " + s.note);
    out += '\n';
    out += s.drawing.text;
    for (const Table& table : s.tables) out += table.text(2, style);
    out += bar_lines(s.bars, style);
    for (const std::string& sentence : s.sentences) {
      out += "  " + wrapped(sentence, kColumns, "  ") + '\n';
    }
  }
  if (!page.notes.empty()) out += '\n';
  for (const std::string& note : page.notes) {
    out += style.dim("note ") + wrapped(note, kColumns, "     ") + '\n';
  }
  return out;
}

}  // namespace eratos::report
