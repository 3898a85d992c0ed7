#include "eratos/report/compare.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "eratos/report/compare_parts.h"

namespace eratos::report {

namespace {

// Labels name the lines where they are short; letters do where they are not, or where jobs are
// columns.
std::vector<std::string> names_of(const std::vector<Compared>& all) {
  constexpr std::size_t kMost = 28;
  bool plain = all.size() > kMostColumns;
  for (const Compared& c : all) plain = plain && width(c.label) <= kMost;
  std::vector<std::string> out;
  for (std::size_t i = 0; i < all.size(); ++i) out.push_back(plain ? all[i].label : letter(i));
  return out;
}

// One line where all run the same model on the same cluster and are called by their labels.
void add_lead(const std::vector<Compared>& all, const std::vector<std::string>& names, Page& page) {
  const std::string first = where(all[0]);
  const bool same =
      std::all_of(all.begin(), all.end(), [&](const Compared& c) { return where(c) == first; });
  if (same && names[0] == all[0].label) {
    page.lead.push_back(first);
    return;
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = names[i] == all[i].label ? names[i] : names[i] + "  " + all[i].label;
    page.lead.push_back(fmt::format("{}   {}", name, where(all[i])));
  }
}

// Each warning once, behind the jobs that have it.
void add_warnings(const std::vector<Compared>& all, const std::vector<std::string>& names,
                  Page& page) {
  std::vector<std::pair<std::string, std::vector<std::string>>> found;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<projection::Warning> warnings = all[i].answer.projection->warnings;
    warnings.insert(warnings.end(), all[i].answer.reader_warnings.begin(),
                    all[i].answer.reader_warnings.end());
    for (const projection::Warning& w : warnings) {
      const std::string text = fmt::format("{} [{}]", w.message, w.code);
      const auto known =
          std::find_if(found.begin(), found.end(), [&](const auto& f) { return f.first == text; });
      std::vector<std::string>& whose =
          known != found.end() ? known->second
                               : found.emplace_back(text, std::vector<std::string>{}).second;
      if (whose.empty() || whose.back() != names[i]) whose.push_back(names[i]);
    }
  }
  for (const auto& [text, whose] : found) {
    std::string who = whose.size() == all.size() ? "all" : "";
    for (std::size_t i = 0; i < whose.size() && whose.size() < all.size(); ++i) {
      who += (i > 0 ? ", " : "") + whose[i];
    }
    page.notes.push_back(who + ": " + text);
  }
}

}  // namespace

Page compare_page(const std::vector<Compared>& all, const std::vector<Refused>& refused) {
  const std::vector<std::string> names = names_of(all);
  Page page;
  page.title = fmt::format("{} jobs compared", all.size());
  add_lead(all, names, page);
  page.sections = all.size() > kMostColumns ? line_sections(all, names) : column_sections(all);
  for (const Refused& r : refused) {
    std::string text = r.label + " is left out: ";
    for (std::size_t i = 0; i < r.faults.size(); ++i) {
      text += (i > 0 ? "; " : "") + r.faults[i].message;
    }
    page.notes.push_back(text);
  }
  add_warnings(all, names, page);
  page.version = all[0].answer.version;
  return page;
}

}  // namespace eratos::report
