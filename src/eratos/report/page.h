// An answer as a page: headings, tables, bars and remarks, before it is text, markdown or HTML.
//
// What a page says is written once (page_project.cpp, page_memory.cpp, compare.cpp); how it looks
// is one file a format. A format is a line in kPageFormats.
//
// Worked example: project_page(answer) of a Mixtral on 64 MI355X has the sections "where the step
// goes", "by module" and "memory a GPU, GiB"; page_html() of it is one file that loads nothing.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "eratos/report/answer.h"
#include "eratos/report/table.h"

namespace eratos::report {

// One line of a bar chart: a name, its value as text, and its share of the whole.
struct Bar {
  std::string name;
  std::string value;  // "1.234 s"
  double share = 0;   // 0 to 1, of the longest possible bar
  std::string note;   // "41.5%"
};

// Parts that fill one bar, in order; shares add up to at most 1.
struct Stack {
  std::string name;
  std::string value;
  std::vector<std::pair<std::string, double>> parts;  // the same names in every stack of a section
  double limit = 1;  // share that should not be passed; below 1 it is marked
};

// A picture in the form each format can show; the SVG is ours, and stands in HTML as it is.
struct Drawing {
  std::string text;  // lines of characters that line up
  std::string svg;
};

struct Section {
  std::string heading;
  std::string note;
  std::vector<Bar> bars;
  std::vector<Stack> stacks;
  std::vector<Table> tables;
  std::vector<std::string> sentences;
  Drawing drawing;
};

struct Page {
  std::string title;
  std::vector<std::string> lead;                           // lines below the title
  std::vector<std::pair<std::string, std::string>> facts;  // "step time", "1.2 s (1.0 to 1.5)"
  bool good = true;                                        // colours the first fact
  std::vector<Section> sections;
  std::vector<std::string> notes;
  std::string version;
};

Page project_page(const Answer& a);
Page memory_page(const Answer& a);

std::string page_text(const Page& page, const Style& style);
std::string page_markdown(const Page& page);
// One file without scripts and without anything to load; light or dark as the reader's system is.
std::string page_html(const Page& page);

}  // namespace eratos::report
