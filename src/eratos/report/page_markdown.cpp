#include <string_view>

#include "eratos/report/page.h"

namespace eratos::report {

namespace {

// Text inside a paragraph or a table cell: what markdown would take for markup is escaped.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\*_|<>[]#").find(c) != std::string_view::npos) out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string row_of(const std::vector<std::string>& cells, bool strong = false) {
  std::string out = "|";
  for (const std::string& cell : cells) {
    const std::string text = plain(cell);
    out += ' ' + (strong && !text.empty() ? "**" + text + "**" : text) + " |";
  }
  return out + '\n';
}

std::string table_of(const Table& table) {
  std::vector<std::string> heads;
  std::string rule = "|";
  for (const Column& c : table.columns()) {
    heads.push_back(c.head);
    rule += c.align == Align::right ? "---:|" : "---|";
  }
  std::string out = row_of(heads) + rule + '\n';
  for (const Table::Row& r : table.rows()) out += row_of(r.cells, r.strong);
  return out;
}

}  // namespace

std::string page_markdown(const Page& page) {
  std::string out = "# " + plain(page.title) + "\n\n";
  for (const std::string& line : page.lead) out += plain(line) + "  \n";
  if (!page.facts.empty()) {
    Table facts({{""}, {""}});
    for (const auto& [name, value] : page.facts) facts.row({name, value});
    out += '\n' + table_of(facts);
  }
  for (const Section& s : page.sections) {
    out += "\n## " + plain(s.heading) + "\n\n";
    if (!s.note.empty()) out += plain(s.note) + "\n\n";
    if (!s.drawing.text.empty()) out += "```\n" + s.drawing.text + "```\n";
    for (const Table& table : s.tables) out += table_of(table) + (s.bars.empty() ? "" : "\n");
    if (!s.bars.empty()) {
      Table bars({{""}, {"value", Align::right}, {"share", Align::right}, {""}});
      for (const Bar& b : s.bars) bars.row({b.name, b.value, b.note, bar(b.share, 24)});
      out += table_of(bars);
    }
    if (!s.sentences.empty() && !s.tables.empty()) out += '\n';
    for (const std::string& sentence : s.sentences) out += "- " + plain(sentence) + '\n';
  }
  if (!page.notes.empty()) out += "\n## notes\n\n";
  for (const std::string& note : page.notes) out += "- " + plain(note) + '\n';
  out += "\neratos " + plain(page.version) + '\n';
  return out;
}

}  // namespace eratos::report
